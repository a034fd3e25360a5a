"""Advice for an operator whose agent only watches: who suffers, from whom and what, and what each lever would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from msgspec import to_builtins

from osml.base.brief_number import brief
from osml.twin.advice.blame import MISSES, OWN_LIMIT, OWN_LOAD, PART, Blame, blamed, worst_scene
from osml.twin.advice.levers import MECHANISM, OF_MEMORY, PARTITIONING, Lever, best, levers_for
from osml.twin.advice.untold import Untold, aside, misses, untold_of
from osml.twin.document import Twin, noise_at
from osml.twin.machine import caches_of
from osml.twin.scenes import Scene
from osml.twin.stolen import ABOVE, Stolen
from osml.twin.targets import Target

WORTH = 0.05
"""Share of the latency that a lever has to take off to be worth a word."""

ENOUGH = 300
"""Measured intervals from which on an answer is sure: a few that miss a target may be chance."""

THROUGH = {"cpu": "the CPUs", "cache": "the cache", "memory bandwidth": "the memory bandwidth"}


@dataclass(frozen=True)
class Advice:
    """One service: blame and levers in the scene in which it fares worst.

    `missed_share` is of all measured intervals of the record (None without a target), `record` has their counts.
    Without those, as in a twin of an older version, it is that of the scenes. `caches` is how many the machine has.
    """

    blame: Blame
    levers: tuple[Lever, ...]
    target_ms: float | None
    percentile: str
    missed_share: float | None
    scene_missed_share: float
    record: Target | None = None
    caches: int = 1


def advised(twin: Twin, *, seed: int = 0) -> tuple[Advice, ...]:
    """Advice for every service that has a latency, the one that misses its target most first."""
    ensemble = twin.ensemble
    found: list[Advice] = []
    for tenant in ensemble.tenants:
        scene = worst_scene(twin.scenes, ensemble, tenant.name) if tenant.kind == "lc" else None
        if scene is None:
            continue
        noise = noise_at(twin, tenant.name, tenant.percentile).quantiles
        counts = (twin.targets or {}).get(tenant.name)
        share = _missed(twin.scenes, tenant.name) if twin.targets is None else counts and counts.share
        found.append(
            Advice(
                blamed(ensemble, scene, tenant.name, noise, seed=seed),
                tuple(levers_for(ensemble, scene, tenant.name)), tenant.target_ms, tenant.percentile,
                share, scene.missed.get(tenant.name, 0.0), counts, caches_of(twin.platform),
            )
        )  # fmt: skip
    return tuple(sorted(found, key=lambda one: (-(one.missed_share or 0.0), -one.blame.suffers_ms)))


def _missed(scenes: Sequence[Scene], name: str) -> float | None:
    known = [(len(scene.intervals), scene.missed[name]) for scene in scenes if name in scene.missed]
    total = sum(count for count, _ in known)
    return sum(count * share for count, share in known) / total if total else None


def answer(
    found: Sequence[Advice], untold: Sequence[Untold] = (), *, counted: bool = True
) -> tuple[bool | None, list[str]]:
    """Whether this machine needs partitioning (None: it can't be told), and why, one sentence each.

    `counted`: whether the shares are of all lines of the record. If not, nobody is said to meet its target.
    """
    if not found and not untold:
        return None, ["It can't be told: no service has a latency."]
    if not untold and all(one.missed_share is None for one in found):
        return None, ["It can't be told: no service has a target."]
    said: list[str] = []
    helps = [_say(one, said) for one in found if _misses(one)]
    for other in untold:
        said += other.words
        helps += [None] if other.words else []
    if not counted:
        said.append(
            "An older version fitted this twin, so all shares are of the intervals that it was fitted to; "
            "fit the twin again to count all."
        )
        helps += [None] if not helps else []
    elif not any(_misses(one) for one in found):
        other = "No other service" if helps else "No service"
        said += [f"{other} misses its target in more than 1 % of the intervals.", *_closest(found)]
    if any(helps):
        return True, said
    return (None if None in helps else False), said


def _misses(one: Advice) -> bool:
    return one.missed_share is not None and one.missed_share >= MISSES


def _closest(found: Sequence[Advice]) -> list[str]:
    return [
        f"{one.blame.service} is near its target: {brief(one.blame.measured_ms)} of {brief(target)} ms."
        for one in found
        if (target := one.target_ms) and one.blame.measured_ms > 0.8 * target
    ]


def cause_in_words(blame: Blame) -> str:
    """What a service suffers from, in a sentence or two."""
    name, first, neighbour = blame.service, blame.main, blame.neighbour
    if blame.stopped:
        return (
            "Its own CPU limit stopped it for a part of the time, and the twin does not see what that costs; "
            "so no neighbour is named."
        )
    if not blame.explained:
        return (
            f"The twin does not explain {name}: it predicts {brief(blame.predicted_ms)} ms, measured were "
            f"{brief(blame.measured_ms)} ms. Its own CPU limit, or what the record does not show, may be the cause."
        )
    if neighbour is not None:
        culprit, ms = neighbour
        return f"{culprit} costs it {brief(ms)} ms; through CPUs, cache or memory bandwidth, that can't be told."
    if first is None:
        return f"What {name} suffers from can't be told from this record."
    if first.resource == OWN_LIMIT:
        return f"Its own CPU limit costs it {brief(first.ms)} ms; no neighbour is to blame for that."
    if first.resource == OWN_LOAD and blame.confined:
        return f"It misses its target alone, too, in the CPUs and ways that it has: that costs it {brief(first.ms)} ms."
    if first.resource == OWN_LOAD:
        return f"It misses its target alone, too: its own load costs it {brief(first.ms)} ms."
    return f"{first.culprit} costs it {brief(first.ms)} ms through {THROUGH[first.resource]}."


def _say(one: Advice, said: list[str]) -> bool | None:
    """Say what is with a service; whether partitioning helps it, None where nobody knows."""
    blame, name = one.blame, one.blame.service
    said.append(misses(name, one.missed_share or 0.0, one.record))
    if one.scene_missed_share < MISSES:
        words, helps = aside(name, one.record)
        said += words
        return helps
    said.append(cause_in_words(blame))
    if not blame.explained:
        return None
    wanted, firm = WORTH * blame.measured_ms, _firm(one)
    sure = best(firm, PARTITIONING)
    if sure is not None and sure.gain >= wanted:
        few = one.record is not None and one.record.measured < ENOUGH
        helps = "may help" if few else "helps"
        said.append(f"Partitioning {helps}: {sure.lever}, {_gain(sure)}. {_afterwards(one, sure)}")
        if few and one.record is not None:
            measured = f"{name} was measured in {one.record.measured:,} intervals"
            said.append(f"That can't be told for sure: {measured}, expected at least {ENOUGH:,}.")
        return None if few else True
    here = [lever for lever in one.levers if lever.available and lever.gain >= wanted]
    hopes, lacking = [lever for lever in here if lever.lever in PARTITIONING], _lacking(one)
    if hopes:
        said.append(f"Partitioning may help {name}, but that is not sure: {hopes[0].lever}, {_gain(hopes[0])}.")
    elif lacking is not None:
        helps = "would help" if lacking in firm and lacking.low > 0 else "may help"
        without = f"this machine has no {MECHANISM[lacking.lever]}"
        said.append(f"Partitioning {helps} {name}, but {without}: {lacking.lever}, {_gain(lacking)}.")
    else:
        said.append(f"Partitioning would hardly help {name}.")
    other = next((other for other in here if other in firm and other.low > 0), None)
    if other is not None:
        said.append(f"Sure to help it: {other.lever}, {_gain(other)}.")
    return None if hopes else False


def _afterwards(one: Advice, lever: Lever) -> str:
    """What becomes of the target. Where it is met as it is, the lever is not the reason."""
    if one.target_ms is None or lever.after_ms > one.target_ms:
        return "The target is then still missed."
    if one.blame.measured_ms > one.target_ms:
        return "The target is then met."
    seldom = f": {one.record.missed:,} of {one.record.measured:,} missed it" if one.record else ""
    return f"The target is met in most intervals without it, too{seldom}."


def _firm(one: Advice) -> list[Lever]:
    """The levers whose gain is no guess.

    What those of cache and memory give is one where nobody measured the need of them, or with several caches.
    """
    blame = one.blame
    guessed = any(cause.confidence is None and cause.ms >= PART * blame.suffers_ms for cause in blame.causes)
    blind = guessed or one.caches > 1
    return [lever for lever in one.levers if not blind or lever.lever not in OF_MEMORY]


def _lacking(one: Advice) -> Lever | None:
    """The lever that divides the machine and would help, sure ones first, where the machine does not have it."""
    firm, wanted = _firm(one), WORTH * one.blame.measured_ms
    absent = [lever for lever in one.levers if lever.lever in MECHANISM and not lever.available]
    worth = [lever for lever in absent if lever.gain >= wanted]
    return max(worth, key=lambda lever: (lever in firm and lever.low > 0, lever.gain), default=None)


def _gain(lever: Lever) -> str:
    return f"{brief(lever.gain)} ms less (90 % bounds {brief(lever.low)} to {brief(lever.high)})"


def verdict(needed: bool | None, found: Sequence[Advice]) -> str:
    """The answer in one sentence."""
    if needed is None:
        return "It can't be told for sure from this record."
    if needed:
        return "Yes, partitioning helps this machine."
    if not any(_misses(one) for one in found):
        return "No, partitioning is not needed: all targets are met."
    if any(_misses(one) and one.scene_missed_share >= MISSES and _lacking(one) is not None for one in found):
        return "No, this machine does not have the partitioning that could help."
    return "No, partitioning would hardly help: something else is the cause."


def document(twin: Twin, found: Sequence[Advice]) -> dict[str, Any]:
    """The document of `osml look advise --json`."""
    untold = untold_of(twin, {one.blame.service for one in found})
    needed, said = answer(found, untold, counted=twin.targets is not None)
    return {
        "node": twin.node, "platform": twin.platform.id, "watched": twin.watched, "intervals": twin.intervals,
        "predicted_by": "a twin of the node (simulated), fitted to the record",
        "needs_partitioning": needed, "verdict": verdict(needed, found),
        "answer": [*said, *_of_hypervisor(twin.stolen)],
        "hypervisor": None if twin.stolen is None else to_builtins(twin.stolen),
        "services": [_row(one) for one in found],
        "untold": [{"name": one.name, "missed_share": one.record and one.record.share} for one in untold],
        "unknown": list(twin.unknown),
    }  # fmt: skip


def _of_hypervisor(stolen: Stolen | None) -> list[str]:
    """What it took, where that is worth a word."""
    if stolen is None or (stolen.robbed < MISSES and stolen.usual < ABOVE):
        return []
    said: list[str] = []
    if stolen.usual >= ABOVE:
        said.append(f"The hypervisor usually gives {stolen.usual:.0%} of the CPU time to others.")
    if stolen.robbed >= MISSES:
        said.append(
            f"In {stolen.robbed:.0%} of the intervals the hypervisor took {stolen.mean_robbed:.0%} of the CPU time; "
            "no lever on this machine helps against that."
        )
        said += [f"Such an interval costs {name} {brief(ms)} ms." for name, ms in sorted(stolen.ms.items()) if ms > 0]
    return said


def _row(one: Advice) -> dict[str, Any]:
    blame = one.blame
    causes: list[Mapping[str, Any]] = [asdict(cause) for cause in blame.causes if abs(cause.ms) >= 1e-6]
    return {
        "name": blame.service, "target_ms": one.target_ms, "percentile": one.percentile,
        "missed_share": one.missed_share, "measured_ms": blame.measured_ms,
        "predicted": {
            "ms": blame.predicted_ms, "low": blame.predicted_low_ms, "high": blame.predicted_high_ms,
            "explained": blame.explained,
        },
        "alone_ms": blame.alone_ms, "suffers_ms": blame.suffers_ms, "e_s": blame.e_s, "from": causes,
        "levers": [asdict(lever) for lever in one.levers],
    }  # fmt: skip
