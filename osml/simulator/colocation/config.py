"""What an environment is made of: a typed configuration, checked as a whole."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Literal

from osml.base.failure import InputError
from osml.entropy import RELATIVE_IMPORTANCE
from osml.simulator import catalogs
from osml.simulator.columns import MAX_TENANTS
from osml.simulator.load_traces import MAX_LOAD, TRACE_KINDS

SERVICES = ("moses", "img-dnn", "xapian", "specjbb", "masstree", "mongodb", "login", "ads", "nginx", "sphinx")
"""The LC services that OSML was trained on; those that it calls unseen are not among them."""

JOBS = ("fluidanimate", "streamcluster", "stream", "blackscholes", "bodytrack")


@dataclass(frozen=True)
class EnvironmentConfig:
    """Settings of `osml/Colocation-v0`; each is a keyword of `gymnasium.make`."""

    platform: str = "e5-2697v4"
    """Platform of the catalog, the same for all nodes."""
    services: tuple[str, ...] = SERVICES
    """LC services that episodes draw from."""
    jobs: tuple[str, ...] = JOBS
    """Best-effort jobs that episodes draw from; empty for none."""
    job_probability: float = 0.5
    """How often an episode has a best-effort job."""
    min_services: int = 1
    """An episode has at least so many services."""
    max_services: int = 4
    """n: an episode has `min_services` to n services."""
    load_low: float = 0.1
    """Least load, as a fraction of max load."""
    load_high: float = 0.6
    """Highest load."""
    traces: tuple[str, ...] = TRACE_KINDS
    """Kinds of load traces that episodes draw from."""
    churn: float = 0.0
    """How often a service (but the first) comes late or goes early, equally likely."""
    start: Literal["random", "even"] = "random"
    """Partition at the beginning: random counts, or even shares."""
    horizon: int = 120
    """Intervals of an episode, after which it is truncated; none ends on its own."""
    interval_s: float = 1.0
    """Seconds between two actions."""
    warmup: int = 5
    """Intervals that pass before the first observation: caches begin empty."""
    noise: bool = True
    """Measurements with the noise of finitely many samples."""
    reward: Literal["entropy", "latency"] = "entropy"
    """Fall of E_S less the price of what was taken, or the reward of OSML's section 4.3."""
    price: float = 0.1
    """What the whole node costs in units of E_S (reward `entropy`)."""
    relative_importance: float = RELATIVE_IMPORTANCE
    """RI of E_S, equation 17 of Ah-Q."""
    turns: bool = False
    """One service acts in each step, in turn; else all act in every step."""
    mask_in_observation: bool = False
    """Observations are a Dict with `observations` and `action_mask`, as learners want them that never see `info`."""

    def __post_init__(self) -> None:
        for name in ("services", "jobs", "traces"):
            given: tuple[str, ...] | str = getattr(self, name)
            if isinstance(given, str) or len(set(given)) != len(given):
                raise InputError(f"{name} is {given!r}, expected a list of different names")
            object.__setattr__(self, name, tuple(given))
        choices: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
            "traces": (self.traces, TRACE_KINDS),
            "start": ((self.start,), ("random", "even")),
            "reward": ((self.reward,), ("entropy", "latency")),
        }
        for name, (given, known) in choices.items():
            for value in given:
                if value not in known:
                    raise InputError(f"{name}: '{value}' is unknown, expected one of {', '.join(known)}")
        if not self.traces:
            raise InputError(f"traces is empty, expected some of {', '.join(TRACE_KINDS)}")
        self._check_numbers()
        try:
            platform = catalogs.platform(self.platform)
            for name in self.services:
                catalogs.service(name, self.platform)
            for name in self.jobs:
                catalogs.job(name)
        except catalogs.CatalogError as error:
            raise InputError(str(error)) from None
        if self.max_services + 1 > min(platform.cpus, platform.ways):
            raise InputError(
                f"max_services is {self.max_services}, {self.platform} has {platform.cpus} CPUs and {platform.ways} "
                "ways, expected at least one of each for every service and one for the jobs"
            )

    def _check_numbers(self) -> None:
        most = min(len(self.services), MAX_TENANTS - 1)
        limits: dict[str, tuple[float, float]] = {
            "max_services": (1, most), "min_services": (1, self.max_services), "horizon": (1, 1_000_000),
            "warmup": (1, 1000), "job_probability": (0, 1),
            "churn": (0, 1), "relative_importance": (0, 1), "load_high": (0, MAX_LOAD), "load_low": (0, self.load_high),
            "price": (0, 1e6), "interval_s": (1e-3, 3600),
        }  # fmt: skip
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            whole = name in ("max_services", "min_services", "horizon", "warmup")
            right = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
            if not (right and math.isfinite(value) and low <= value <= high):
                kind = "a whole number" if whole else "a number"
                raise InputError(f"{name} is {value!r}, expected {kind} from {low:g} to {high:g}")

    @property
    def places(self) -> int:
        """Tenants on a node at most: the services, and one job."""
        return self.max_services + bool(self.jobs)


def config_of(settings: dict[str, Any]) -> EnvironmentConfig:
    """The configuration out of keywords; InputError names what is wrong."""
    known = [field.name for field in fields(EnvironmentConfig)]
    for name in settings:
        if name not in known:
            raise InputError(f"unknown setting '{name}' of the environment, known are {', '.join(known)}")
    return EnvironmentConfig(**settings)
