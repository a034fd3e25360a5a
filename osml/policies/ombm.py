"""OMBM: as much memory bandwidth for one LC service as its profile says, the rest for best effort.

Source: Sung, Min, Ha, Eom, "OMBM: optimized memory bandwidth management for ensuring QoS and high server utilization",
Cluster Computing 2018. The service has the cores and ways that it was profiled with (one core, half of the cache); the
profile and the current request rate say how much bandwidth meets the target under the worst contention. Deviations are
numbered in docs/reference/policies.md.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import replace

from osml.allocation.limits import budgets, can_isolate
from osml.allocation.policy import Plan, latency_text
from osml.allocation.throttle_units import gbps_of, legal_down, legal_up, peak_gbps
from osml.bandwidth import Correction, Outlook, Predictor, Profile, ProfileLibrary, corrected
from osml.bandwidth.correction import failed, part_of
from osml.bandwidth.jumps import MOST_GROWTH, Jumps, crept, is_jump, noise_qps, ready_qps, watched
from osml.bandwidth.library import usual_library
from osml.domain import Infeasible, MbaRange, Observation, Partition, Reason, Region, Service
from osml.layout.arrange import legal_throttle
from osml.policies.even import Even, EvenState

HEADROOM = 1.03
"""Of the rate, for its noise; not in the classic version, which does not look ahead either."""

BEYOND = 1.05
"""Times the highest profiled rate: up to here, and the noise of a count, it is known; beyond it nothing is."""

REST_SHARE = 0.02
"""Of the machine's bandwidth, what the jobs keep where the service needs all."""


_Amount = Annotated[float, Meta(ge=0, le=1.7e308)]  # a number, that is: states come from outside


class OmbmState(Struct, frozen=True):
    """The last rate, how much it grew, and the bandwidth given for it.

    `draining`: a backlog is there, the service gets what the highest rate needs, or everything; with `blame` that may
    be the correction's fault. `correction` was learned beside these `jobs`, `jumps` of the rate whatever runs beside.
    `waiting`: more than the present rate needs was given, for a jump. `queued`: requests waited, so less than predicted
    is not enough.
    """

    qps: _Amount | None = None
    growth_qps: _Amount = 0.0
    bandwidth_gbps: _Amount | None = None
    draining: bool = False
    blame: bool = False
    waiting: bool = False
    queued: bool = False
    correction: Correction = Correction()
    jumps: Jumps = Jumps()
    jobs: list[str] = []


class Ombm:
    """Bandwidth by prediction, corrected while the service runs. Where OMBM can't work, equal parts and the reason."""

    name = "ombm"
    version = 2
    State = OmbmState
    classic = False

    def __init__(self, library: ProfileLibrary | None = None) -> None:
        self._library = library

    def initial(self, observation: Observation, seed: int) -> OmbmState:
        """Nothing was seen yet. Nothing in OMBM is random."""
        return OmbmState()

    def decide(self, observation: Observation, state: OmbmState) -> tuple[Plan, OmbmState]:
        """One turn of algorithm 2 and of the allocator."""
        setting = self._setting(observation)
        if isinstance(setting, str):
            return _equal_parts(observation, setting), OmbmState()
        jobs = sorted(job.name for job in setting.jobs)
        if jobs != state.jobs:
            state = replace(state, correction=Correction(), jobs=jobs)
        applied = _is_applied(setting, observation.partition, state)
        state, reasons = self._judged(setting, observation, state, applied=applied)
        wanted = self._wanted(setting, state, observation.interval_s)
        reasons.append(Reason(text=wanted.why, service=setting.lc.name, resource="mba"))
        reasons += [Reason(text=note) for note in setting.notes]
        mba, given_gbps = _throttles(setting, wanted.gbps)
        infeasible = Infeasible([setting.lc.name], wanted.why) if wanted.infeasible else None
        state = replace(state, bandwidth_gbps=given_gbps, waiting=wanted.ahead)
        return Plan(Partition(setting.regions, mba), reasons, infeasible), state

    def _setting(self, observation: Observation) -> _Setting | str:
        """What there is to decide on, or why OMBM has nothing to say here."""
        lc = [service for service in observation.services if service.kind == "lc"]
        if len(lc) != 1:
            return f"ombm needs exactly one LC service, but there are {len(lc)} LC services"
        service, platform = lc[0], observation.platform
        if platform.mba is None:
            missing = observation.missing.get("mba", "it has no MBA and no software regulator")
            return f"ombm can't throttle memory bandwidth on this node: {missing}"
        peak = peak_gbps(platform)
        if peak is None:
            return "ombm can set MBA percentages, but the bandwidth of the machine is unknown; run calibrate-mba"
        library = self._library or usual_library()
        predictor = library.predictor(service.name, platform.id, "classic" if self.classic else "adaptive")
        if predictor is None:
            known = library.platforms_of(service.name)
            there = f"there are profiles for {', '.join(known)}" if known else "no platform has one"
            return f"ombm has no bandwidth profile of '{service.name}' on '{platform.id}' ({there}); make one"
        measured = predictor.profile.percentile
        if measured != service.percentile:
            return (
                f"ombm has a bandwidth profile of '{service.name}' for its {measured}, but its target is for "
                f"{service.percentile}; make one with --percentile {service.percentile}"
            )
        jobs = [other for other in observation.services if other.kind == "be"]
        divided = _regions(observation, service, jobs, predictor.profile)
        if isinstance(divided, str):
            return divided
        regions, notes = divided
        return _Setting(service, jobs, regions, notes, platform.mba, peak, predictor)

    def _judged(
        self, setting: _Setting, observation: Observation, state: OmbmState, *, applied: bool
    ) -> tuple[OmbmState, list[Reason]]:
        """What the last interval says about the bandwidth that was given; nothing is learned where it was not."""
        lc, predictor = setting.lc, setting.predictor
        qps = None if lc.latency is None else lc.latency.requests_per_s
        if qps is None or lc.latency_ms is None or lc.target_ms is None:
            return state, []
        outlook = Outlook(
            position=_position(predictor, qps),
            tail_ms=lc.latency_ms,
            slo_ms=lc.target_ms,
            best_ms=predictor.tail_ms(max(qps, 1e-9), predictor.profile.peak_gbps),
            interval_ms=observation.interval_s * 1e3,
        )
        if state.draining:
            if not outlook.calm:
                return replace(state, qps=qps), []
            return self._drained(state, observation, qps), []
        if outlook.queued and state.qps is not None:
            qps = max(qps, state.qps)
        late = outlook.tail_ms > outlook.slo_ms if self.classic else outlook.alarming
        if state.bandwidth_gbps is None:  # nothing was decided yet that could be judged; a queue hides the rate
            return replace(state, qps=qps, draining=outlook.queued and not self.classic), []
        least = state.bandwidth_gbps <= predictor.profile.lines[0].bandwidth_gbps  # less was not profiled
        learns = applied and not (self.classic or late or state.waiting or least)
        correction = corrected(state.correction, outlook) if learns else state.correction
        jumps = state.jumps
        if outlook.queued and not late:
            jumps = crept(jumps, qps)
        elif not (self.classic or late):
            jumps = watched(jumps, observation.time_s, qps, observation.interval_s)
        said = (
            [
                Reason(
                    text=f"{lc.name}: {latency_text(lc)}; requests queue, and the rate is unknown until the queue ends"
                )
            ]
            if late
            else []
        )
        growth = 0.0 if state.qps is None else min(max(qps - state.qps, 0.0), MOST_GROWTH * qps)
        blame = late and applied and not (self.classic or state.waiting)
        state = replace(state, correction=correction, jumps=jumps, draining=late, blame=blame)
        return replace(state, qps=qps, growth_qps=growth, queued=outlook.queued), said

    def _drained(self, state: OmbmState, observation: Observation, qps: float) -> OmbmState:
        """A backlog is gone, and its rate is seen: it was a jump, or the correction gave too little."""
        if self.classic:
            return replace(state, draining=False, qps=qps)
        old, interval_s = state.jumps.settled_qps, observation.interval_s
        innocent = not state.blame or (old is not None and is_jump(old, qps, interval_s))
        correction = state.correction if innocent else failed(state.correction)
        jumps = watched(state.jumps, observation.time_s, qps, interval_s)
        return replace(state, draining=False, qps=qps, correction=correction, jumps=jumps, blame=False, queued=False)

    def _wanted(self, setting: _Setting, state: OmbmState, interval_s: float) -> _Wanted:
        """GB/s for the service and why."""
        lc, predictor = setting.lc, setting.predictor
        if state.qps is None or lc.target_ms is None:
            if state.bandwidth_gbps is None:
                return _Wanted(None, f"{lc.name} gets all bandwidth, because its request rate is not known yet")
            return _Wanted(
                state.bandwidth_gbps, f"{lc.name} keeps its bandwidth, because its request rate was not measured"
            )
        if state.draining:
            most = predictor.predict_lasting(predictor.most_qps, lc.target_ms).bandwidth_gbps
            if self.classic or most is None or lc.latency_ms is None or lc.latency_ms > lc.target_ms:
                return _Wanted(None, f"{lc.name} gets all bandwidth until its request queue ends")
            most *= max(1.0, *state.correction.factors)
            why = f"{lc.name} gets the bandwidth of the highest profiled rate until its request queue ends"
            return _Wanted(most, why)
        known = state.qps <= BEYOND * predictor.most_qps + noise_qps(predictor.most_qps, interval_s)
        rate = max(state.qps if self.classic else (state.qps + state.growth_qps) * HEADROOM, 1e-9)
        ready = 0.0 if self.classic else ready_qps(state.jumps, lc.target_ms, interval_s, predictor.most_qps)
        wanted = min(max(rate, ready), predictor.most_qps) if known else rate
        found = (predictor.predict if self.classic else predictor.predict_lasting)(wanted, lc.target_ms)
        at = f"{lc.name} at {state.qps:.6g} requests/s"
        if found.clamped:
            at += f" (outside of the profile, which is used at {found.qps:.6g} requests/s)"
        if found.bandwidth_gbps is None:
            tail = f"{found.predicted_ms:.4g} ms with all bandwidth"
            return _Wanted(
                None, f"{at}: no bandwidth meets the target of {lc.target_ms:g} ms ({tail})", infeasible=True
            )
        if not known:
            return _Wanted(None, f"{at}: the rate is above the profile, so it gets all bandwidth", infeasible=True)
        ahead = ready > rate
        factor = 1.0
        if not self.classic:
            factor = state.correction.factors[part_of(_position(predictor, ready if ahead else state.qps))]
            if state.queued:
                factor = max(factor, 1.0)
        said = "" if factor == 1.0 else f", times {factor:.2f} (learned with the present jobs)"
        if ahead:
            said += f"; this is enough for {ready:.6g} requests/s, because the rate jumps"
        why = (
            f"{at}: {found.bandwidth_gbps:.3g} GB/s meet the target of {lc.target_ms:g} ms "
            f"under the worst contention{said}"
        )
        least = predictor.profile.lines[0].bandwidth_gbps
        return _Wanted(max(found.bandwidth_gbps * factor, least), why, ahead=ahead)


class OmbmClassic(Ombm):
    """The paper's version: straight lines between fixed samples, no correction."""

    name = "ombm_classic"
    classic = True


class _Wanted(NamedTuple):
    """GB/s for the service (None: all there is), why, whether that may not be enough, or is more than now is needed."""

    gbps: float | None
    why: str
    infeasible: bool = False
    ahead: bool = False


class _Setting(NamedTuple):
    lc: Service
    jobs: list[Service]
    regions: list[Region]
    notes: list[str]
    mba: MbaRange
    peak_gbps: float
    predictor: Predictor


def _position(predictor: Predictor, qps: float) -> float:
    """Where in the profiled range of rates (0 to 1)."""
    return (qps - predictor.least_qps) / (predictor.most_qps - predictor.least_qps)


def _is_applied(setting: _Setting, partition: Partition | None, state: OmbmState) -> bool:
    """Whether the service has what it was given last."""
    given = None if partition is None else partition.mba.get(setting.lc.name)
    if given is None or state.bandwidth_gbps is None:
        return False
    return math.isclose(gbps_of(given, setting.mba, setting.peak_gbps), state.bandwidth_gbps)


def _throttles(setting: _Setting, wanted_gbps: float | None) -> tuple[dict[str, int], float]:
    """Throttles of the service and of each job (equal parts of the rest), and the GB/s that the service has then."""
    mba, peak = setting.mba, setting.peak_gbps
    if not setting.jobs:
        return {setting.lc.name: mba.max}, peak
    most = peak * (1.0 - REST_SHARE)
    own = legal_up(most if wanted_gbps is None else min(wanted_gbps, most), mba, peak)
    given = gbps_of(own, mba, peak)
    part = max(legal_down(max(peak - given, 0.0) / len(setting.jobs), mba, peak), legal_throttle(1, mba))  # 0 is none
    return {setting.lc.name: own, **{job.name: part for job in setting.jobs}}, given


def _regions(
    observation: Observation, service: Service, jobs: list[Service], profile: Profile
) -> tuple[list[Region], list[str]] | str:
    """The profile's cores and ways for the service, the rest for the jobs together; or why that can't be."""
    names = [job.name for job in jobs]
    own: dict[str, int] = {}
    rest: dict[str, int] = {}
    notes: list[str] = []
    for budget in budgets(observation):
        resource = budget.resource
        profiled = profile.units(observation.platform.core_quantum) if resource == "cores" else profile.ways
        if not profiled:
            continue
        obstacle = can_isolate(budget, 2, 1 + len(jobs), observation.platform.max_groups) if jobs else None
        limits = budget.limits[service.name]
        own[resource] = max(limits.least, min(profiled, limits.most))
        left = budget.total - own[resource]
        if jobs:
            rest[resource] = min([left, *(budget.limits[name].most for name in names)])
            least = max(budget.limits[name].least for name in names)
            if obstacle is None and rest[resource] < least:
                obstacle = f"{own[resource]} {resource} for '{service.name}' leave {left}, but the jobs need {least}"
        if obstacle is not None:
            return f"ombm: {obstacle}"
        if own[resource] != profiled:
            notes.append(
                f"the profile was made with {profiled} {resource}, but the operator allows {own[resource]}: "
                "predictions may be wrong"
            )
    regions = [Region([service.name], own["cores"], own.get("ways", 0))]
    if jobs:
        regions.append(Region(names, rest["cores"], rest.get("ways", 0)))
    if observation.platform.ways is not None and "ways" not in own:
        regions.append(Region([service.name, *names], 0, observation.platform.ways))
    return regions, notes


def _equal_parts(observation: Observation, why: str) -> Plan:
    """The plan where OMBM has nothing to say."""
    plan, _ = Even().decide(observation, EvenState())
    names = [service.name for service in observation.services]
    short = f"; {plan.infeasible.message}" if plan.infeasible else ""
    return Plan(plan.partition, [Reason(text=why), *plan.reasons], Infeasible(names, why + short))
