"""Feature vectors out of an observation: what a production node knows, NaN where it was not measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.domain import Counters, Latency, Observation, Platform, Service
from osml.predictors.reach import NAN, Reach, reaches

Floats32 = NDArray[np.float32]
PARAMETERS = ("slowdown", "expected_cores", "expected_cache_mib")
"""Inputs that are a question, not a measurement: given by the caller.

`slowdown` is a share (0.05 = the latency may rise by 5 %); `expected_*` is what is left after a deprivation.
"""


def _number(value: float | None) -> float:
    return NAN if value is None else float(value)


def _ratio(above: float | None, below: float | None) -> float:
    return NAN if above is None or not below else above / below


class _View(NamedTuple):
    """One service of an observation, and what it has; `beside` is the traffic of each of the others in GB/s."""

    service: Service
    counters: Counters
    latency: Latency
    latency_ms: float | None
    interval_s: float
    reach: Reach
    cache_mib: float
    beside_cache_mib: float
    beside: list[float]
    neighbours: int


_NOT_MEASURED = Latency()


def _views(observation: Observation, names: Sequence[str]) -> list[_View]:
    """Of the services of these names. Raises InputError where one is not there."""
    services = observation.services
    places = {service.name: i for i, service in enumerate(services)}
    for name in names:
        if name not in places:
            raise InputError(f"service is '{name}', expected one of this observation: {', '.join(places)}")
    traffic = [_number(service.counters.bandwidth_gbps) for service in services]
    way_mib = _number(observation.platform.way_mib)
    found: list[_View] = []
    for name, reach in zip(names, reaches(observation, names), strict=True):
        i = places[name]
        service = services[i]
        found.append(
            _View(
                service,
                service.counters,
                service.latency or _NOT_MEASURED,
                service.latency_ms,
                observation.interval_s,
                reach,
                reach.ways * way_mib,
                reach.beside_ways * way_mib,
                traffic[:i] + traffic[i + 1 :],
                len(services) - 1,
            )
        )
    return found


def _ipc(view: _View) -> float:
    counters = view.counters
    return counters.ipc if counters.ipc is not None else _ratio(counters.instructions, counters.cycles)


def _turbo_ghz(platform: Platform) -> float:
    limits = platform.frequency_mhz
    return NAN if limits is None else limits.max / 1000


def has_smt(platform: Platform) -> bool | None:
    """Whether its cores have several hyperthreads; None where nobody knows."""
    groups = platform.siblings
    return max(map(len, groups)) > 1 if groups else None


_OF_PLATFORM: dict[str, Callable[[Platform], float | None]] = {
    "platform_cores": lambda p: p.cores * p.core_quantum,
    "platform_ways": attrgetter("ways"),
    "way_mib": attrgetter("way_mib"),
    "platform_bandwidth_gbps": attrgetter("bandwidth_gbps"),
    "base_ghz": attrgetter("frequency_ghz"),
    "turbo_ghz": _turbo_ghz,
    "smt": has_smt,
}
_MEASURED: dict[str, str] = {
    "bandwidth_gbps": "counters.bandwidth_gbps",
    "cpu_usage_cores": "counters.cpu_usage_cores",
    "vms_mib": "counters.vms_mib",
    "rss_mib": "counters.rss_mib",
    "cores": "reach.cores",
    "cache_mib": "cache_mib",
    "frequency_ghz": "counters.frequency_ghz",
    "neighbour_cores": "reach.beside_cores",
    "neighbour_cache_mib": "beside_cache_mib",
    "threads": "counters.threads",
    "ways": "reach.ways",
    "llc_occupancy_mib": "counters.llc_occupancy_mib",
    "requests_per_s": "latency.requests_per_s",
    "latency_ms": "latency_ms",
    "mean_ms": "latency.mean_ms",
    "p50_ms": "latency.p50_ms",
    "target_ms": "service.target_ms",
    "neighbours": "neighbours",
    "neighbour_ways": "reach.beside_ways",
}
"""Where each feature stands that is taken as it is, in a `_View`."""

_COMPUTED: dict[str, Callable[[_View], float]] = {
    "ipc": _ipc,
    "llc_misses_per_s": lambda v: _ratio(v.counters.llc_misses, v.interval_s),
    "neighbour_bandwidth_gbps": lambda v: sum(v.beside),
    "latency_over_target": lambda v: _ratio(v.latency_ms, v.service.target_ms),
}
"""How the others are. Units: those of the columns of traces (data/cases.schema.json)."""

FEATURES = (*_MEASURED, *_COMPUTED, *_OF_PLATFORM)
"""Names of what is measured."""


def feature_rows(
    observation: Observation,
    services: Sequence[str],
    names: Sequence[str],
    parameters: Mapping[str, float] | None = None,
) -> Floats32:
    """The features `names` of these services, shape (services, names), float32, NaN where not measured.

    `parameters` are those of PARAMETERS that are asked for. Raises InputError for a name that is not known.
    """
    given = parameters or {}
    reader = _reader(tuple(names), tuple(given))
    common = [feature(observation.platform) for feature in reader.of_platform] + [given[name] for name in reader.given]
    rows = [
        [*reader.measured(view), *[feature(view) for feature in reader.computed], *common]
        for view in _views(observation, services)
    ]
    if not rows:
        return np.empty((0, len(names)), np.float32)
    return np.array(rows, np.float32).take(reader.order, 1)  # None becomes NaN


def feature_row(
    observation: Observation, service: str, names: Sequence[str], parameters: Mapping[str, float] | None = None
) -> Floats32:
    """The same of one service, shape (names,)."""
    return feature_rows(observation, [service], names, parameters)[0]


class _Reader(NamedTuple):
    """How a row is read: all that is taken as it is, what is computed, what all have in common; then put in order."""

    measured: Callable[[_View], tuple[float | None, ...]]
    computed: list[Callable[[_View], float]]
    of_platform: list[Callable[[Platform], float | None]]
    given: list[str]
    order: NDArray[np.intp]


@lru_cache(maxsize=64)
def _reader(names: tuple[str, ...], given: tuple[str, ...]) -> _Reader:
    """Of these features, of which some are `given`. Raises InputError for one that is not known."""
    for name in names:
        if name not in given and name not in FEATURES:
            hint = "give it as a parameter" if name in PARAMETERS else f"known are {', '.join(FEATURES)}"
            raise InputError(f"feature '{name}' is not in an observation; {hint}")
    asked = dict.fromkeys(names)
    parameters = [name for name in asked if name in given]
    measured = [name for name in asked if name in _MEASURED and name not in given]
    computed = [name for name in asked if name in _COMPUTED and name not in given]
    of_platform = [name for name in asked if name in _OF_PLATFORM and name not in given]
    paths = [_MEASURED[name] for name in measured]
    row = ["", "", *measured, *computed, *of_platform, *parameters]
    return _Reader(
        attrgetter("latency_ms", "latency_ms", *paths),  # two in front, because of one alone it makes no tuple
        [_COMPUTED[name] for name in computed],
        [_OF_PLATFORM[name] for name in of_platform],
        parameters,
        np.array([row.index(name) for name in names], np.intp),
    )
