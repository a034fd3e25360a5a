"""Online estimates of the farm's rates: arrivals, service with and without interference, interference itself.

Each rate is events over exposure, both forgotten with a half-life, plus a prior of so many imagined events: the mean of
a Gamma posterior. The exposure of a service rate is the time with work at the server. A server that shares itself among
its requests completes at the same rate whatever their number, so this needs no times of single requests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from osml.dispatch.mdp.parameters import FarmParameters

SEEN_ENOUGH = 20
"""Completions in each mode before a service rate without a prior is believed."""
LOWEST_LOAD = 0.01
"""Of one free server. Thresholds below that are those of an empty system; the model has no rate 0."""


@dataclass
class DecayedRate:
    """events / exposure, per second, forgotten with `half_life_s`; `prior` is worth `weight` events."""

    half_life_s: float
    prior: float | None = None
    weight: float = 0.0
    events: float = 0.0
    exposure_s: float = 0.0
    ever: float = 0.0
    """Events since the start, none forgotten."""

    def add(self, events: float, exposure_s: float, elapsed_s: float) -> None:
        """What was seen in the last `elapsed_s` seconds, after ageing what was known before."""
        kept = math.exp2(-elapsed_s / self.half_life_s)
        self.ever += events
        self.events = self.events * kept + events
        self.exposure_s = self.exposure_s * kept + exposure_s

    @property
    def value(self) -> float | None:
        """Estimate per second; None while there is neither a prior nor any exposure."""
        imagined = self.weight if self.prior else 0.0
        exposure = self.exposure_s + (imagined / self.prior if self.prior else 0.0)
        return (self.events + imagined) / exposure if exposure > 0 else None


@dataclass(frozen=True)
class Priors:
    """Rates per second that are believed at first; None: not known, wait until enough was seen."""

    mu_high: float | None = None
    mu_low: float | None = None
    alpha_high: float = 1 / 30
    alpha_low: float = 1 / 30


@dataclass(frozen=True)
class Sample:
    """What happened in `elapsed_s`. Pairs are (without, under interference), summed over the backends."""

    elapsed_s: float
    arrivals: float = 0.0
    completions: tuple[float, float] = (0.0, 0.0)
    busy_s: tuple[float, float] = (0.0, 0.0)
    switches: tuple[float, float] = (0.0, 0.0)
    mode_s: tuple[float, float] = (0.0, 0.0)


@dataclass
class Estimates:
    """All five rates. Half-lives: the load moves, service rates are steadier, interference is rare."""

    priors: Priors = field(default_factory=Priors)
    arrival_half_life_s: float = 5.0
    service_half_life_s: float = 60.0
    switch_half_life_s: float = 600.0

    def __post_init__(self) -> None:
        service, switch = self.service_half_life_s, self.switch_half_life_s
        self.arrival = DecayedRate(self.arrival_half_life_s)
        self.mu_high = DecayedRate(service, self.priors.mu_high, SEEN_ENOUGH)
        self.mu_low = DecayedRate(service, self.priors.mu_low, SEEN_ENOUGH)
        self.alpha_high = DecayedRate(switch, self.priors.alpha_high, 1.0)
        self.alpha_low = DecayedRate(switch, self.priors.alpha_low, 1.0)

    def add(self, sample: Sample) -> None:
        """Take in what happened since the last call."""
        elapsed = sample.elapsed_s
        self.arrival.add(sample.arrivals, elapsed, elapsed)
        self.mu_high.add(sample.completions[0], sample.busy_s[0], elapsed)
        self.mu_low.add(sample.completions[1], sample.busy_s[1], elapsed)
        self.alpha_high.add(sample.switches[0], sample.mode_s[0], elapsed)
        self.alpha_low.add(sample.switches[1], sample.mode_s[1], elapsed)

    def parameters(self, servers: int) -> FarmParameters | None:
        """The farm to look thresholds up for, rounded; None until a rate that has no prior was seen often enough."""
        high, low, arrival = _believed(self.mu_high), _believed(self.mu_low), self.arrival.value
        if high is None or low is None or arrival is None:
            return None
        alpha_high, alpha_low = self.alpha_high.value, self.alpha_low.value
        if not alpha_high or not alpha_low:
            return None
        return FarmParameters(
            # Noise may put them in the wrong order where interference hardly slows.
            servers,
            max(arrival, LOWEST_LOAD * high),
            high,
            min(low, high),
            alpha_high,
            alpha_low,
            "anytime",
        ).rounded()


def _believed(rate: DecayedRate) -> float | None:
    value = rate.value
    return value if value and (rate.prior is not None or rate.ever >= SEEN_ENOUGH) else None
