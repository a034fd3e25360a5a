"""Feature vectors out of an observation: what a production node knows, NaN where it was not measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from osml.domain import Assignment, Observation, Partition, Service
from osml.domain.cpulist import parse_cpulist
from osml.failure import InputError

Floats32 = NDArray[np.float32]
NAN = float("nan")
PARAMETERS = ("slowdown", "expected_cores", "expected_cache_mib")
"""Inputs that are a question, not a measurement: given by the caller.

`slowdown` is a share (0.05 = the latency may rise by 5 %); `expected_*` is what is left after a deprivation.
"""


def _number(value: float | None) -> float:
    return NAN if value is None else float(value)


def _ratio(above: float | None, below: float | None) -> float:
    return NAN if above is None or not below else above / below


def _reached(partition: Partition, names: Sequence[str], resource: Literal["cores", "ways"]) -> int | None:
    """Units that these services reach together, shared ones once; None where the partition does not know somebody."""
    units, wanted = 0, set(names)
    unknown = set(wanted)
    for region in partition.regions:
        if not wanted.isdisjoint(region.owners):
            unknown.difference_update(region.owners)
            units += region.cores if resource == "cores" else region.ways
    return None if unknown else units


class _View:
    """One service of an observation, and what it has."""

    def __init__(self, observation: Observation, service: Service):
        self.observation, self.service = observation, service
        self.platform, self.counters, self.latency = observation.platform, service.counters, service.latency
        self.others = [other for other in observation.services if other.name != service.name]
        own, beside = [service.name], [other.name for other in self.others]
        self.cores, self.ways = self.cores_of(own), self.ways_of(own)
        self.neighbour_cores = self.cores_of(beside) if beside else 0.0
        self.neighbour_ways = self.ways_of(beside) if beside else 0.0

    def _assignment(self, name: str) -> Assignment | None:
        return next((found for found in self.observation.assignments if found.service == name), None)

    def cores_of(self, names: Sequence[str]) -> float:
        """Logical CPUs that these services have together, shared ones once.

        Whom the partition does not name has come since: nothing confines it, so it may run everywhere.
        """
        partition = self.observation.partition
        if partition is not None:
            units = _reached(partition, names, "cores")
            return (self.platform.cores if units is None else units) * self.platform.core_quantum
        cpus: set[int] = set()
        quota = 0.0
        for name in names:
            found = self._assignment(name)
            if found is None or (found.cpus is None and found.cpu_quota is None):
                return self.platform.cores * self.platform.core_quantum  # not confined: it may run everywhere
            if found.cpu_quota is not None:
                quota += found.cpu_quota
            else:
                cpus |= set(parse_cpulist(found.cpus or ""))
        return quota + len(cpus)

    def ways_of(self, names: Sequence[str]) -> float:
        """Ways that these services have together, shared ones once; NaN where the cache can't be partitioned."""
        if self.platform.ways is None:
            return NAN
        partition = self.observation.partition
        if partition is not None:
            units = _reached(partition, names, "ways")
            return float(self.platform.ways if units is None else units)
        mask = 0
        for name in names:
            found = self._assignment(name)
            if found is None or found.way_mask is None:
                return float(self.platform.ways)
            mask |= int(found.way_mask, 16)
        return float(mask.bit_count())

    def mib(self, ways: float) -> float:
        return ways * _number(self.platform.way_mib)

    def ipc(self) -> float:
        counters = self.counters
        return _number(counters.ipc) if counters.ipc is not None else _ratio(counters.instructions, counters.cycles)

    def beside_gbps(self) -> float:
        """Traffic of all others: 0 without any, NaN where one of them was not measured."""
        return float(sum(_number(other.counters.bandwidth_gbps) for other in self.others))

    def turbo_ghz(self) -> float:
        limits = self.platform.frequency_mhz
        return NAN if limits is None else limits.max / 1000

    def smt(self) -> float:
        groups = self.platform.siblings
        return float(any(len(group) > 1 for group in groups)) if groups else NAN

    def mean_ms(self) -> float:
        return NAN if self.latency is None else _number(self.latency.mean_ms)

    def p50_ms(self) -> float:
        return NAN if self.latency is None else _number(self.latency.p50_ms)

    def requests_per_s(self) -> float:
        return NAN if self.latency is None else _number(self.latency.requests_per_s)


FEATURES: dict[str, Callable[[_View], float]] = {
    "ipc": _View.ipc,
    "llc_misses_per_s": lambda v: _ratio(v.counters.llc_misses, v.observation.interval_s),
    "bandwidth_gbps": lambda v: _number(v.counters.bandwidth_gbps),
    "cpu_usage_cores": lambda v: _number(v.counters.cpu_usage_cores),
    "vms_mib": lambda v: _number(v.counters.vms_mib),
    "rss_mib": lambda v: _number(v.counters.rss_mib),
    "cores": lambda v: v.cores,
    "cache_mib": lambda v: v.mib(v.ways),
    "frequency_ghz": lambda v: _number(v.counters.frequency_ghz),
    "neighbour_cores": lambda v: v.neighbour_cores,
    "neighbour_cache_mib": lambda v: v.mib(v.neighbour_ways),
    "neighbour_bandwidth_gbps": _View.beside_gbps,
    "threads": lambda v: _number(v.counters.threads),
    "ways": lambda v: v.ways,
    "llc_occupancy_mib": lambda v: _number(v.counters.llc_occupancy_mib),
    "requests_per_s": _View.requests_per_s,
    "latency_ms": lambda v: _number(v.service.latency_ms),
    "mean_ms": _View.mean_ms,
    "p50_ms": _View.p50_ms,
    "target_ms": lambda v: _number(v.service.target_ms),
    "latency_over_target": lambda v: _ratio(v.service.latency_ms, v.service.target_ms),
    "neighbours": lambda v: float(len(v.others)),
    "neighbour_ways": lambda v: v.neighbour_ways,
    "platform_cores": lambda v: v.platform.cores * v.platform.core_quantum,
    "platform_ways": lambda v: _number(v.platform.ways),
    "way_mib": lambda v: _number(v.platform.way_mib),
    "platform_bandwidth_gbps": lambda v: _number(v.platform.bandwidth_gbps),
    "base_ghz": lambda v: _number(v.platform.frequency_ghz),
    "turbo_ghz": _View.turbo_ghz,
    "smt": _View.smt,
}
"""How each measured feature is read. Units: those of the columns of traces (data/cases.schema.json)."""


def feature_row(
    observation: Observation, service: str, names: Sequence[str], parameters: Mapping[str, float] | None = None
) -> Floats32:
    """The features `names` of one service, shape (names,), float32, NaN where not measured.

    `parameters` are those of PARAMETERS that are asked for. Raises InputError for a name that is not known.
    """
    found = next((one for one in observation.services if one.name == service), None)
    if found is None:
        known = ", ".join(one.name for one in observation.services)
        raise InputError(f"service is '{service}', expected one of this observation: {known}")
    view = _View(observation, found)
    given = parameters or {}
    row: list[float] = []
    for name, read in _readers(tuple(names)):
        if read is not None and name not in given:
            row.append(read(view))
        elif name in given:
            row.append(given[name])
        else:
            hint = "give it as a parameter" if name in PARAMETERS else f"known are {', '.join(FEATURES)}"
            raise InputError(f"feature '{name}' is not in an observation; {hint}")
    return np.array(row, np.float32)


@lru_cache(maxsize=64)
def _readers(names: tuple[str, ...]) -> tuple[tuple[str, Callable[[_View], float] | None], ...]:
    """How each of these features is read; None for parameters and for what nobody knows."""
    return tuple((name, FEATURES.get(name)) for name in names)


def feature_rows(
    observation: Observation, services: Sequence[str], names: Sequence[str],
    parameters: Mapping[str, float] | None = None,
) -> Floats32:  # fmt: skip
    """The same for several services in one batch, shape (services, names)."""
    rows = [feature_row(observation, service, names, parameters) for service in services]
    return np.stack(rows) if rows else np.empty((0, len(names)), np.float32)
