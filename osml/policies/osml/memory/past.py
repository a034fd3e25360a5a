"""What a service has shown over the last minutes, as means that older intervals fade out of."""

from __future__ import annotations

import math
from typing import Annotated

from msgspec import Meta, Struct

from osml.domain import Service

FAST, MIDDLE, SLOW = 0.3, 0.1, 0.03
"""Share of the last interval in a mean that forgets within about 3, 10 and 30 intervals."""

_MOST = 100
_LOG_RATIO = (-6.0, 2.5)  # of latency over target: what is beyond does not count more
_LEAST_CPUS, _LEAST_RATE = 0.01, 0.01
_MOST_LOG = 100.0

Count = Annotated[int, Meta(ge=0, le=_MOST)]
Means = tuple[float, ...]


class Past(Struct, frozen=True, array_like=True):
    """Means of logarithms, empty where nothing was measured yet; `latencies` and `uses` count their intervals.

    - `offset`: latency over target less what the queue does to it (fast, middle, slow, of the last interval alone).
    - `mean`: mean latency over target (fast, slow). `use`: CPUs in use. `rate`: requests/s.
    """

    offset: Means = ()
    mean: Means = ()
    use: Means = ()
    rate: Means = ()
    latencies: Count = 0
    uses: Count = 0


def wait_log(utilisation: float, cpus: float) -> float:
    """Logarithm of a 99th percentile in service times, of a queue with so many servers (M/M/c, Sakasegawa 1977).

    Utilisation counts as 0.01 to 0.985.
    """
    rho = min(max(utilisation, 0.01), 0.985)
    waits = rho ** (math.sqrt(2.0 * (cpus + 1.0)) - 1.0)
    return math.log(3.0 + max(0.0, math.log(100.0 * waits)) / (cpus * (1.0 - rho)))


def whole(past: Past) -> bool:
    """Whether this is a past that `after` can have left."""
    means = (*past.offset, *past.mean, *past.use, *past.rate)
    lengths = (len(past.offset), len(past.mean), len(past.use), len(past.rate))
    fitting = all(found in (0, wanted) for found, wanted in zip(lengths, (4, 2, 2, 2), strict=True))
    shown = (past.latencies > 0) == bool(past.offset) and (past.uses > 0) == bool(past.use)
    return fitting and shown and all(abs(mean) < _MOST_LOG for mean in means)  # NaN is not


NO_USE = math.log(3.0)
"""`wait_log` where CPU time is not measured: that of an idle queue."""


def wait_of(use: float | None, cpus: float) -> float:
    """`wait_log` of a service that uses `use` of its CPUs."""
    return NO_USE if use is None else wait_log(use / max(cpus, 0.5), cpus)


def after(past: Past, service: Service, cpus: float) -> Past:
    """The past with one more interval in a cell of so many CPUs."""
    latency, used = service.latency, service.counters.cpu_usage_cores
    ratio = _log_ratio(service.latency_ms, service.target_ms)
    mean = _log_ratio(None if latency is None else latency.mean_ms, service.target_ms)
    rate = None if latency is None else latency.requests_per_s
    offset = None if ratio is None else ratio - wait_of(used, cpus)
    latencies = past.latencies if offset is None else min(past.latencies + 1, _MOST)
    uses = past.uses if used is None else min(past.uses + 1, _MOST)
    return Past(
        _moved(past.offset, offset, (FAST, MIDDLE, SLOW, 1.0), latencies),
        _moved(past.mean, mean, (FAST, SLOW), latencies),
        _moved(past.use, _log(used, _LEAST_CPUS), (FAST, SLOW), uses),
        _moved(past.rate, _log(rate, _LEAST_RATE), (FAST, SLOW), latencies),
        latencies,
        uses,
    )


def _moved(means: Means, value: float | None, shares: Means, count: int) -> Means:
    if value is None:
        return means
    if not means:
        return (value,) * len(shares)
    least = 1.0 / max(count, 1)
    return tuple([old + max(share, least) * (value - old) for old, share in zip(means, shares, strict=True)])


def _log_ratio(above: float | None, below: float | None) -> float | None:
    if above is None or below is None or above <= 0.0 or not math.isfinite(above):
        return None
    return min(max(math.log(above) - math.log(below), _LOG_RATIO[0]), _LOG_RATIO[1])


def _log(value: float | None, least: float) -> float | None:
    return None if value is None or not math.isfinite(value) else math.log(max(value, least))
