"""What the testbed runs: the settings of figure 11, with loads as utilisation, so that two cores are enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from osml.base.failure import InputError

POLICIES = ("threshold", "avoid", "round_robin", "non_idling")
MU_HIGH = 125.0
"""Requests/s of one server without interference, the paper's; the work of a request is fitted to it."""
ALPHA_PER_S = 1 / 30
MAXCONN = 5
CPU_SHARE = 0.6
"""Of its core, each server; the rest is for HAProxy, the load generator and the controller."""
LOADS = (0.4, 0.5, 0.6, 0.7)
"""Arrivals over what both servers do without interference: the paper's 100 to 175 of 250 requests/s."""
INTENSITIES: Mapping[str, float] = {"low": 50 / 125, "medium": 30 / 125, "high": 15 / 125}
"""mu_low over mu_high that the burner's share is set for (paper: 50, 30 and 15 requests/s)."""
TRACES = ("app", "etc")
TRACE_INTENSITY = "medium"
PRONE, CALM = "web2", "web1"


@dataclass(frozen=True)
class Setting:
    """One group of bars: a constant load, or a trace by name."""

    intensity: str
    load: float | None = None
    trace: str | None = None

    @property
    def name(self) -> str:
        """As it stands in tables."""
        return f"{self.trace} trace" if self.trace else f"{self.intensity}, load {self.load:g}"


@dataclass(frozen=True)
class DispatchTrialSettings:
    """All times are wall-clock seconds.

    compress: interference comes and goes so many times as fast as 1/30 per second. The paper's twelve settings take
    hours otherwise; the rates still differ by a factor of hundreds from those of requests.
    """

    out: Path
    runs: int = 2
    run_s: float = 6.0
    trace_s: float = 9.0
    compress: float = 20.0
    loads: tuple[float, ...] = LOADS
    intensities: tuple[str, ...] = tuple(INTENSITIES)
    traces: tuple[str, ...] = TRACES
    policies: tuple[str, ...] = POLICIES
    seed: int = 0
    poll_ms: float = 1.0
    loadgen: Path | None = None

    @property
    def alpha(self) -> float:
        """Rate at which interference comes, and at which it goes."""
        return ALPHA_PER_S * self.compress

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Constant loads by intensity, then traces."""
        constant = [Setting(intensity, load) for intensity in self.intensities for load in self.loads]
        return (*constant, *(Setting(TRACE_INTENSITY, trace=trace) for trace in self.traces))

    @property
    def expected_s(self) -> float:
        """About how long all of it takes."""
        per_policy = len(self.loads) * len(self.intensities) * self.run_s + len(self.traces) * self.trace_s
        return len(self.policies) * self.runs * (per_policy + 0.8 * len(self.settings)) + 20

    def check(self) -> None:
        """Raise InputError, naming the knob, where a value has no meaning."""
        for knob, value, low, high in (
            ("--runs", self.runs, 1, 100),
            ("--run-s", self.run_s, 1, 3600),
            ("--trace-s", self.trace_s, 1, 3600),
            ("--compress", self.compress, 1, 100),
            ("--poll-ms", self.poll_ms, 0.1, 1000),
            ("--seed", self.seed, 0, 2**31),
        ):
            if not low <= value <= high:
                raise InputError(f"{knob} is {value:g}, expected {low:g} to {high:g}")
        for load in self.loads:
            if not 0 < load <= 0.9:
                raise InputError(f"--load is {load:g}, expected a utilisation above 0 and up to 0.9")
