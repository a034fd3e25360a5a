"""How close predictions come to the real tails: figures 7 to 10 of OMBM, on the virtual node.

The paper does not define its accuracy. Here it is what one sees in its figures: predicted and real tail over the
bandwidth at one request rate, the axis ending at twice the SLO; 100 % minus the mean distance of the two as a share of
the axis. What lies beyond the axis is a missed SLO, by however much. A second reading has the axis logarithmic, over
all tails, at the highest rate.

Nor does it name the rates of figures 7 to 10. Here a service has one rate for all of them, that at which the catalog of
the node takes its published need (facts.yaml, step 5 of the fit): 8,000 requests/s of silo (figure 6), the highest rate
of the others (figure 8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from osml.bandwidth import Predictor, Profile
from osml.bandwidth.offline import EXIT_SHARE, SAMPLES_GBPS
from osml.lab.ombm.profiling import Method, VirtualProfiler, deployed, profile_virtual, rates_of
from osml.simulator.calibration.facts import shipped_facts
from osml.simulator.columns import FloatArray
from osml.simulator.models import PlatformModel, ServiceModel

PLATFORM = "i7-4770k"
SERVICES = ("silo", "masstree", "img-dnn")
AXIS_SLOS = 2.0
SECOND_SAMPLES_GBPS = (0.8, 6.4, 12.4, 19.2, 24.8)
COUNTS_GBPS = {3: (0.8, 6.4, 24.8), 5: SAMPLES_GBPS, 7: (0.8, 1.6, 3.2, 6.4, 12.8, 19.2, 24.8)}
EXIT_SHARES = (0.025, 0.05, 0.1, 0.2, 0.4)
PUBLISHED_PCT = {"silo": 99.0, "masstree": 76.0, "img-dnn": 92.0}  # section 4.2

_RATES = 19
_BANDWIDTHS = 97


@dataclass(frozen=True)
class Truth:
    """Real tails of a service beside STREAM over rates and bandwidths, without noise."""

    platform: PlatformModel
    service: ServiceModel

    @property
    def shown_qps(self) -> float:
        """The rate of the figures; the highest where nothing was published."""
        fits = (self.service.name, self.platform.id, "reserved")
        loads = [fact.load for fact in shipped_facts() if (fact.service, fact.platform, fact.kind) == fits]
        return (loads or [1.0])[0] * rates_of(self.service)[1]

    @cached_property
    def qps(self) -> FloatArray:
        """Rates from the lowest to the highest profiled one; the one of the figures is among them."""
        return np.unique(np.append(np.linspace(*rates_of(self.service), _RATES), self.shown_qps))

    @cached_property
    def gbps(self) -> FloatArray:
        """Bandwidths from the lowest sample to all."""
        return np.linspace(SAMPLES_GBPS[0], self.platform.bandwidth_gbps, _BANDWIDTHS)

    @cached_property
    def tail_ms(self) -> FloatArray:
        """(rates, bandwidths)."""
        real = VirtualProfiler(self.platform, self.service)
        return np.array([[real.true_ms(float(b), float(q)) for b in self.gbps] for q in self.qps])

    @cached_property
    def needed_gbps(self) -> FloatArray:
        """The least bandwidth that meets the target, by rate; all where none does."""
        real = VirtualProfiler(self.platform, self.service)
        return np.array([least_gbps(real.true_ms, float(q), self.service.target_ms, self.gbps) for q in self.qps])

    @property
    def shown(self) -> int:
        """Index of the rate of the figures."""
        return int(np.searchsorted(self.qps, self.shown_qps))


def least_gbps(tail_ms: Callable[[float, float], float], qps: float, slo_ms: float, gbps: FloatArray) -> float:
    """The least bandwidth in the range of `gbps` whose tail meets the SLO (bisection); the most where none does."""
    low, high = float(gbps[0]), float(gbps[-1])
    if tail_ms(low, qps) <= slo_ms:
        return low
    while high - low > 0.01:
        middle = (low + high) / 2.0
        low, high = (low, middle) if tail_ms(middle, qps) <= slo_ms else (middle, high)
    return high


@cache
def truth_of(service: str, platform: str = PLATFORM) -> Truth:
    """The real tails of a service; computed once."""
    return Truth(*deployed(service, platform))


@dataclass(frozen=True)
class Accuracy:
    """How good one profile is. `short_gbps` is the most by which a prediction was too small at any rate."""

    service: str
    label: str
    method: str
    profilings: int
    shown_qps: float  # the rate of the figures
    accuracy_pct: float
    mean_accuracy_pct: float  # over all rates
    least_accuracy_pct: float
    log_accuracy_pct: float  # logarithmic axis, highest rate
    wasted_gbps: float  # predicted minus needed, mean over all rates
    short_gbps: float
    published_pct: float | None = None


def predicted_tails(profile: Profile, truth: Truth) -> FloatArray:
    """(rates, bandwidths) as the profile predicts them."""
    predictor = Predictor(profile)
    return np.array([[predictor.tail_ms(float(q), float(b)) for b in truth.gbps] for q in truth.qps])


def accuracy_by_rate(predicted_ms: FloatArray, truth: Truth) -> FloatArray:
    """Accuracy in % at each rate of `truth`; predictions as (rates, bandwidths)."""
    axis_ms = AXIS_SLOS * truth.service.target_ms
    apart = np.abs(np.minimum(predicted_ms, axis_ms) - np.minimum(truth.tail_ms, axis_ms))
    return 100.0 * (1.0 - apart.mean(axis=1) / axis_ms)


def judge(profile: Profile, truth: Truth, label: str, published_pct: float | None = None) -> Accuracy:
    """A profile against the real tails."""
    slo_ms = truth.service.target_ms
    predicted = predicted_tails(profile, truth)
    by_rate = accuracy_by_rate(predicted, truth)
    predictor = Predictor(profile)
    predictions = [predictor.predict(float(q), slo_ms).bandwidth_gbps for q in truth.qps]
    given = np.array([truth.platform.bandwidth_gbps if gbps is None else gbps for gbps in predictions])
    extra = given - truth.needed_gbps
    return Accuracy(
        service=profile.service,
        label=label,
        method=profile.method,
        profilings=profile.profilings,
        shown_qps=truth.shown_qps,
        accuracy_pct=float(by_rate[truth.shown]),
        mean_accuracy_pct=float(by_rate.mean()),
        least_accuracy_pct=float(by_rate.min()),
        log_accuracy_pct=_log_accuracy_pct(predicted[-1], truth.tail_ms[-1]),
        wasted_gbps=float(np.maximum(extra, 0.0).mean()),
        short_gbps=float(np.maximum(-extra, 0.0).max()),
        published_pct=published_pct,
    )


def _log_accuracy_pct(predicted_ms: FloatArray, real_ms: FloatArray) -> float:
    """100 % minus the mean distance of two lines on a logarithmic axis that just holds both."""
    predicted, real = np.log(predicted_ms), np.log(real_ms)
    axis = max(predicted.max(), real.max()) - min(predicted.min(), real.min())
    return 100.0 * (1.0 - float(np.abs(predicted - real).mean() / axis)) if axis > 0 else 100.0


def profile_of(
    service: str,
    method: Method,
    seed: int = 0,
    samples_gbps: Sequence[float] = SAMPLES_GBPS,
    exit_share: float = EXIT_SHARE,
    platform: str = PLATFORM,
) -> Profile:
    """A fresh profile from the virtual node."""
    profiler = VirtualProfiler(*deployed(service, platform), seed=seed)
    return profile_virtual(profiler, method, samples_gbps=samples_gbps, exit_share=exit_share)


def accuracies(seed: int = 0, services: Sequence[str] = SERVICES) -> Iterable[Accuracy]:
    """Figure 7 (classic beside adaptive), 8 (other samples), 9 (more samples) and 10 (exit thresholds)."""
    for name in services:
        truth = truth_of(name)
        classic = judge(profile_of(name, "classic", seed), truth, "7: classic", PUBLISHED_PCT.get(name))
        yield classic
        yield judge(profile_of(name, "adaptive", seed), truth, "7: adaptive")
        yield judge(profile_of(name, "classic", seed, SECOND_SAMPLES_GBPS), truth, "8: second sample")
        for count, samples in COUNTS_GBPS.items():
            yield judge(profile_of(name, "classic", seed, samples), truth, f"9: {count} bandwidths")
        for share in EXIT_SHARES:
            yield judge(profile_of(name, "classic", seed, exit_share=share), truth, f"10: threshold {share:.1%}")
