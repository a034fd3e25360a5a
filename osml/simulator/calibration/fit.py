"""Finds the free parameters of the services from the published facts that a fit may see.

Those are loads, targets, instructions per cycle, misses, bandwidth, CPU use and ideal latencies of each deployment.
One service after the other, deployments with counters first, because the others take over the behaviour that is found
there. No step is random: the same facts give the same catalog. For a deployment

1. with counters at max load (PARTIES): `cpi`, `miss_min` and `instructions` from instructions per cycle, misses per
   kilo-instruction and CPU use, by sweeps that correct each by its own counter until all agree. Bandwidth over misses
   is `bytes_per_miss`, where misses can explain it; of what is more, `device_kib` are moved by devices. Max load is the
   knee of the curve, so `usable` (locks, uneven workers) puts saturation just above the CPU use at max load, as closely
   as the target leaves room for the queue; then `cv2` makes the tail the target. Where no spread of the work explains
   so long a tail, `burstiness` of the arrivals does. A service that lives on its disk gets its `disk_ios` from the
   target.
2. with an ideal latency (Ah-Q): `instructions` and `cv2` from the ideal latency and the target, solved together.
3. with a load and a target of one paper, but no ideal latency: `instructions` are as many as both allow, and at most
   KNEE of the CPU time.
4. with a load that is said to be the knee of the curve, and no target (OSML): `instructions` are the geometric mean of
   what 1 to 3 found and of the CPU time a request that other papers print; where nobody does, the CPUs in use at that
   load are USUAL_SHARE. The target is KNEE_RATIO times the tail at a tenth of the load. Where the CPUs would bear more,
   something else ends the curve: `serial_ms` is such that the tail at that load is the target.
5. with a reserved bandwidth (OMBM), whatever else is known: `instructions` put the knee of one core at max load, and
   `apki` makes that reservation the least that meets the target beside STREAM.

How a service uses the cache where no counter of it was published is that of a measured program, drawn by its name
(osml.simulator.programs).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from scipy import optimize

from osml.simulator import catalogs
from osml.simulator.calibration.facts import Fact
from osml.simulator.models import PlatformModel, ServiceModel
from osml.simulator.programs import drawn_for
from osml.simulator.reservation import reserved_flows
from osml.simulator.state import Flow, Node
from osml.simulator.steady import steady
from osml.simulator.surface import tail_ms, whole_node

KNEE = 0.92
"""Share of the usable CPU time that is in use at max load, where nothing more is known: the knee of the curve."""

IDEAL_LOAD = 0.2
"""Load at which an ideal latency is taken: "enough resources" (Ah-Q section VII)."""

KNEE_RATIO = 1.71
"""Tail at the knee over the tail at a tenth of its load: geometric mean of the eight that are printed, from 1.0 to 3.8
(CLITE figure 6: specjbb, memcached, xapian, img-dnn, masstree; Ah-Q table II: xapian, img-dnn, moses).
"""

USUAL_SHARE = 0.23
"""Share of all CPUs that a service keeps busy at the knee, where nobody printed what a request costs: the median of the
services of which somebody did, on the Xeon E5-2697 v4.
"""

_QUIET = 0.1
_COST_GHZ = 2.5
_BOUND = 0.5  # of its CPUs: below it a load and a target say nothing of what a request costs

_CV2 = (0.01, 4.0)
_BURSTS = (1.0, 1e4)
_ASSUMED_CV2 = 0.3
_SECONDS = 30.0
_SWEEPS = 300
_STRIDE = 0.15
_APKI = (0.1, 1000.0)
_DAMPING = 0.3
_LINE, _USUAL_BYTES, _MOST_BYTES = 64.0, 160.0, 256.0
"""Bytes a miss: a line of the cache; with prefetched and written lines as usual, and at most (SPEC on a Xeon 5120)."""


def at_load(platform: PlatformModel, service: ServiceModel, load: float) -> Flow:
    """The service alone on the whole platform at a fraction of its max load."""
    node = Node(platform, (service,))
    return steady(node, whole_node(node), {service.name: load}, _SECONDS)[0]


def tail_at(platform: PlatformModel, service: ServiceModel, load: float) -> float:
    """Its tail in ms, at the percentile of its target."""
    return tail_ms(at_load(platform, service, load), service.percentile)


def counters(platform: PlatformModel, service: ServiceModel) -> dict[str, float]:
    """Counters at max load alone on the platform, by the names that the facts use."""
    flow = at_load(platform, service, 1.0)
    return {
        "ipc": flow.instructions / flow.cycles,
        "llc_mpki": flow.llc_misses / flow.instructions * 1000.0,
        "bandwidth_gbps": (flow.memory_bytes / flow.dt + service.max_load * service.device_kib * 1024.0) / 1e9,
        "cpu_share": flow.cpu_s / flow.dt / platform.cpus,
        "network_gbps": flow.network_bytes * 8.0 / flow.dt / 1e9,
    }


def _bisect(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a growing function crosses zero (Brent, in logarithms); an end of the range where it does not."""
    if function(low) >= 0:
        return low
    if function(high) <= 0:
        return high

    def bounded(x: float) -> float:
        return min(max(function(math.exp(x)), -1e6), 1e6)

    root: Any = cast(Any, optimize).brentq(bounded, math.log(low), math.log(high), xtol=1e-5)
    return math.exp(float(root))


def _with_memory(service: ServiceModel, **changes: float) -> ServiceModel:
    return replace(service, memory=replace(service.memory, **changes))


def _fit_counters(platform: PlatformModel, service: ServiceModel, wanted: dict[str, float]) -> ServiceModel:
    """Step 1 without the tail."""
    m = service.memory
    apki = max(m.apki, wanted["llc_mpki"] / 0.6)
    # At least half of the misses with all of the cache are taken as those that no cache avoids.
    whole = min(platform.ways * platform.way_mib, m.footprint_mib)
    set_mib = min(m.working_set_mib, whole * (wanted["llc_mpki"] / apki / 2.0) ** (1.0 / m.steepness))
    clock = platform.all_core_ghz
    work = wanted["cpu_share"] * platform.cpus * clock * 1e9 * wanted["ipc"] / service.max_load
    fitted = replace(_with_memory(service, apki=apki, working_set_mib=set_mib), instructions=work, usable=1.0)
    for _ in range(_SWEEPS):
        ours, m = counters(platform, fitted), fitted.memory
        fitted = _with_memory(
            fitted,
            cpi=max(m.cpi + _STRIDE * (1.0 / wanted["ipc"] - 1.0 / ours["ipc"]), 0.1 * m.cpi),
            miss_min=min(max(m.miss_min + (wanted["llc_mpki"] - ours["llc_mpki"]) / apki, 1e-6), 0.99),
        )
        work = fitted.instructions * (wanted["cpu_share"] / ours["cpu_share"]) ** _DAMPING
        fitted = replace(fitted, instructions=work)
    return fitted


def _fit_traffic(platform: PlatformModel, service: ServiceModel, wanted: dict[str, float]) -> ServiceModel:
    """The bandwidth of step 1. A program waits for misses and not for devices, so both must be told apart."""
    bytes_per_request = wanted["bandwidth_gbps"] * 1e9 / service.max_load
    misses = service.instructions * wanted["llc_mpki"] / 1000.0
    per_miss = bytes_per_request / misses
    if per_miss > _MOST_BYTES:
        per_miss = _USUAL_BYTES
    fitted = _with_memory(service, bytes_per_miss=max(per_miss, _LINE))
    return replace(fitted, device_kib=max(0.0, bytes_per_request - misses * per_miss) / 1024.0)


def _fit_tail(platform: PlatformModel, service: ServiceModel, cpu_share: float) -> ServiceModel:
    """The tail of step 1: `usable` and `cv2`, or `disk_ios` of a service that lives on its disk."""
    if service.disk_ios > 0:
        service = replace(service, cv2=_ASSUMED_CV2)
        ios = _bisect(lambda x: tail_at(platform, replace(service, disk_ios=x), 1.0) - service.target_ms, 0.01, 100.0)
        return replace(service, disk_ios=ios)
    for knee in (KNEE - 0.02 * i for i in range(30)):
        service = replace(service, usable=min(1.0, cpu_share / knee))
        if tail_at(platform, replace(service, cv2=_CV2[0]), 1.0) < service.target_ms:
            break
    if tail_at(platform, replace(service, cv2=_CV2[1]), 1.0) < service.target_ms:
        service = replace(service, cv2=_ASSUMED_CV2)
        bursts = _bisect(lambda x: tail_at(platform, replace(service, burstiness=x), 1.0) - service.target_ms, *_BURSTS)
        return replace(service, burstiness=bursts)
    cv2 = _bisect(lambda x: tail_at(platform, replace(service, cv2=x), 1.0) - service.target_ms, *_CV2)
    return replace(service, cv2=cv2)


def _fit_ideal(platform: PlatformModel, service: ServiceModel, ideal_ms: float) -> ServiceModel:
    """Step 2: for every cv2 the ideal latency gives `instructions`; the target at max load then tells which cv2."""

    def with_cv2(cv2: float) -> ServiceModel:
        spread = replace(service, cv2=cv2)
        work = _bisect(lambda x: tail_at(platform, replace(spread, instructions=x), IDEAL_LOAD) - ideal_ms, 1e4, 1e11)
        return replace(spread, instructions=work)

    # More spread means a shorter mean for the same ideal tail, and so a lower tail at max load.
    return with_cv2(_bisect(lambda x: service.target_ms - tail_at(platform, with_cv2(x), 1.0), *_CV2))


def _fit_load(platform: PlatformModel, service: ServiceModel) -> ServiceModel:
    """The last way out: requests as long as load and target allow."""

    def excess(work: float) -> float:
        flow = at_load(platform, replace(service, instructions=work), 1.0)
        return max(tail_ms(flow, service.percentile) / service.target_ms, flow.utilisation / KNEE) - 1.0

    return replace(service, instructions=_bisect(excess, 1e2, 1e12))


def _fit_knee(platform: PlatformModel, service: ServiceModel, costs: Sequence[float]) -> ServiceModel:
    """Step 4; `costs` are instructions a request."""

    def full(work: float) -> float:
        return at_load(platform, replace(service, instructions=work), 1.0).utilisation / KNEE - 1.0

    def busy(work: float) -> float:
        flow = at_load(platform, replace(service, instructions=work), 1.0)
        return flow.cpu_s / flow.dt / platform.cpus - USUAL_SHARE

    work = _mean(costs) if costs else _bisect(busy, 1e2, 1e12)
    if full(work) > 0.0:
        work = _bisect(full, 1e2, work)
    fitted = replace(service, instructions=work)
    quiet = tail_at(platform, fitted, _QUIET)
    fitted = replace(fitted, target_ms=max(KNEE_RATIO * quiet, tail_at(platform, fitted, 1.0)))
    longest = 1000.0 / service.max_load
    serial = _bisect(
        lambda x: tail_at(platform, replace(fitted, serial_ms=x), 1.0) - fitted.target_ms, longest * 1e-3, longest
    )
    return replace(fitted, serial_ms=serial)


def cost_ms(platform: PlatformModel, service: ServiceModel) -> float:
    """CPU time of a request in ms on a CPU of _COST_GHZ with an idle sibling and all of the cache."""
    flow = at_load(platform, service, _QUIET)
    return flow.cpu_s / flow.requests * 1000.0 * flow.frequency_ghz / _COST_GHZ


def _printed_cost(platform: PlatformModel, service: ServiceModel, cost: float) -> float:
    """Instructions a request that cost so many ms."""
    unit = replace(service, instructions=1e5)
    return 1e5 * cost / cost_ms(platform, unit)


def _as_measured(platform: PlatformModel, service: ServiceModel) -> ServiceModel:
    """A service of which no counter was published, with the memory behaviour of the program that is drawn for it."""
    memory = service.memory
    drawn = drawn_for(service.name).behaviour(platform.memory_latency_ns, memory.footprint_mib, memory.power)
    return replace(service, memory=drawn)


def reserved_excess(platform: PlatformModel, service: ServiceModel, load: float, bandwidth_gbps: float) -> float:
    """Tail minus target in ms beside STREAM with so much bandwidth reserved, at a fraction of max load."""
    flow = reserved_flows(platform, service, load, bandwidth_gbps)[0]
    return tail_ms(flow, service.percentile) - service.target_ms


def _fit_reserved(platform: PlatformModel, service: ServiceModel, fact: Fact) -> ServiceModel:
    """Step 5."""

    def with_apki(apki: float) -> ServiceModel:
        given = _with_memory(service, apki=apki)

        def busy(work: float) -> float:
            alone = reserved_flows(platform, replace(given, instructions=work), 1.0, platform.bandwidth_gbps, ())
            return alone[0].utilisation / KNEE - 1.0

        return replace(given, instructions=_bisect(busy, 1e2, 1e12))

    apki = _bisect(lambda x: reserved_excess(platform, with_apki(x), fact.load, fact.published), *_APKI)
    return with_apki(apki)


def _fit_network(service: ServiceModel, gbps: float) -> ServiceModel:
    return replace(service, network_kib=gbps * 1e9 / 8.0 / 1024.0 / service.max_load)


def _behaving(
    platform: PlatformModel, service: ServiceModel, found: ServiceModel | None, *, measured: bool
) -> ServiceModel:
    """The service as it was `found` to behave elsewhere; else as the program drawn for it, if not `measured`."""
    if found is None:
        return service if measured else _as_measured(platform, service)
    return replace(
        service,
        memory=found.memory,
        network_kib=found.network_kib,
        device_kib=found.device_kib,
        burstiness=found.burstiness,
    )


def _kind(known: bool, ideal: bool, reserved: bool, knee: bool) -> int:
    """Which of the steps 1 to 5 a deployment takes, by what was published of it."""
    return 1 if known else 2 if ideal else 5 if reserved else 4 if knee else 3


def fit_service(name: str, facts: Sequence[Fact]) -> dict[str, ServiceModel]:
    """All deployments of a service, fitted; held-back facts are left out."""
    deployed = catalogs.deployments(name)
    knees = catalogs.fitted_targets(name)
    mine = [fact for fact in facts if fact.service == name and not fact.held_back]
    ideal = {fact.platform: fact.published for fact in mine if fact.kind == "ideal"}
    reserved = {fact.platform: fact for fact in mine if fact.kind == "reserved"}
    known: dict[str, dict[str, float]] = {platform_id: {} for platform_id in deployed}
    for fact in mine:
        if fact.kind == "counter":
            known[fact.platform][fact.quantity] = fact.published
    steps = {p: _kind(bool(known[p]), p in ideal, p in reserved, p in knees) for p in deployed}
    fitted: dict[str, ServiceModel] = {}
    found: ServiceModel | None = None  # its behaviour is taken over
    spreads: list[float] = []
    costs: list[float] = []

    for platform_id in sorted(deployed, key=lambda p: (steps[p], deployed[p].target_ms)):
        platform, step = catalogs.platform(platform_id), steps[platform_id]
        service = replace(deployed[platform_id], usable=1.0, burstiness=1.0, serial_ms=0.0, device_kib=0.0)
        service = _behaving(platform, service, found, measured=step == 1)
        if step > 2:
            service = replace(service, cv2=_mean_spread(spreads))
        if step == 1:
            service = _fit_network(service, known[platform_id]["network_gbps"])
            service = _fit_counters(platform, service, known[platform_id])
            service = _fit_traffic(platform, service, known[platform_id])
            service = found = _fit_tail(platform, service, known[platform_id]["cpu_share"])
        elif step == 2:
            service = _fit_ideal(platform, service, ideal[platform_id])
        elif step == 3:
            service = _fit_load(platform, service)
        elif step == 4:
            printed = [fact.published for fact in mine if fact.kind == "cost" and fact.platform == platform_id]
            service = _fit_knee(
                platform, service, [*costs, *(_printed_cost(platform, service, cost) for cost in printed)]
            )
        else:
            own = _with_memory(service, mlp=deployed[platform_id].memory.mlp)
            service = _fit_reserved(platform, own, reserved[platform_id])
        if step <= 2:
            spreads.append(service.cv2)
        if step <= 3 and at_load(platform, service, 1.0).utilisation > _BOUND:
            costs.append(service.instructions)
        fitted[platform_id] = service
    return {platform_id: fitted[platform_id] for platform_id in deployed}


def _mean(values: Sequence[float]) -> float:
    """Geometric mean."""
    return math.exp(sum(math.log(value) for value in values) / len(values))


def _mean_spread(spreads: Sequence[float]) -> float:
    return _mean(spreads) if spreads else _ASSUMED_CV2
