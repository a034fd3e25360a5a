"""OMBM: one prediction while a service runs, one decision of the policy, one profile from the virtual node."""
# pyright: basic

from __future__ import annotations

from time import perf_counter

from osml.bandwidth import Predictor, shipped_profiles
from osml.bandwidth.library import RATE_STEPS
from osml.domain import Latency, MbaRange, Observation, Platform, Service
from osml.lab.benchmarks.harness import rate, take
from osml.lab.ombm.profiling import VirtualProfiler, deployed, profile_virtual
from osml.policies.ombm import Ombm, OmbmState

_CALLS = 20_000
_DECISIONS = 2_000


def _microseconds(calls: int, work) -> float:
    start = perf_counter()
    work()
    return (perf_counter() - start) / calls * 1e6


def run() -> None:
    """Time predictions with the line of the rate kept, and made anew; a decision; a profile of 30 runs."""
    profiles = {p.method: p for p in shipped_profiles() if p.service == "silo"}
    for method, profile in profiles.items():
        predictor = Predictor(profile, RATE_STEPS)
        step = (profile.most_qps - profile.least_qps) / 997
        rates = [profile.least_qps + step * (i % 997) for i in range(_CALLS)]

        def known(predictor: Predictor = predictor, rates: list[float] = rates) -> None:
            for qps in rates:
                predictor.predict(qps, 200.0)

        take(f"ombm_predict_{method}", "us/prediction", lambda known=known: _microseconds(_CALLS, known))

        def fresh(profile=profile, rates: list[float] = rates[:997]) -> None:
            anew = Predictor(profile)
            for qps in rates:
                anew.predict(qps, 200.0)

        take(f"ombm_predict_{method}_new_rate", "us/prediction", lambda fresh=fresh: _microseconds(997, fresh))
    take("ombm_decide", "us/decision", lambda: _microseconds(_DECISIONS, _decisions))
    setting = deployed("silo", "i7-4770k")
    take("ombm_profile_30_runs", "profiles/s", rate(1, lambda: profile_virtual(VirtualProfiler(*setting))), runs=5)


def _decisions() -> None:
    platform = Platform(
        id="i7-4770k", cores=4, cpus="0-3", ways=16, bandwidth_gbps=24.8, mba=MbaRange(100, 24_800, 100, "mbps")
    )
    jobs = [Service(name=name, kind="be") for name in ("kmeans", "pagerank", "lbm")]
    policy, state = Ombm(), OmbmState()
    for i in range(_DECISIONS):
        latency = Latency(p99_ms=1.0, requests_per_s=5000.0 + i % 1000)
        lc = Service(name="silo", kind="lc", target_ms=200.0, latency=latency)
        _, state = policy.decide(Observation("n", i, float(i), 1.0, platform, [lc, *jobs]), state)
