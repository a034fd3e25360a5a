"""Holds the virtual node against what was published: one function for each kind of fact."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from osml import frontier
from osml.entropy import be_entropy, combine, intolerable, lc_entropy
from osml.simulator import catalogs
from osml.simulator.calibration.facts import Fact
from osml.simulator.calibration.fit import IDEAL_LOAD, cost_ms, counters, reserved_excess, tail_at
from osml.simulator.calibration.interference import ANTAGONISTS, tolerated_load_pct
from osml.simulator.closed_loop import ClosedLoop
from osml.simulator.engine import MAX_LOAD
from osml.simulator.models import PlatformModel, ServiceModel
from osml.simulator.physics.cpu import frequency_ghz
from osml.simulator.state import Node
from osml.simulator.steady import steady
from osml.simulator.surface import p99_surface, solo_speed, tail_ms, whole_node

CLIFF_LOAD = 0.6
"""Fraction of max load at which kinds of cliffs are looked at: the papers do not say."""

CLIFF_TIMES = 5.0
"""How many times the latency must grow by the loss of one core or way to be called a cliff."""

CLIFF_MS = 34.0
"""p99 on the safe side of the published cliff (OSML section 3.1): tells the load, which was not published."""

_MIX = ("xapian", "moses", "img-dnn")
_MIX_LOAD = 0.2
_BE_THREADS = 4
_SETTLE_S, _MEASURE_S = 120, 60


@dataclass(frozen=True)
class Checked:
    """A fact beside what the model says."""

    fact: Fact
    ours: float
    passed: bool


def within(published: float, ours: float, tolerance: str) -> bool:
    """Whether ours is within the tolerance: a factor ("x1.5"), a share ("10%") or a distance ("15")."""
    if not math.isfinite(ours):
        return False
    if tolerance.startswith("x"):
        factor = float(tolerance[1:])
        return published / factor <= ours <= published * factor
    if tolerance.endswith("%"):
        return abs(ours - published) <= abs(published) * float(tolerance[:-1]) / 100.0
    return abs(ours - published) <= float(tolerance) + 1e-9


def _of(fact: Fact) -> tuple[PlatformModel, ServiceModel]:
    return catalogs.platform(fact.platform), catalogs.service(fact.service, fact.platform)


def _counter(fact: Fact) -> float:
    return counters(*_of(fact))[fact.quantity]


def _largest(holds: Callable[[float], bool]) -> float:
    """The largest load (fraction of max load) for which a condition holds that holds for all smaller ones."""
    low, high = 0.0, MAX_LOAD
    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _max_load(fact: Fact) -> float:
    """Requests/s of the largest load that meets the target."""
    platform, service = _of(fact)
    return _largest(lambda load: tail_at(platform, service, load) <= service.target_ms) * service.max_load


def _ideal(fact: Fact) -> float:
    return tail_at(*_of(fact), IDEAL_LOAD)


def _cost(fact: Fact) -> float:
    return cost_ms(*_of(fact))


def _reserved(fact: Fact) -> float:
    """GB/s of the smallest reservation that meets the target beside STREAM."""
    platform, service = _of(fact)
    low, high = 0.0, platform.bandwidth_gbps
    for _ in range(20):
        middle = (low + high) / 2.0
        met = reserved_excess(platform, service, fact.load, middle) <= 0.0
        low, high = (low, middle) if met else (middle, high)
    return high


def _interference(fact: Fact) -> float:
    return tolerated_load_pct(*_of(fact), ANTAGONISTS[fact.quantity])


def _cliff(fact: Fact) -> float:
    """p99 one way below the allocation that is published to give CLIFF_MS, at the load that makes it so."""
    platform, service = _of(fact)

    def p99_ms(load: float, ways: int) -> float:
        return float(p99_surface(platform, service, load, [fact.cores], [ways])[0, 0])

    return p99_ms(_largest(lambda load: p99_ms(load, fact.ways + 1) <= CLIFF_MS), fact.ways)


def _cliff_kind(fact: Fact) -> float:
    """1 where the loss of one core somewhere multiplies the latency, plus 2 where that of one way does (figure 1)."""
    platform, service = _of(fact)
    cores, ways = frontier.steepest_losses(p99_surface(platform, service, CLIFF_LOAD))
    return float(cores >= CLIFF_TIMES) + 2.0 * float(ways >= CLIFF_TIMES)


def _oaa_threads(fact: Fact) -> float:
    """How far the cores of the OAA move with the number of threads."""
    platform, service = _of(fact)
    cores = [
        int(frontier.optimal_area(p99_surface(platform, replace(service, threads=n), CLIFF_LOAD), service.target_ms)[0])
        for n in (20, 28, 36)
    ]
    return float(max(cores) - min(cores))


def _mix_node(cores: int, ways: int) -> Node:
    """Ah-Q's node cut down to some cores and ways, with its three services and fluidanimate (section VII).

    The other cores of the chip are idle, not gone: its turbo with `cores` busy ones is the lowest clock.
    """
    whole = catalogs.platform("e5-2630v4")
    lowest = frequency_ghz(whole.frequency_ghz, whole.all_core_ghz, whole.turbo_ghz, whole.physical_cores, cores)
    platform = replace(whole, cpus=cores, physical_cores=cores, ways=ways, all_core_ghz=lowest)
    job = replace(catalogs.job("fluidanimate"), threads=_BE_THREADS)
    return Node(platform, tuple(catalogs.service(name, whole.id) for name in _MIX), (job,))


def _unmanaged(node: Node) -> tuple[dict[str, float], list[float]]:
    flows = steady(node, whole_node(node), dict.fromkeys(_MIX, _MIX_LOAD), 60.0)
    tails = {s.name: tail_ms(flows[i], s.percentile) for i, s in enumerate(node.services)}
    return tails, [flow.instructions / flow.cycles for flow in flows[len(node.services) :]]


def _managed(node: Node, policy: str) -> tuple[dict[str, float], list[float]]:
    """Median tails and IPC of the last minute of three; without noise, which only the policy sees."""
    intervals = ClosedLoop(node, dict.fromkeys(_MIX, _MIX_LOAD), policy, interval_s=0.5).run(_SETTLE_S + _MEASURE_S)
    last = intervals[-2 * _MEASURE_S :]
    tails = {
        service.name: float(np.median([tail_ms(interval.flows[i], service.percentile) for interval in last]))
        for i, service in enumerate(node.services)
    }
    jobs = [[interval.flows[i] for interval in last] for i in range(len(node.services), len(node.tenants))]
    return tails, [sum(f.instructions for f in flows) / sum(f.cycles for f in flows) for flows in jobs]


@cache
def mix_entropies(cores: int, ways: int, policy: str) -> dict[str, float]:
    """Tail latencies of the mix and its entropies, by IPC as Ah-Q has it."""
    node = _mix_node(cores, ways)
    tails, ipcs = _unmanaged(node) if policy == "unmanaged" else _managed(node, policy)
    e_lc = lc_entropy([intolerable(tails[service.name], service.target_ms) for service in node.services])
    solo = [solo_speed(node.platform, job)[0] for job in node.jobs]
    e_be = be_entropy([max(1.0, alone / now) for alone, now in zip(solo, ipcs, strict=True)])
    return tails | {"e_lc": e_lc, "e_be": e_be, "e_s": combine(e_lc, e_be) or 0.0}


def _ahq_mix(fact: Fact) -> float:
    return mix_entropies(fact.cores, fact.ways, fact.policy)[fact.quantity]


KINDS: dict[str, Callable[[Fact], float]] = {
    "counter": _counter,
    "max_load": _max_load,
    "ideal": _ideal,
    "cost": _cost,
    "reserved": _reserved,
    "interference": _interference,
    "cliff": _cliff,
    "cliff_kind": _cliff_kind,
    "oaa_threads": _oaa_threads,
    "ahq_mix": _ahq_mix,
}


def check(facts: Iterable[Fact]) -> Iterable[Checked]:
    """Every fact with the model's own answer, one after the other."""
    for fact in facts:
        ours = KINDS[fact.kind](fact)
        yield Checked(fact, ours, within(fact.published, ours, fact.tolerance))
