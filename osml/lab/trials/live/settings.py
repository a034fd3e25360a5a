"""The knobs of the live trial, checked before anything is started."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from osml.base.failure import InputError
from osml.decide.registry import DEFAULT_POLICY, policy_names

WINDOW_S = 10  # the figures of a phase are taken over its last seconds


@dataclass(frozen=True)
class LcLoad:
    """Load and target of one latency-critical service: requests per second, ms at the 99th percentile.

    `min_cores` is the operator's floor in tenths of a CPU: mean use must fit into it with room to spare.
    """

    name: str
    rate: float
    target_ms: float
    min_cores: int
    connections: int = 16


# About 0.13, 0.16 and 0.03 CPUs of a 2 to 3 GHz core. All of it together fits six times into the two CPUs, but beside
# 14 stressing threads a fair share for a single thread is 0.12. How the figures were found: docs/how-to/live.md.
LOADS = (
    LcLoad("redis", 1000, 8.0, min_cores=3),
    LcLoad("nginx", 400, 12.0, min_cores=3),
    LcLoad("memcached", 400, 6.0, min_cores=2),
)
N_CPUS = 2  # the trial keeps to so many CPUs on larger machines too, or the loads would have to grow with them
WORKERS_PER_CPU = 6  # computing workers of the best-effort job
MEMORY_WORKERS = 2


@dataclass(frozen=True)
class LiveSettings:
    """What the trial runs. All times are seconds of the wall clock."""

    out: Path
    policy: str = DEFAULT_POLICY
    unmanaged_s: int = 30
    managed_s: int = 60
    baseline_s: int = 5
    seed: int = 0
    workers: int | None = None  # computing workers of stress-ng; None = 6 a CPU
    port: int | None = None
    agent: Path | None = None
    loadgen: Path | None = None
    loads: tuple[LcLoad, ...] = LOADS

    def check(self) -> None:
        """Raise InputError, naming the knob, where a value has no meaning."""
        if self.policy == "unmanaged":
            raise InputError(
                "--policy is 'unmanaged', which the first phase already runs: choose another, for example arq"
            )
        if self.policy not in policy_names():
            raise InputError(f"--policy is '{self.policy}', expected one of {', '.join(policy_names())}")
        for knob, value, low in (
            ("--unmanaged-s", self.unmanaged_s, 5),
            ("--managed-s", self.managed_s, 5),
            ("--baseline-s", self.baseline_s, 2),
        ):
            if not low <= value <= 3600:
                raise InputError(f"{knob} is {value}, expected {low} to 3600 seconds")
        if not 0 <= self.seed < 2**32:
            raise InputError(f"--seed is {self.seed}, expected 0 to {2**32 - 1}")
        if self.workers is not None and not 1 <= self.workers <= 1024:
            raise InputError(f"--workers is {self.workers}, expected 1 to 1024 stress-ng workers")
        if self.port is not None and not 1 <= self.port <= 65535:
            raise InputError(f"--port is {self.port}, expected 1 to 65535")
