"""What a policy gets to see of a node: observations with worse sensors than the virtual node has.

The node itself, and whoever judges a run, sees the true values.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, cast

import numpy as np
from msgspec.structs import asdict, replace

from osml.base.failure import InputError
from osml.domain import Counters, Service
from osml.simulator.variation.spread import checked_spread, factor

Missing = Literal["nothing", "all", "all but CPU time"]
_NEVER_SCALED = ("threads",)
_CPU_TIME = "cpu_usage_cores"
_MOST_LATE = 60


@dataclass(frozen=True)
class Sensors:
    """Sensors of a node. The same seed gives the same errors.

    `scaled`: each counter of each service is wrong by a constant log-uniform factor from 1 - scaled to 1 + scaled.
    `noise`: standard deviation of another factor, drawn in each interval. `seen`: share of the requests whose latency
    is measured; percentiles have the sampling error of so few. `late`: latencies and counters are so many intervals
    old. `missing`: which counters there are not at all.
    """

    seed: int = 0
    scaled: float = 0.0
    noise: float = 0.0
    seen: float = 1.0
    late: int = 0
    missing: Missing = "nothing"

    def __post_init__(self) -> None:
        checked_spread("scaled", self.scaled)
        checked_spread("noise", self.noise)
        if not 0.0 < self.seen <= 1.0:
            raise InputError(f"seen is {self.seen}, expected a share of the requests above 0 and up to 1")
        if not 0 <= self.late <= _MOST_LATE:
            raise InputError(f"late is {self.late}, expected 0 to {_MOST_LATE} intervals")

    def shown(self, measured: Sequence[Sequence[Service]], seq: int) -> list[Service]:
        """What the policy sees in interval `seq`. `measured` are the last intervals, the latest one last."""
        now = measured[-1]
        old = {service.name: service for service in measured[-1 - self.late]} if self.late < len(measured) else {}
        return [self._service(service, old.get(service.name), seq) for service in now]

    def _service(self, now: Service, old: Service | None, seq: int) -> Service:
        threads = Counters(threads=now.counters.threads)
        if old is None:
            return replace(now, latency=None, counters=threads)
        return replace(now, latency=old.latency, counters=self._counters(now.name, old.counters, seq))

    def _counters(self, name: str, true: Counters, seq: int) -> Counters:
        if self.missing == "all":
            return Counters(threads=true.threads)
        if self.missing == "all but CPU time":
            true = Counters(threads=true.threads, cpu_usage_cores=true.cpu_usage_cores)
        if not (self.scaled or self.noise):
            return true
        given: dict[str, float | None] = asdict(true)
        known = [key for key, value in given.items() if value is not None and key not in _NEVER_SCALED]
        constant = scales(self.seed, name, self.scaled)
        drawn = _generator(self.seed, name, seq + 1).standard_normal(len(known)) * self.noise
        wrong: dict[str, Any] = {
            key: cast(float, given[key]) * constant[key] * max(1.0 + by, 0.0)
            for key, by in zip(known, drawn.tolist(), strict=True)
        }
        return replace(true, **wrong)


@lru_cache(maxsize=4096)
def scales(seed: int, service: str, spread: float) -> Mapping[str, float]:
    """The constant factor of each counter of a service."""
    rng = _generator(seed, service, 0)
    return {name: factor(rng, spread) for name in Counters.__struct_fields__}


def _generator(seed: int, service: str, number: int) -> np.random.Generator:
    key = [seed, zlib.crc32(service.encode())]
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, number]))
