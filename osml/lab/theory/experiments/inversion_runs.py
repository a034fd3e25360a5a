"""Weighted inversions on the virtual node: of single requests under a discipline, and of whole applications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from osml.base.failure import InputError
from osml.lab.theory.experiments.disciplines import DISCIPLINES, Discipline, RequestLog, Stream, simulate
from osml.lab.theory.experiments.settled_runs import Settling, by_priority
from osml.lab.theory.inversions import FloatArray, inversions, request_inversions, weighted_inversions
from osml.simulator.engine import MAX_LOAD
from osml.simulator.state import Node
from osml.simulator.steady import steady
from osml.simulator.surface import whole_node


@dataclass(frozen=True)
class ServiceInversions:
    """One service in one log: requests, how many passed a request over (NoI) and what that added (wNoI), in the mean.

    `tail_added_ms` is the part of wNoI at `percentile` of the requests; `tail_ms` their latency there; `tail_over_ms`
    by how much it is above that under strict priority for the same requests (None where that was not run).
    """

    service: str
    rank: int
    requests: int
    passed: float
    added_ms: float
    tail_added_ms: float
    mean_ms: float
    tail_ms: float
    tail_over_ms: float | None = None


def log_inversions(log: RequestLog, by: str = "finish", percentile: float = 0.99) -> list[ServiceInversions]:
    """Each service's inversions in a log."""
    if by not in ("start", "finish"):
        raise InputError(f"by is '{by}', expected start or finish")
    if not 0.0 < percentile < 1.0:
        raise InputError(f"percentile is {percentile}, expected a share between 0 and 1, such as 0.99")
    found = request_inversions(
        log.rank,
        log.arrival_ms,
        log.start_ms,
        log.finish_ms,
        log.service_ms,
        by="start" if by == "start" else "finish",
        servers=log.servers,
    )
    rows: list[ServiceInversions] = []
    for number, name in enumerate(log.names):
        own = log.stream == number
        if not own.any():
            continue
        latency, added = log.latency_ms[own], found.added_ms[own]
        rows.append(
            ServiceInversions(
                name,
                int(log.rank[own][0]),
                int(own.sum()),
                float(found.passed[own].mean()),
                float(added.mean()),
                float(np.quantile(added, percentile)),
                float(latency.mean()),
                float(np.quantile(latency, percentile)),
            )
        )
    return sorted(rows, key=lambda row: row.rank)


def streams_of(node: Node, loads: Mapping[str, float]) -> list[Stream]:
    """The services of a node as streams of requests, the first the most critical.

    The CPU time of a request is that on the node when all services share it: cache and memory included.
    """
    flows = steady(node, whole_node(node), loads)
    streams: list[Stream] = []
    for rank, service in enumerate(node.services):
        flow = flows[rank]
        if flow.requests <= 0.0:
            raise InputError(f"'{service.name}' completes no request, expected a load above 0 and up to {MAX_LOAD:g}")
        cpu_ms = flow.cpu_s / flow.requests * 1000.0
        rate = loads[service.name] * service.max_load
        streams.append(Stream(service.name, rank, rate, cpu_ms, service.cv2, service.burstiness))
    return streams


def compare_disciplines(
    node: Node,
    loads: Mapping[str, float],
    seconds: float,
    disciplines: Sequence[Discipline] = DISCIPLINES,
    *,
    slice_ms: float = 5.0,
    seed: int = 0,
    by: str = "finish",
    percentile: float = 0.99,
) -> dict[str, list[ServiceInversions]]:
    """The same requests under each discipline on all cores of the node, with the latency that strict priority spares.

    Services share all cores, whatever their number of threads; BE jobs are not simulated (InputError).
    """
    if node.jobs:
        raise InputError(f"'{node.jobs[0].name}' is a BE job without requests, expected LC services only")
    streams = streams_of(node, loads)
    right = simulate(streams, "priority", node.platform.cpus, seconds, slice_ms=slice_ms, seed=seed)
    spared = {row.service: row.tail_ms for row in log_inversions(right, by, percentile)}
    found: dict[str, list[ServiceInversions]] = {}
    for discipline in dict.fromkeys(disciplines):
        log = right
        if discipline != "priority":
            log = simulate(streams, discipline, node.platform.cpus, seconds, slice_ms=slice_ms, seed=seed)
        rows = log_inversions(log, by, percentile)
        found[discipline] = [replace(row, tail_over_ms=row.tail_ms - spared[row.service]) for row in rows]
    return found


@dataclass(frozen=True)
class ApplicationInversions:
    """An order of precedence against the right one, for whole applications on the virtual node.

    `weights_ms[i, j]` is the tail latency that i gains where j takes precedence over it instead of the other way round,
    the two alone on the node; 0 for BE jobs, which have no latency. `added_ms` is wNoI of each, `measured_ms` what its
    tail really gains with all applications in this order, against the right order. The tail of a service that starves
    counts as the length of the run: longer ones nobody has seen.
    """

    names: tuple[str, ...]
    positions: tuple[int, ...]
    count: int
    weights_ms: FloatArray
    added_ms: FloatArray
    measured_ms: FloatArray


def application_inversions(
    node: Node, loads: Mapping[str, float], precedence: Sequence[str], settling: Settling | None = None
) -> ApplicationInversions:
    """Ah-Q's wNoI of an order of precedence (first = served first). The right order is that of the node: LC services in
    the order given, then BE jobs. Raises InputError unless `precedence` names each application once.
    """
    names, times = tuple(node.names), settling or Settling()
    if sorted(precedence) != sorted(names):
        raise InputError(f"order is {', '.join(precedence)}, expected each of {', '.join(names)} once")
    positions = tuple(list(precedence).index(name) for name in names)
    weights = np.zeros((len(names), len(names)))
    for (i, a), (j, b) in combinations(enumerate(names), 2):
        if i >= len(node.services):
            continue
        pair = _only(node, (a, b))
        own = {name: loads[name] for name in (a, b) if name in loads}
        weights[i, j] = _tails(pair, own, {a: 1, b: 0}, times)[a] - _tails(pair, own, {a: 0, b: 1}, times)[a]
    right = _tails(node, loads, {name: at for at, name in enumerate(names)}, times)
    actual = _tails(node, loads, dict(zip(names, positions, strict=True)), times)
    measured = np.array([actual.get(name, 0.0) - right.get(name, 0.0) for name in names])
    return ApplicationInversions(
        names, positions, inversions(positions), weights, weighted_inversions(positions, weights), measured
    )


def _tails(node: Node, loads: Mapping[str, float], ranks: Mapping[str, int], times: Settling) -> dict[str, float]:
    """Tails under these priorities, at most as long as the run."""
    found = by_priority(node, loads, ranks, times).tails_ms
    return {name: min(tail, times.total_s * 1000.0) for name, tail in found.items()}


def _only(node: Node, names: tuple[str, ...]) -> Node:
    return Node(
        node.platform,
        tuple(s for s in node.services if s.name in names),
        tuple(j for j in node.jobs if j.name in names),
    )
