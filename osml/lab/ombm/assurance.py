"""The policy beside batch jobs: figures 11 and 12 and table 3 of OMBM, on the virtual node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from osml.allocation.policy import Plan
from osml.domain import Observation
from osml.lab.ombm.accuracy import PLATFORM, SERVICES, least_gbps
from osml.lab.ombm.profiling import VirtualProfiler, deployed, rates_of
from osml.policies.ombm import Ombm, OmbmClassic, OmbmState
from osml.simulator.closed_loop import ClosedLoop, Interval
from osml.simulator.columns import FloatArray
from osml.simulator.load_traces import Constant, Diurnal, Steps, Trace
from osml.simulator.models import ServiceModel
from osml.simulator.reservation import moved_share, reserved_flows, reserved_node

COMBINATIONS = {
    "A": ("kmeans", "bayes", "pagerank"),
    "B": ("kmeans", "libquantum", "bwaves"),
    "C": ("kmeans", "pagerank", "lbm"),
}
"""Batch jobs of table 2."""

PUBLISHED_CPU_PCT = {
    "silo": {"A": (17.77, 98.57), "B": (17.90, 73.75), "C": (15.07, 98.90)},
    "masstree": {"A": (24.82, 99.57), "B": (24.15, 98.00), "C": (15.52, 96.70)},
    "img-dnn": {"A": (17.77, 98.57), "B": (13.45, 68.47), "C": (18.92, 92.00)},
}
"""Table 3: CPU use of the server with the service alone, and with three batch jobs."""

STATIC_LOADS = (0.2, 0.4, 0.6, 0.8, 1.0)
WARM_UP_S = 10
STATIC_S = 70
DYNAMIC_S = 610
PERIOD_S = 300.0
HELD_S = 20.0
KINDS = ("static", "diurnal", "random")

_GRID = 16


@dataclass(frozen=True)
class Assurance:
    """One service beside one combination of jobs under one kind of load.

    `slo_pct` are the intervals within the SLO. GB/s are means over the intervals of what the service was given, what it
    needed beside these jobs at the same moment, what was given too much (`wasted_gbps`), and what was too little
    (`short_gbps`); None where nothing was reserved. CPU use is of the whole server.
    """

    service: str
    combination: str
    load: str
    policy: str
    intervals: int
    slo_pct: float
    given_gbps: float | None
    needed_gbps: float
    wasted_gbps: float | None
    short_gbps: float | None
    cpu_alone_pct: float
    cpu_pct: float
    published_cpu_pct: tuple[float, float]

    @property
    def gain(self) -> float:
        """How many times more of the server is used."""
        return self.cpu_pct / self.cpu_alone_pct


def traces(service: ServiceModel, kind: str, seed: int = 0) -> list[Trace]:
    """Static rates; a sine over the whole range with 2 % noise; or rates drawn anew every 20 s, which jump."""
    low, high = (rate / service.max_load for rate in rates_of(service))
    if kind == "static":
        return [Constant(load) for load in STATIC_LOADS]
    if kind == "diurnal":
        return [Diurnal((low + high) / 2.0, 0.98 * (high - low) / 2.0, PERIOD_S, noise=0.02, seed=seed)]
    drawn = np.random.default_rng(seed).uniform(low, high, round(DYNAMIC_S / HELD_S) + 1).tolist()
    return [Steps(drawn[0], tuple((HELD_S * (i + 1), load) for i, load in enumerate(drawn[1:])))]


@cache
def _needed(service: str, combination: str) -> tuple[FloatArray, FloatArray]:
    """Rates, and the least GB/s that meet the SLO beside these jobs, as the software regulator counts them."""
    platform, model = deployed(service, PLATFORM)
    real = VirtualProfiler(platform, model, jobs=COMBINATIONS[combination])
    qps = np.linspace(*rates_of(model), _GRID)
    whole = np.array([0.8, platform.bandwidth_gbps])
    reserved = np.array([least_gbps(real.true_ms, float(rate), model.target_ms, whole) for rate in qps])
    return qps, reserved * moved_share(platform)


@cache
def _alone_cpus(service: str) -> tuple[FloatArray, FloatArray]:
    """Rates, and the CPUs that the service alone keeps busy."""
    platform, model = deployed(service, PLATFORM)
    qps = np.linspace(*rates_of(model), _GRID)
    flows = [reserved_flows(platform, model, float(q) / model.max_load, platform.bandwidth_gbps, ())[0] for q in qps]
    return qps, np.array([flow.cpu_s / flow.dt for flow in flows])


class Told:
    """`ombm` as the paper has it in this: told the rate of the coming interval, where an agent sees the last one's."""

    version = 0
    State = OmbmState

    def __init__(self, policy: Ombm, trace: Trace, max_load: float) -> None:
        self.name, self._policy, self._trace, self._max_load = f"{policy.name}_told", policy, trace, max_load

    def initial(self, observation: Observation, seed: int) -> OmbmState:
        """As `ombm`."""
        return self._policy.initial(observation, seed)

    def decide(self, observation: Observation, state: OmbmState) -> tuple[Plan, OmbmState]:
        """As `ombm`, by the rate that comes."""
        qps = float(self._trace.sample(np.array([observation.time_s]))[0]) * self._max_load
        services = [
            one if one.latency is None else replace(one, latency=replace(one.latency, requests_per_s=qps))
            for one in observation.services
        ]
        return self._policy.decide(replace(observation, services=services), state)


def run_policy(
    service: str,
    combination: str,
    trace: Trace,
    *,
    classic: bool,
    seconds: int,
    seed: int,
    interval_s: float = 1.0,
    told: bool = False,
) -> list[Interval]:
    """Intervals of one run, the warm-up left out."""
    platform, model = deployed(service, PLATFORM)
    policy = OmbmClassic() if classic else Ombm()
    if told:
        policy = Told(policy, trace, model.max_load)
    node = reserved_node(platform, model, COMBINATIONS[combination])
    loop = ClosedLoop(node, {service: trace}, policy, regulator=True, seed=seed, interval_s=interval_s)
    return loop.run(seconds)[round(WARM_UP_S / interval_s) :]


def assure(
    service: str,
    combination: str,
    kind: str,
    *,
    classic: bool,
    seed: int = 0,
    interval_s: float = 1.0,
    told: bool = False,
) -> Assurance:
    """All runs of one kind of load together; `told`: the policy is told the rate of the coming interval."""
    platform, model = deployed(service, PLATFORM)
    seen: list[Seen] = []
    for trace in traces(model, kind, seed):
        seconds = STATIC_S if kind == "static" else DYNAMIC_S
        for interval in run_policy(
            service, combination, trace, classic=classic, seconds=seconds, seed=seed, interval_s=interval_s, told=told
        ):
            decision = interval.decision
            seen.append(
                Seen(
                    met=interval.tail_ms(0, model.percentile) <= model.target_ms,
                    load=float(trace.sample(np.array([interval.time_s]))[0]),
                    given_gbps=None if decision is None else decision.partition.mba[service] / 1e3,
                    busy=sum(flow.cpu_s / flow.dt for flow in interval.flows) / platform.cpus,
                )
            )
    policy = ("ombm_classic" if classic else "ombm") + ("_told" if told else "")
    return assured(service, combination, kind, policy, seen)


class Seen(NamedTuple):
    """One interval: target met, load as a share of max load, GB/s reserved for the service, share of all CPU time."""

    met: bool
    load: float
    given_gbps: float | None
    busy: float


def assured(service: str, combination: str, kind: str, policy: str, seen: Sequence[Seen]) -> Assurance:
    """What intervals (at least one, the warm-up left out) say about a policy."""
    platform, model = deployed(service, PLATFORM)
    rates = np.array([one.load for one in seen]) * model.max_load
    needed = np.interp(rates, *_needed(service, combination))
    alone = np.interp(rates, *_alone_cpus(service))
    reserved = [one.given_gbps for one in seen if one.given_gbps is not None]
    extra = np.array(reserved) - needed if len(reserved) == len(seen) else None
    return Assurance(
        service=service,
        combination=combination,
        load=kind,
        policy=policy,
        intervals=len(seen),
        slo_pct=100.0 * sum(one.met for one in seen) / len(seen),
        given_gbps=None if extra is None else float(np.mean(reserved)),
        needed_gbps=float(np.mean(needed)),
        wasted_gbps=None if extra is None else float(np.maximum(extra, 0.0).mean()),
        short_gbps=None if extra is None else float(np.maximum(-extra, 0.0).mean()),
        cpu_alone_pct=100.0 * float(np.mean(alone)) / platform.cpus,
        cpu_pct=100.0 * float(np.mean([one.busy for one in seen])),
        published_cpu_pct=PUBLISHED_CPU_PCT[service][combination],
    )


def assurances(
    seed: int = 0,
    services: Sequence[str] = SERVICES,
    combinations: Sequence[str] = tuple(COMBINATIONS),
    interval_s: float = 1.0,
    *,
    told: bool = False,
) -> Iterable[Assurance]:
    """Every service beside every combination under every kind of load, classic and corrected."""
    for service in services:
        for combination in combinations:
            for kind in KINDS:
                for classic in (True, False):
                    yield assure(
                        service, combination, kind, classic=classic, seed=seed, interval_s=interval_s, told=told
                    )
