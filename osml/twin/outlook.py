"""The twins of a folder as an outlook: E_S of a node under other assignments, from what was just measured of it.

A twin says by which factor a latency, or a job's speed, would change; the factor is applied to the measured value.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from osml.base.failure import Failure, InputError
from osml.decide.outlook import BlameNow
from osml.domain import Assignment, Observation, Service
from osml.entropy import system_entropy
from osml.twin.advice.now import blame_now
from osml.twin.document import load
from osml.twin.ensemble import Ensemble, grants_for, node_of
from osml.twin.forward import only
from osml.twin.scenes import grants_in, rate_of
from osml.twin.world import World, outcome

MEMBERS = 8
MOST_TWINS = 256
SUFFIX = ".json"


class TwinOutlook:
    """Twins of a folder, NODE.json each, read when they are asked for and have changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._twins: dict[str, tuple[object, Ensemble | None]] = {}

    def e_s(self, observation: Observation, options: Sequence[Sequence[Assignment]]) -> list[float] | None:
        """As `osml.decide.outlook.Outlook.e_s`: the median over the members. None without a twin that fits."""
        twin = self._twin(observation.node)
        there = {(one.name, one.kind) for one in observation.services}
        if twin is None or not there or not there <= {(one.name, one.kind) for one in twin.tenants}:
            return None
        now = observation.platform
        if (now.cpus, now.ways) != (twin.platform.cpus, twin.platform.ways) or now.regions_in_domains:
            return None  # of several caches a twin knows nothing
        if any(_uncounted(one) for one in observation.services):
            return None  # its load is not known, and as idle it would press on nobody
        before = _outcomes(twin, observation, list(grants_in(observation).values()))
        found: list[float] = []
        for option in options:
            after = _outcomes(twin, observation, option)
            values = [
                system_entropy([_changed(one, now[one.name], then[one.name]) for one in observation.services]).e_s
                for now, then in zip(before, after, strict=True)
            ]
            known = [value for value in values if value is not None]
            if not known:
                return None
            found.append(statistics.median(known))
        return found

    def blame(self, observations: Sequence[Observation]) -> BlameNow:
        """As `osml.decide.outlook.Outlook.blame`: Shapley values over the members of the node's twin."""
        node = observations[-1].node
        file = self._folder / f"{node}{SUFFIX}"
        if not file.is_file():
            raise InputError(
                f"there is no twin of node '{node}', expected {file.name}; make it with `osml look twin fit`"
            )
        return blame_now(file, observations)

    def _twin(self, node: str) -> Ensemble | None:
        """A file that is no twin is as good as none: `osml look twin check` says what is wrong with it."""
        file = self._folder / f"{node}{SUFFIX}"
        stamp = _stamp(file)
        known = self._twins.get(node)
        if known is None or known[0] != stamp:
            if len(self._twins) >= MOST_TWINS:
                self._twins.clear()
            known = self._twins[node] = stamp, _loaded(file, node)
        return known[1]


def _uncounted(service: Service) -> bool:
    """Whether a service answers requests that nobody counts."""
    return service.kind == "lc" and service.latency_ms is not None and rate_of(service) is None


def _stamp(file: Path) -> object:
    """What changes when the file does; None where it is missing."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _loaded(file: Path, node: str) -> Ensemble | None:
    """The members of a twin; None for a file that is no twin, or the twin of another node."""
    try:
        twin = load(file)
    except Failure:
        return None
    return twin.ensemble.some(MEMBERS) if twin.node == node else None


def _outcomes(twin: Ensemble, observation: Observation, assignments: Sequence[Assignment]) -> list[dict[str, float]]:
    """What every member shows under the assignments, at the measured loads."""
    given = {one.service: one for one in assignments}
    rates = {one.name: rate_of(one) or 0.0 for one in observation.services if one.kind == "lc"}
    percentiles = {one.name: one.percentile for one in observation.services}
    present = [service.name for service in observation.services]
    found: list[dict[str, float]] = []
    for member in range(twin.size):
        node = only(node_of(twin, member), present)
        grants = grants_for(twin, twin.values(member), given)
        found.append(outcome(World(node, {name: grants[name] for name in node.names}, rates, percentiles)))
    return found


def _changed(service: Service, now: float, then: float) -> Service:
    """The service with its measured latency, or its speed, changed by the factor from `now` to `then`."""
    factor = then / max(now, 1e-9)
    if service.kind == "lc":
        latency = service.latency
        if latency is None or (measured := service.latency_ms) is None:
            return service
        return replace(service, latency=replace(latency, **{f"{service.percentile}_ms": measured * factor}))
    counters = service.counters
    return replace(
        service,
        counters=replace(
            counters,
            ipc=None if counters.ipc is None else counters.ipc * factor,
            work_rate=None if counters.work_rate is None else counters.work_rate * factor,
        ),
    )
