"""Weighted number of inversions (Ah-Q section II): how far a schedule is from the order that it should have.

The right order serves the more critical first (the smaller rank), and equals in the order in which they came. A pair is
an inversion where the later one in this order takes precedence; its weight is the latency that this adds to the other:
wNoI(T1, T2) = w(T1, T2) NoI(T1, T2), NoI being 0 or 1.

The paper defines inversions of a permutation of applications (`inversions`, `weighted_inversions`). For requests
(`request_inversions`) one condition is added that a permutation does not need: who had not arrived yet when the other
one had its turn was not passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_PAIRS_AT_ONCE = 1 << 21
_NO_WAIT = 1e-9  # of the time until the turn: rounding of times that were added up


def _checked_permutation(positions: Sequence[int]) -> list[int]:
    if sorted(positions) != list(range(len(positions))):
        raise InputError(f"positions are {list(positions)}, expected each of 0 to {len(positions) - 1} once")
    return list(positions)


def inversions(positions: Sequence[int]) -> int:
    """NoI of a permutation: pairs i < j with positions[i] > positions[j], in n log n steps.

    `positions[i]` is the place of application i in the schedule, from 0; application 0 is the most critical one.
    """

    def sort(part: list[int]) -> tuple[list[int], int]:
        if len(part) < 2:
            return part, 0
        middle = len(part) // 2
        (left, a), (right, b) = sort(part[:middle]), sort(part[middle:])
        merged: list[int] = []
        found, at = a + b, 0
        for value in left:
            while at < len(right) and right[at] < value:
                merged.append(right[at])
                at += 1
            found += at  # all of the right part that went before this one
            merged.append(value)
        return merged + right[at:], found

    return sort(_checked_permutation(positions))[1]


def weighted_inversions(positions: Sequence[int], weights: FloatArray) -> FloatArray:
    """Each application's wNoI, in the unit of the weights: shape (n,).

    `weights[i, j]` is the tail latency that application i gains when j takes precedence over it (w of section II); only
    i < j can count. Raises InputError unless `positions` is a permutation and `weights` are n x n numbers.
    """
    place = np.array(_checked_permutation(positions), dtype=np.int64)
    n = place.size
    if weights.shape != (n, n) or not np.isfinite(weights).all():
        raise InputError(f"weights have the shape {weights.shape}, expected ({n}, {n}) finite numbers")
    inverted = np.triu(place[:, None] > place[None, :], 1)  # (n, n)
    return np.where(inverted, weights, 0.0).sum(1)


@dataclass(frozen=True)
class RequestInversions:
    """What inversions did to each request, in the order of the log.

    `passed` are the requests that took precedence over it although it was there and came before them in the right order
    (NoI), `added_ms` the time that the servers gave to those meanwhile (wNoI), per server.
    """

    passed: IntArray
    added_ms: FloatArray


def request_inversions(
    rank: IntArray,
    arrival_ms: FloatArray,
    start_ms: FloatArray,
    finish_ms: FloatArray,
    service_ms: FloatArray | None = None,
    *,
    by: Literal["start", "finish"] = "start",
    servers: int = 1,
) -> RequestInversions:
    """Inversions in a log of requests; all arrays have one entry a request.

    Request j takes precedence over i where it starts first (`by` "start": nobody is interrupted) or finishes first
    ("finish": for schedulers that interrupt). `service_ms` is the time that a request holds a server (None: from start
    to finish). The weight of a pair is the part of j's service that lies between i's arrival and i's turn, over the
    number of servers. Who never waited was not passed over, and nobody by more than it waited. On one server without
    interruption the weights of a request sum up to exactly the time that it waited for requests that passed it; on
    several they are an estimate, and by "finish" an upper one, because i itself may have been running meanwhile. Raises
    InputError for logs that can't be.
    """
    service = finish_ms - start_ms if service_ms is None else service_ms
    _check_log(rank, arrival_ms, start_ms, finish_ms, service, servers)
    turn = start_ms if by == "start" else finish_ms
    begin = start_ms if by == "start" else finish_ms - service
    waited = turn - arrival_ms - (0.0 if by == "start" else service)
    order = np.argsort(turn, kind="stable")
    in_order = turn[order]
    first = np.searchsorted(in_order, arrival_ms, "right")
    last = np.maximum(np.searchsorted(in_order, turn, "left"), first)
    passed, added = np.zeros(rank.size, np.int64), np.zeros(rank.size)
    pairs = np.cumsum(last - first)
    low = 0
    while low < rank.size:
        done = int(pairs[low - 1]) if low else 0
        high = max(low + 1, int(np.searchsorted(pairs, done + _PAIRS_AT_ONCE, "right")))
        length = (last - first)[low:high]
        i = np.repeat(np.arange(low, high), length)
        within = np.arange(i.size) - np.repeat(np.cumsum(length) - length, length)
        j = order[np.repeat(first[low:high], length) + within]
        wrong = (rank[j] > rank[i]) | ((rank[j] == rank[i]) & (arrival_ms[j] > arrival_ms[i]))
        wrong &= waited[i] > _NO_WAIT * (turn[i] - arrival_ms[i])
        i, j = i[wrong], j[wrong]
        overlap = np.minimum(begin[j] + service[j], turn[i]) - np.maximum(begin[j], arrival_ms[i])
        passed += np.bincount(i, minlength=rank.size)
        added += np.bincount(i, np.maximum(overlap, 0.0), minlength=rank.size) / servers
        low = high
    return RequestInversions(passed, np.minimum(added, np.maximum(waited, 0.0)))


def _check_log(
    rank: IntArray, arrival: FloatArray, start: FloatArray, finish: FloatArray, service: FloatArray, servers: int
) -> None:
    """InputError for the first thing about a log that can't be."""
    columns = {"arrival_ms": arrival, "start_ms": start, "finish_ms": finish, "service_ms": service}
    for name, column in columns.items():
        if column.shape != rank.shape or rank.ndim != 1:
            raise InputError(
                f"{name} has the shape {column.shape}, expected one entry for each of {rank.size} requests"
            )
        if not np.isfinite(column).all():
            raise InputError(f"{name} of request {int(np.argmin(np.isfinite(column)))} is not a finite number")
    if rank.size == 0:
        raise InputError("the log has no request, expected at least one")
    if servers < 1:
        raise InputError(f"servers is {servers}, expected at least 1")
    for earlier, later in (("arrival_ms", "start_ms"), ("start_ms", "finish_ms")):
        wrong = np.flatnonzero(columns[later] < columns[earlier])
        if wrong.size:
            at = int(wrong[0])
            raise InputError(
                f"request {at}: {later} {columns[later][at]:g} is before {earlier} {columns[earlier][at]:g}, expected "
                "arrival, start and finish in this order"
            )
    if (service < 0).any():
        at = int(np.argmax(service < 0))
        raise InputError(f"service_ms of request {at} is {service[at]:g}, expected at least 0")
