"""Requests of several services on the same servers, one by one, under a scheduling discipline: logs for inversions.

`fcfs` serves in the order of arrival, `rr` gives everybody a turn of `slice_ms` and then puts it at the end of the
queue, `priority` interrupts the less critical (who resume later, with what they have left).
Work is drawn from the same distributions as in osml.simulator.queueing.event_simulation.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from osml.base.failure import InputError
from osml.base.jit import compiled
from osml.lab.theory.inversions import FloatArray, IntArray

Discipline = Literal["fcfs", "rr", "priority"]
DISCIPLINES: tuple[Discipline, ...] = ("fcfs", "rr", "priority")
MOST_REQUESTS = 2_000_000
_CODES = {"fcfs": 0, "rr": 1, "priority": 2}


@dataclass(frozen=True)
class Stream:
    """Requests of one service: `rank` 0 is the most critical. Times are in ms, `cv2` and `burstiness` are squared
    coefficients of variation of service times and of intervals between arrivals.
    """

    name: str
    rank: int
    arrivals_per_s: float
    service_ms: float
    cv2: float
    burstiness: float = 1.0


@dataclass(frozen=True)
class RequestLog:
    """What became of each request, in the order of arrival; `stream` numbers the streams. All times in ms."""

    names: tuple[str, ...]
    stream: IntArray
    rank: IntArray
    arrival_ms: FloatArray
    start_ms: FloatArray
    finish_ms: FloatArray
    service_ms: FloatArray
    servers: int

    @property
    def latency_ms(self) -> FloatArray:
        """Response times."""
        return self.finish_ms - self.arrival_ms


@compiled
def _least_critical(rank: IntArray, running: IntArray) -> int:
    """The server whose request is the least critical, the latest among equals; all are busy."""
    worst = 0
    for k in range(1, len(running)):
        if (rank[running[k]], running[k]) > (rank[running[worst]], running[worst]):
            worst = k
    return worst


@compiled
def _serve(
    code: int,
    servers: int,
    slice_ms: float,
    rank: IntArray,
    arrival: FloatArray,
    work: FloatArray,
    start: FloatArray,
    finish: FloatArray,
) -> None:
    """Fill `start` and `finish`. `code` is a discipline's; requests are in the order of arrival.

    The queue is ordered by (key, number): the arrival for FCFS, the turn for RR, the rank for priority.
    """
    n = len(arrival)
    left = work.copy()
    running = np.full(servers, -1, np.int64)  # who is on each server
    until = np.full(servers, np.inf)  # and when that ends: done, or end of turn
    queue = [(0.0, 0)]
    queue.clear()
    turn, coming, done = 0.0, 0, 0
    while done < n:
        first = int(np.argmin(until))
        if coming < n and arrival[coming] <= until[first]:
            now, new = arrival[coming], coming
            coming += 1
            turn += 1.0
            heapq.heappush(queue, (float(rank[new]) if code == 2 else turn, new))
        else:
            now, old = until[first], running[first]
            running[first], until[first] = -1, np.inf
            turn_ms = min(left[old], slice_ms) if code == 1 else left[old]
            left[old] -= turn_ms
            if left[old] <= 0.0:
                finish[old] = now
                done += 1
            else:
                turn += 1.0
                heapq.heappush(queue, (turn, old))
        for k in range(servers):
            if running[k] >= 0 or not queue:
                continue
            _, taken = heapq.heappop(queue)
            if start[taken] < 0.0:
                start[taken] = now
            running[k] = taken
            until[k] = now + (min(left[taken], slice_ms) if code == 1 else left[taken])
        if code == 2 and queue:  # nobody is idle now: interrupt the least critical if somebody more critical waits
            worst = _least_critical(rank, running)
            waits = queue[0][1]
            if rank[waits] < rank[running[worst]] and until[worst] > now:
                heapq.heappop(queue)
                out = running[worst]
                left[out] = until[worst] - now
                heapq.heappush(queue, (float(rank[out]), out))
                if start[waits] < 0.0:
                    start[waits] = now
                running[worst], until[worst] = waits, now + left[waits]


def _intervals_ms(rng: np.random.Generator, mean_ms: float, burstiness: float, n: int) -> FloatArray:
    """Times between arrivals: exponential, balanced hyperexponential above a burstiness of 1, gamma below."""
    if burstiness == 1.0:
        return mean_ms * rng.standard_exponential(n)
    if burstiness < 1.0:
        return mean_ms * burstiness * rng.standard_gamma(1.0 / burstiness, n)
    p = 0.5 * (1.0 + math.sqrt((burstiness - 1.0) / (burstiness + 1.0)))
    phase = np.where(rng.random(n) < p, p, 1.0 - p)
    return mean_ms * rng.standard_exponential(n) / (2.0 * phase)


def draw(streams: Sequence[Stream], seconds: float, seed: int) -> tuple[IntArray, FloatArray, FloatArray]:
    """Requests that come within `seconds`: (stream, arrival_ms, service_ms) in the order of arrival.

    A stream's requests do not depend on the others, nor on what serves them: disciplines see the same requests.
    """
    parts: list[tuple[IntArray, FloatArray, FloatArray]] = []
    for number, stream in enumerate(streams):
        rng = np.random.default_rng([seed, number])
        mean_ms, end_ms = 1000.0 / stream.arrivals_per_s, 1000.0 * seconds
        expected = end_ms / mean_ms
        room = int(expected + 10.0 * math.sqrt(expected * max(stream.burstiness, 1.0)) + 100.0)
        arrival = np.cumsum(_intervals_ms(rng, mean_ms, stream.burstiness, room))
        arrival = arrival[arrival <= end_ms]
        sigma = math.sqrt(math.log1p(stream.cv2))
        service = stream.service_ms * np.exp(sigma * rng.standard_normal(arrival.size) - 0.5 * sigma * sigma)
        parts.append((np.full(arrival.size, number, np.int64), arrival, service))
    which, arrival, service = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(arrival, kind="stable")
    return which[order], arrival[order], service[order]


def simulate(
    streams: Sequence[Stream],
    discipline: Discipline,
    servers: int,
    seconds: float,
    *,
    slice_ms: float = 5.0,
    seed: int = 0,
) -> RequestLog:
    """Serve `seconds` of arrivals to the end. Raises InputError for what can't be served, or not in reasonable time."""
    if discipline not in DISCIPLINES:
        raise InputError(f"discipline is '{discipline}', expected one of {', '.join(DISCIPLINES)}")
    if not streams:
        raise InputError("no service, expected at least one")
    for name, value in (("servers", servers), ("seconds", seconds), ("slice_ms", slice_ms)):
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"{name} is {value}, expected a number above 0")
    expected = seconds * sum(stream.arrivals_per_s for stream in streams)
    if expected > MOST_REQUESTS:
        raise InputError(
            f"{seconds:g} s of these loads are {expected:.3g} requests, expected at most {MOST_REQUESTS}: "
            "reduce the seconds or the load"
        )
    stream, arrival, service = draw(streams, seconds, seed)
    if stream.size == 0:
        raise InputError(f"no request arrived within {seconds:g} s: increase the seconds or the load")
    rank = np.array([s.rank for s in streams], np.int64)[stream]
    start, finish = np.full(stream.size, -1.0), np.zeros(stream.size)
    _serve(_CODES[discipline], servers, slice_ms, rank, arrival, service, start, finish)
    return RequestLog(tuple(s.name for s in streams), stream, rank, arrival, start, finish, service, servers)
