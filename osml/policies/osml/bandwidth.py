"""Memory bandwidth by predicted need (OSML section 5.1: BW_j / sum of BW_i), where the platform throttles it (MBA).

What a service needs Model-A says: the mean traffic of its OAA. Where the service was profiled under memory contention
(OMBM, docs/reference/ombm.md) the profile says it instead: the reservation that meets the target at the present rate
whatever runs beside. It holds where the service has at least the cores and ways that it was profiled with, and not so
many more that they stand in for bandwidth. Who misses its target with them lacks bandwidth, by its profile: it gets all
until the backlog, which hides the rate, is gone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from osml.allocation.policy import latency_text
from osml.allocation.throttle_units import legal_down, legal_up, peak_gbps
from osml.bandwidth import Predictor, ProfileLibrary
from osml.bandwidth.correction import ALARM_SHARE
from osml.bandwidth.library import usual_library
from osml.base.failure import InputError
from osml.domain import Partition, Service
from osml.layout.arrange import legal_throttle
from osml.policies.ombm import BEYOND, HEADROOM
from osml.policies.osml.facts import Facts

_ROOM = 1.2  # bandwidth of the OAA is a mean: seconds need more
_LARGER = 1.5  # times the cores or ways that were profiled: what the profile asks is far too much beyond
_STALE = 0.8  # of what jobs could have: then throttles follow the rate, though no cell changed
_OVER = 8  # intervals in a row with all targets met after which jobs get more than the least again

Say = Callable[[str, str | None], None]
"""Takes a reason and the service that it is about (None: the node)."""


class _AfterMiss(NamedTuple):
    """Jobs have the least, for a miss: its backlog drains as long as a tail is near its target; it may be `over`."""

    draining: bool
    over: bool


class _Profiled(NamedTuple):
    """GB/s that a profile says a service needs, and why."""

    gbps: float
    why: str


def with_bandwidth(
    facts: Facts,
    partition: Partition,
    gbps: Mapping[str, float | None],
    profiles: ProfileLibrary | None = None,
    say: Say | None = None,
    met: int = 0,
) -> Partition:
    """The partition with a throttle for everybody, where the platform has them and all needs are known.

    Services get the platform's bandwidth in proportion to their needs in GB/s, profiled ones no less than that; BE
    jobs what these needs leave of the machine's bandwidth, in equal parts. As long as the cells and the loads are
    the same, the throttles stay, because predictions differ a little in every interval; those from a profile follow
    the rate. In cells too large for profiles jobs that have the least, for a miss, get more once all targets were
    `met` for some intervals: what the profile leaves, because what Model-A leaves was too much. `profiles` None:
    the usual ones.
    """
    platform, before = facts.observation.platform, facts.observation.partition
    if platform.mba is None:
        return partition
    peak = peak_gbps(platform)
    same = before is not None and before.regions == partition.regions and not facts.changed
    held = before.mba or None if before is not None and same else None
    missed = held is not None and _jobs_have_least(held, facts)
    after = _AfterMiss(draining=missed, over=missed and met >= _OVER)
    found = {} if peak is None else _profiled(facts, partition, profiles, say, after)
    if held is not None and not found and not (after.over and _all_large(facts, partition, profiles)):
        return replace(partition, mba=held)
    modelled = {
        name: need
        for s in facts.services.values()
        if (need := gbps.get(name := s.name)) is not None and name not in found
    }
    if len(modelled) + len(found) < len(facts.services) or not facts.services:
        return partition if held is None else replace(partition, mba=held)
    needs = modelled | {name: one.gbps for name, one in found.items()}
    total, most = sum(needs.values()), platform.mba.max
    mba = {name: legal_throttle(max(1, round(most * need / total)), platform.mba) for name, need in needs.items()}
    if peak is not None:
        mba |= {name: max(mba[name], legal_up(one.gbps, platform.mba, peak)) for name, one in found.items()}
        asked = _ROOM * sum(modelled.values()) + sum(one.gbps for one in found.values())
        left = legal_down(max(peak - asked, 0.0) / max(len(facts.node.be), 1), platform.mba, peak)
        mba |= dict.fromkeys(facts.node.be, max(left, legal_throttle(1, platform.mba)))  # 0 is no throttle
        if held is not None and _still_good(held, mba, found, facts):
            return replace(partition, mba=held)
    if say is not None:
        for name, one in found.items():
            say(one.why, name)
    return replace(partition, mba=mba)


def _jobs_have_least(held: Mapping[str, int], facts: Facts) -> bool:
    """Whether there are jobs, and none of them has more than the smallest throttle: a miss that is over may be why."""
    mba = facts.observation.platform.mba
    return (
        bool(facts.node.be)
        and mba is not None
        and all(held.get(job) == legal_throttle(1, mba) for job in facts.node.be)
    )


def _all_large(facts: Facts, partition: Partition, profiles: ProfileLibrary | None) -> bool:
    """Whether profiles are known here, and all cells are too large for them: a miss alone makes them speak."""
    try:
        library = usual_library() if profiles is None else profiles
    except InputError:  # said where the profiles were asked
        return False
    holding = [one for s in facts.services.values() if (one := _holding(s, partition, facts, library)) is not None]
    return bool(holding) and all(large for _, large in holding)


def _profiled(
    facts: Facts, partition: Partition, profiles: ProfileLibrary | None, say: Say | None, after: _AfterMiss
) -> dict[str, _Profiled]:
    """What profiles say of the services whose profile holds here and now."""
    try:
        library = usual_library() if profiles is None else profiles
    except InputError as error:  # the operator's folder is missing or damaged
        if say is not None:
            say(f"bandwidth profiles can't be used: {error}", None)
        return {}
    found: dict[str, _Profiled] = {}
    for service in facts.services.values():
        one = _need(service, partition, facts, library, after)
        if one is not None:
            found[service.name] = one
    return found


def _holding(
    service: Service, partition: Partition, facts: Facts, library: ProfileLibrary
) -> tuple[Predictor, bool] | None:
    """The profile that holds for a service in its cell, and whether the cell is so large that it asks far too much."""
    predictor = library.predictor(service.name, facts.observation.platform.id, "adaptive")
    if predictor is None:
        return None
    profile = predictor.profile
    cores, ways = partition.cores_of(service.name), partition.ways_of(service.name)
    divided = facts.node.has_ways and profile.ways > 0
    if profile.percentile != service.percentile or cores < profile.cores or (divided and ways < profile.ways):
        return None
    large = cores > math.ceil(_LARGER * profile.cores) or (divided and ways > math.ceil(_LARGER * profile.ways))
    return predictor, large


def _need(
    service: Service, partition: Partition, facts: Facts, library: ProfileLibrary, after: _AfterMiss
) -> _Profiled | None:
    """The GB/s that meet a service's target at its present rate; None where its profile does not say."""
    holding = _holding(service, partition, facts, library)
    qps = None if service.latency is None else service.latency.requests_per_s
    if holding is None or not qps or service.target_ms is None:
        return None
    predictor, large = holding
    profile = predictor.profile
    profiled = f"profiled with {profile.cores} cores and {profile.ways} ways"
    slack = service.slack or 0.0
    if slack < 0 or (after.draining and slack < ALARM_SHARE):
        best_ms = predictor.tail_ms(predictor.most_qps, profile.peak_gbps)
        why = (
            f"{service.name}: {latency_text(service)}; it needs more bandwidth ({profiled}): "
            "jobs get the smallest throttle until its request queue ends"
        )
        return _Profiled(profile.peak_gbps, why) if best_ms <= service.target_ms else None
    if (large and not after.over) or qps > BEYOND * predictor.most_qps:
        return None
    told = predictor.predict_lasting(min(qps * HEADROOM, predictor.most_qps), service.target_ms)
    if told.bandwidth_gbps is None:
        return None
    return _Profiled(
        told.bandwidth_gbps,
        f"{service.name}: {told.bandwidth_gbps:.3g} GB/s meet the target of {service.target_ms:g} ms "
        f"at {qps:.6g} requests/s under the worst contention ({profiled})",
    )


def _still_good(
    held: Mapping[str, int], wanted: Mapping[str, int], found: Mapping[str, _Profiled], facts: Facts
) -> bool:
    """Whether throttles give profiled services what they need, and jobs not much less than they could have."""
    if set(held) != set(wanted):
        return False
    peak, mba = peak_gbps(facts.observation.platform), facts.observation.platform.mba
    if peak is None or mba is None:
        return True
    enough = all(held[name] >= legal_up(one.gbps, mba, peak) for name, one in found.items())
    return enough and all(_STALE * wanted[job] <= held[job] <= wanted[job] for job in facts.node.be)
