"""Feature vectors out of an observation: what a production node knows, NaN where it was not measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osml.domain import Assignment, Observation, Partition, Platform, Service
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


class _Reach(NamedTuple):
    """Logical CPUs and ways that a service has, and those that all others have together, shared ones once."""

    cores: float
    ways: float
    beside_cores: float
    beside_ways: float


def _reach(observation: Observation, name: str) -> _Reach:
    """Out of the partition, else out of what was read back; NaN for ways where the cache can't be partitioned.

    Whom neither of them names has come since: nothing confines it, so it may run everywhere.
    """
    partition = observation.partition
    if partition is not None:
        return _reach_in(partition, observation, name)
    own, beside = [name], [other.name for other in observation.services if other.name != name]
    cores = [_cores_read_back(observation, names) if names else 0.0 for names in (own, beside)]
    ways = [_ways_read_back(observation, names) if names else 0.0 for names in (own, beside)]
    return _Reach(cores[0], ways[0], cores[1], ways[1])


def _reach_in(partition: Partition, observation: Observation, name: str) -> _Reach:
    platform = observation.platform
    others = {other.name for other in observation.services if other.name != name}
    cores = ways = beside_cores = beside_ways = 0
    unknown, confined = set(others), False
    for region in partition.regions:
        if name in region.owners:
            confined = True
            cores += region.cores
            ways += region.ways
        if not others.isdisjoint(region.owners):
            unknown.difference_update(region.owners)
            beside_cores += region.cores
            beside_ways += region.ways
    if not confined:
        cores, ways = platform.cores, platform.ways or 0
    if unknown:
        beside_cores, beside_ways = platform.cores, platform.ways or 0
    if platform.ways is None:
        return _Reach(cores * platform.core_quantum, NAN, beside_cores * platform.core_quantum, NAN)
    return _Reach(cores * platform.core_quantum, ways, beside_cores * platform.core_quantum, beside_ways)


def _assignment(observation: Observation, name: str) -> Assignment | None:
    return next((found for found in observation.assignments if found.service == name), None)


def _cores_read_back(observation: Observation, names: Sequence[str]) -> float:
    cpus: set[int] = set()
    quota = 0.0
    for name in names:
        found = _assignment(observation, name)
        if found is None or (found.cpus is None and found.cpu_quota is None):
            return observation.platform.cores * observation.platform.core_quantum
        if found.cpu_quota is not None:
            quota += found.cpu_quota
        else:
            cpus |= set(parse_cpulist(found.cpus or ""))
    return quota + len(cpus)


def _ways_read_back(observation: Observation, names: Sequence[str]) -> float:
    if observation.platform.ways is None:
        return NAN
    mask = 0
    for name in names:
        found = _assignment(observation, name)
        if found is None or found.way_mask is None:
            return float(observation.platform.ways)
        mask |= int(found.way_mask, 16)
    return float(mask.bit_count())


class _View:
    """One service of an observation, and what it has."""

    def __init__(self, observation: Observation, service: Service):
        self.observation, self.service = observation, service
        self.platform, self.counters, self.latency = observation.platform, service.counters, service.latency
        self.others = [other for other in observation.services if other is not service]
        self.reach = _reach(observation, service.name)

    def mib(self, ways: float) -> float:
        return ways * _number(self.platform.way_mib)

    def ipc(self) -> float:
        counters = self.counters
        return _number(counters.ipc) if counters.ipc is not None else _ratio(counters.instructions, counters.cycles)

    def beside_gbps(self) -> float:
        """Traffic of all others: 0 without any, NaN where one of them was not measured."""
        return float(sum(_number(other.counters.bandwidth_gbps) for other in self.others))

    def mean_ms(self) -> float:
        return NAN if self.latency is None else _number(self.latency.mean_ms)

    def p50_ms(self) -> float:
        return NAN if self.latency is None else _number(self.latency.p50_ms)

    def requests_per_s(self) -> float:
        return NAN if self.latency is None else _number(self.latency.requests_per_s)


def _turbo_ghz(platform: Platform) -> float:
    limits = platform.frequency_mhz
    return NAN if limits is None else limits.max / 1000


def _smt(platform: Platform) -> float:
    groups = platform.siblings
    return float(any(len(group) > 1 for group in groups)) if groups else NAN


_OF_PLATFORM: dict[str, Callable[[Platform], float]] = {
    "platform_cores": lambda p: p.cores * p.core_quantum,
    "platform_ways": lambda p: _number(p.ways),
    "way_mib": lambda p: _number(p.way_mib),
    "platform_bandwidth_gbps": lambda p: _number(p.bandwidth_gbps),
    "base_ghz": lambda p: _number(p.frequency_ghz),
    "turbo_ghz": _turbo_ghz,
    "smt": _smt,
}
_OF_SERVICE: dict[str, Callable[[_View], float]] = {
    "ipc": _View.ipc,
    "llc_misses_per_s": lambda v: _ratio(v.counters.llc_misses, v.observation.interval_s),
    "bandwidth_gbps": lambda v: _number(v.counters.bandwidth_gbps),
    "cpu_usage_cores": lambda v: _number(v.counters.cpu_usage_cores),
    "vms_mib": lambda v: _number(v.counters.vms_mib),
    "rss_mib": lambda v: _number(v.counters.rss_mib),
    "cores": lambda v: v.reach.cores,
    "cache_mib": lambda v: v.mib(v.reach.ways),
    "frequency_ghz": lambda v: _number(v.counters.frequency_ghz),
    "neighbour_cores": lambda v: v.reach.beside_cores,
    "neighbour_cache_mib": lambda v: v.mib(v.reach.beside_ways),
    "neighbour_bandwidth_gbps": _View.beside_gbps,
    "threads": lambda v: _number(v.counters.threads),
    "ways": lambda v: v.reach.ways,
    "llc_occupancy_mib": lambda v: _number(v.counters.llc_occupancy_mib),
    "requests_per_s": _View.requests_per_s,
    "latency_ms": lambda v: _number(v.service.latency_ms),
    "mean_ms": _View.mean_ms,
    "p50_ms": _View.p50_ms,
    "target_ms": lambda v: _number(v.service.target_ms),
    "latency_over_target": lambda v: _ratio(v.service.latency_ms, v.service.target_ms),
    "neighbours": lambda v: float(len(v.others)),
    "neighbour_ways": lambda v: v.reach.beside_ways,
}
"""How each measured feature is read. Units: those of the columns of traces (data/cases.schema.json)."""

FEATURES = (*_OF_SERVICE, *_OF_PLATFORM)
"""Names of what is measured."""


def feature_rows(
    observation: Observation, services: Sequence[str], names: Sequence[str],
    parameters: Mapping[str, float] | None = None,
) -> Floats32:  # fmt: skip
    """The features `names` of these services, shape (services, names), float32, NaN where not measured.

    `parameters` are those of PARAMETERS that are asked for. Raises InputError for a name that is not known.
    """
    found = {service.name: service for service in observation.services}
    given = parameters or {}
    common, read = _columns(tuple(names), observation.platform, given)
    rows: list[list[float]] = []
    for name in services:
        service = found.get(name)
        if service is None:
            known = ", ".join(found)
            raise InputError(f"service is '{name}', expected one of this observation: {known}")
        view, row = _View(observation, service), common.copy()
        for column, feature in read:
            row[column] = feature(view)
        rows.append(row)
    return np.array(rows, np.float32).reshape(len(rows), len(names))


def feature_row(
    observation: Observation, service: str, names: Sequence[str], parameters: Mapping[str, float] | None = None
) -> Floats32:
    """The same of one service, shape (names,)."""
    return feature_rows(observation, [service], names, parameters)[0]


_Readers = list[tuple[int, Callable[[_View], float]]]


def _columns(names: tuple[str, ...], platform: Platform, given: Mapping[str, float]) -> tuple[list[float], _Readers]:
    """A row with what all services have in common, and how the other columns are read of each."""
    read, of_platform, others = _readers(names)
    common = [NAN] * len(names)
    for column, feature in of_platform:
        common[column] = feature(platform)
    for name in others:
        if name not in given:
            hint = "give it as a parameter" if name in PARAMETERS else f"known are {', '.join(FEATURES)}"
            raise InputError(f"feature '{name}' is not in an observation; {hint}")
    for column, name in enumerate(names) if given else ():
        if name in given:
            common[column] = given[name]
    return common, [one for one in read if names[one[0]] not in given] if given else read


@lru_cache(maxsize=64)
def _readers(
    names: tuple[str, ...],
) -> tuple[_Readers, list[tuple[int, Callable[[Platform], float]]], list[str]]:
    """Columns that are read of a service, those of the platform, and names that are neither."""
    of_service = [(k, _OF_SERVICE[name]) for k, name in enumerate(names) if name in _OF_SERVICE]
    of_platform = [(k, _OF_PLATFORM[name]) for k, name in enumerate(names) if name in _OF_PLATFORM]
    return of_service, of_platform, [name for name in names if name not in FEATURES]
