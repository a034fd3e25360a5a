"""Memory bandwidth by predicted need (OSML section 5.1: BW_j / sum of BW_i), where the platform throttles it (MBA).

What a service needs Model-A says: the mean traffic of its OAA. Where the service was profiled under memory contention
(OMBM, docs/reference/ombm.md) the profile says it instead: the reservation that meets the target at the present rate
whatever runs beside. It holds where the service has at least the cores and ways that it was profiled with, and not so
many more that they stand in for bandwidth. Who misses its target with them lacks bandwidth, by its profile: it gets all
until the backlog, which hides the rate, is gone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from osml.allocation.policy import latency_text
from osml.allocation.throttle_units import legal_down, legal_up, peak_gbps
from osml.bandwidth import Predictor, ProfileLibrary
from osml.bandwidth.correction import ALARM_SHARE
from osml.bandwidth.library import usual_library
from osml.base.failure import InputError
from osml.domain import MbaRange, Partition, Reason, Service
from osml.layout.arrange import legal_throttle
from osml.policies.ombm import BEYOND, HEADROOM
from osml.policies.osml.facts import Facts

_ROOM = 1.2  # bandwidth of the OAA is a mean: seconds need more
_LARGER = 1.5  # times the cores or ways that were profiled: what the profile asks is far too much beyond
_STALE = 0.8  # of what jobs could have: then throttles follow the rate, though no cell changed
_OVER = 8  # intervals in a row with all targets met after which jobs get more than the least again


class _Holding(NamedTuple):
    """A profile that holds for a service in its cell; in a `large` one it asks far too much."""

    predictor: Predictor
    large: bool


class _Need(NamedTuple):
    """GB/s that a profile says a service needs, and why."""

    gbps: float
    why: str


def with_bandwidth(
    facts: Facts, partition: Partition, profiles: ProfileLibrary | None = None
) -> tuple[Partition, list[Reason]]:
    """The partition with a throttle for everybody, where the platform has them and all needs are known; and why.

    Services get the platform's bandwidth in proportion to their needs in GB/s, profiled ones no less than that; BE jobs
    what these needs leave of the machine's bandwidth, in equal parts. As long as the cells and the loads are the same,
    the throttles stay, because predictions differ a little in every interval; those from a profile follow the rate.
    After a miss jobs have the least. In cells too large for profiles they get more once all targets were met for some
    intervals: what the profile leaves, because what Model-A leaves was too much. `profiles` None: the usual ones.
    """
    platform = facts.observation.platform
    if platform.mba is None:
        return partition, []
    peak, reasons, before = peak_gbps(platform), list[Reason](), facts.observation.partition
    held = before.mba or None if before is not None and before.regions == partition.regions else None
    as_held = partition if held is None else replace(partition, mba=held)
    keep = held is not None and not facts.changed
    holding = {} if peak is None else _holding(facts, partition, profiles, reasons)
    jobs, least = facts.node.be, legal_throttle(1, platform.mba)
    draining = held is not None and bool(jobs) and all(held.get(job) == least for job in jobs)  # a miss may be why
    over = draining and min([track.met for track in facts.tracks.values()], default=0) >= _OVER
    found = {name: _need(facts.services[name], one, draining=draining, over=over) for name, one in holding.items()}
    profiled = {name: need for name, need in found.items() if need is not None}
    all_large = bool(holding) and all(one.large for one in holding.values())
    if keep and not profiled and not (over and all_large):
        return as_held, reasons
    told = {name: facts.answers[name].gbps for name in facts.services if name not in profiled}
    modelled = {name: gbps for name, gbps in told.items() if gbps is not None}
    if len(modelled) < len(told) or not facts.services:
        return as_held, reasons
    wanted = _throttles(facts, platform.mba, peak, modelled, profiled)
    good = held is not None and peak is not None and _still_good(facts, platform.mba, peak, held, wanted, profiled)
    if keep and good:
        return as_held, reasons
    reasons += [Reason(text=need.why, service=name) for name, need in profiled.items()]
    return replace(partition, mba=wanted), reasons


def _throttles(
    facts: Facts, mba: MbaRange, peak: float | None, modelled: Mapping[str, float], profiled: Mapping[str, _Need]
) -> dict[str, int]:
    needs = {**modelled, **{name: need.gbps for name, need in profiled.items()}}
    most = sum(needs.values())
    found = {name: legal_throttle(max(1, round(mba.max * need / most)), mba) for name, need in needs.items()}
    if peak is not None:
        found |= {name: max(found[name], legal_up(need.gbps, mba, peak)) for name, need in profiled.items()}
        asked = _ROOM * sum(modelled.values()) + sum([need.gbps for need in profiled.values()])
        left = legal_down(max(peak - asked, 0.0) / max(len(facts.node.be), 1), mba, peak)
        found |= dict.fromkeys(facts.node.be, max(left, legal_throttle(1, mba)))  # 0 is no throttle
    return found


def _holding(
    facts: Facts, partition: Partition, profiles: ProfileLibrary | None, reasons: list[Reason]
) -> dict[str, _Holding]:
    """The profiles that hold for services in their cells; why there are none is added to the reasons."""
    try:
        library = usual_library() if profiles is None else profiles
    except InputError as error:  # the operator's folder is missing or damaged
        reasons.append(Reason(text=f"bandwidth profiles can't be used: {error}"))
        return {}
    found = {name: _profile_of(facts, service, partition, library) for name, service in facts.services.items()}
    return {name: one for name, one in found.items() if one is not None}


def _profile_of(facts: Facts, service: Service, partition: Partition, library: ProfileLibrary) -> _Holding | None:
    predictor = library.predictor(service.name, facts.observation.platform.id, "adaptive")
    if predictor is None:
        return None
    profile = predictor.profile
    cores, ways = partition.cores_of(service.name), partition.ways_of(service.name)
    units = profile.units(facts.observation.platform.core_quantum)
    divided = facts.node.has_ways and profile.ways > 0
    if profile.percentile != service.percentile or cores < units or (divided and ways < profile.ways):
        return None
    large = cores > math.ceil(_LARGER * units) or (divided and ways > math.ceil(_LARGER * profile.ways))
    return _Holding(predictor, large)


def _need(service: Service, holding: _Holding, *, draining: bool, over: bool) -> _Need | None:
    """The GB/s that meet a service's target at its present rate; None where its profile does not say.

    While a backlog may be `draining`, a tail near the target is not yet a tail of the present rate.
    """
    qps = None if service.latency is None else service.latency.requests_per_s
    if not qps or service.target_ms is None:
        return None
    predictor, profile = holding.predictor, holding.predictor.profile
    profiled = f"profiled with {profile.cores} cores and {profile.ways} ways"
    slack = service.slack or 0.0
    if slack < 0 or (draining and slack < ALARM_SHARE):
        best_ms = predictor.tail_ms(predictor.most_qps, profile.peak_gbps)
        why = (
            f"{service.name}: {latency_text(service)}; it needs more bandwidth ({profiled}): "
            "jobs get the smallest throttle until its request queue ends"
        )
        return _Need(profile.peak_gbps, why) if best_ms <= service.target_ms else None
    if (holding.large and not over) or qps > BEYOND * predictor.most_qps:
        return None
    told = predictor.predict_lasting(min(qps * HEADROOM, predictor.most_qps), service.target_ms)
    if told.bandwidth_gbps is None:
        return None
    return _Need(
        told.bandwidth_gbps,
        f"{service.name}: {told.bandwidth_gbps:.3g} GB/s meet the target of {service.target_ms:g} ms "
        f"at {qps:.6g} requests/s under the worst contention ({profiled})",
    )


def _still_good(
    facts: Facts,
    mba: MbaRange,
    peak: float,
    held: Mapping[str, int],
    wanted: Mapping[str, int],
    profiled: Mapping[str, _Need],
) -> bool:
    """Whether throttles give profiled services what they need, and jobs not much less than they could have."""
    if set(held) != set(wanted):
        return False
    enough = all(held[name] >= legal_up(need.gbps, mba, peak) for name, need in profiled.items())
    return enough and all(_STALE * wanted[job] <= held[job] <= wanted[job] for job in facts.node.be)
