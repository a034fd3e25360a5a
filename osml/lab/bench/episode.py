"""One run of one policy on one scenario, and its row of the results."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from osml.allocation.policy import Policy
from osml.domain import Decision
from osml.lab.bench.bounds import bounds_held
from osml.lab.bench.contenders import OWN_LEVERS, REGULATED
from osml.lab.bench.judge import Judge, Judged, converged_at, falls, longest_met
from osml.lab.bench.oracle_policy import ORACLES, Answers, BestFor, Oracle
from osml.lab.bench.scenario import Scenario
from osml.policies.osml.policy import BY_FORMULA
from osml.simulator.board import whole_platform
from osml.simulator.closed_loop import ClosedLoop, Interval
from osml.simulator.state import Node
from osml.simulator.surface import solo_speed

Row = dict[str, Any]
MAX_FAULT_CHARS = 300
HELD_S = 10.0
"""A load is held where an allocation was found with which all targets are met for so long (PARTIES section 5.1 and OSML
section 6.1 ask whether one was found; the time is ours). What is probed later, and taken back, does not count."""

LEAVING = 0.01
"""Load, for the oracles, of a service that is still seen but has left: without any it has no latency to judge."""


@dataclass(frozen=True)
class Episode:
    """A row of the results, and a row an interval and service where the suite draws them."""

    row: Row
    timeline: list[Row]


def run_episode(scenario: Scenario, policy: str, seed: int, answers: Answers) -> Episode:
    """Run a scenario under a policy; where a load is searched, the run with the highest load that holds.

    `answers` are those of the oracles to this scenario so far. The seed fixes all noise.
    """
    began = time.perf_counter()
    if scenario.search is None:
        held, episode = _once(scenario, policy, seed, answers)
    else:
        held, episode = _highest(scenario, policy, seed, answers)
    # What is held: the load of a run that did not change; nothing where the targets were not met at its end.
    emu = (episode.row["load"] if held else 0.0) if scenario.constant else None
    row = episode.row | {"emu": emu, "wall_s": time.perf_counter() - began}
    return Episode(row, episode.timeline)


def _highest(scenario: Scenario, policy: str, seed: int, answers: Answers) -> tuple[bool, Episode]:
    """Bisection over the steps of the load that is searched: what holds at a load is taken to hold below it."""
    search = scenario.search
    assert search is not None  # noqa: S101 - the caller asked for it
    low, high = -1, len(search.steps)
    best: Episode | None = None
    tried: Episode | None = None
    while high - low > 1:
        middle = (low + high) // 2
        held, tried = _once(scenario.at(search.steps[middle]), policy, seed, answers)
        if held:
            low, best = middle, tried
        else:
            high = middle
    found = best or tried
    assert found is not None  # noqa: S101 - there is at least one step
    load = search.steps[low] if best else 0.0
    return best is not None, Episode(found.row | {"mix": scenario.name, "searched_load": load}, found.timeline)


def _once(scenario: Scenario, policy: str, seed: int, answers: Answers) -> tuple[bool, Episode]:
    """One run; whether the load held, and its row."""
    node = scenario.node
    # What an oracle knows: the work at its most where it drifts, and no job that is hidden from policies.
    heaviest = node if scenario.variant is None else scenario.variant.heaviest(scenario.limit_s)
    known_node = Node(node.platform, heaviest.services, tuple(scenario.jobs))
    given: str | Policy = policy
    loop: ClosedLoop

    def known(names: frozenset[str]) -> BestFor:
        loads = dict.fromkeys(names, LEAVING) | {n: x for n, x in loop.loads_now().items() if n in names}
        return answers.best(policy, known_node, loads)

    if policy in ORACLES:
        given = Oracle(policy, known)
    loop = ClosedLoop(
        node,
        scenario.loads,
        given,
        interval_s=scenario.interval_s,
        seed=seed,
        delay_s=scenario.delay_s,
        levers=scenario.levers | OWN_LEVERS.get(policy, frozenset()),
        regulator=scenario.regulator or policy in REGULATED,
        tolerant=True,
        sockets=scenario.sockets,
        by_domain=scenario.by_domain,
        **scenario.varied,
    )
    whole = Node(whole_platform(node.platform, scenario.sockets), node.services, node.jobs)
    solo = [solo_speed(node.platform, job) for job in scenario.jobs]
    judge = Judge(whole, solo, loop.platform.mba, scenario.domains)
    intervals: list[Interval] = []
    judged: list[Judged] = []
    hold, tail = scenario.intervals(scenario.hold_s), scenario.intervals(scenario.tail_s)
    for _ in range(scenario.intervals(scenario.limit_s)):
        loads = loop.loads_now()
        intervals.append(loop.step())
        judged.append(judge(intervals[-1], loads))
        if not scenario.whole and len(judged) >= hold + tail:
            at = _converged_at(scenario, judged)
            if at is not None and len(judged) - at >= hold + tail:
                break
    row = _row(scenario, judged)
    settled = judged[scenario.intervals(scenario.settle_s) :]
    held = longest_met(settled) >= scenario.intervals(min(HELD_S, scenario.tail_s))
    last = intervals[-1].decision
    row |= _bounds(scenario, last, loop.time_s)
    row |= {"policy": policy, "seed": seed, "infeasible_reported": bool(last and last.infeasible)}
    row["unmodelled"] = _unmodelled(last)
    return held, Episode(row, _timeline(scenario, judged) if scenario.timeline else [])


def _bounds(scenario: Scenario, last: Decision | None, time_s: float) -> Row:
    """How many forecasts of the last decision hold; empty where nobody asks."""
    if last is None or not scenario.bounds:
        return {}
    variant, node = scenario.variant, scenario.node
    if variant is not None and variant.drift is not None:
        node = variant.drift.node(node, time_s)
    hidden = frozenset[str]() if variant is None else variant.hidden
    held = bounds_held(node, scenario.mix.loads, last, hidden)
    return {f"bound_{name}": count for name, count in held._asdict().items()}


def _unmodelled(last: Decision | None) -> str | None:
    """Why the policy `osml` decided without its models; None where it had them, and of other policies."""
    reasons = () if last is None else last.reasons
    return next((one.text for one in reasons if one.text.startswith(BY_FORMULA)), None)


def _converged_at(scenario: Scenario, judged: Sequence[Judged]) -> int | None:
    """As `converged_at`, from when all services are there."""
    first = math.ceil(scenario.complete_s / scenario.interval_s - 1e-9)
    at = converged_at(judged[first:], scenario.intervals(scenario.hold_s))
    return None if at is None else first + at


def _row(scenario: Scenario, judged: Sequence[Judged]) -> Row:
    node = scenario.node
    hold = scenario.intervals(scenario.hold_s)
    at = _converged_at(scenario, judged)
    tail = scenario.intervals(scenario.tail_s)
    measured = judged[scenario.intervals(scenario.settle_s) :] if scenario.whole else judged[-tail:]
    before = judged if at is None else judged[: at + 1]
    # The intervals by which convergence is told have no miss: they say nothing of what comes after.
    after: Sequence[Judged] = [] if at is None else judged[at + hold :]
    downward, fallen = falls(node, judged)
    faults = [one.fault for one in judged if one.fault is not None]
    return {
        "suite": scenario.suite,
        "part": scenario.part,
        "mix": scenario.name,
        "platform": scenario.platform,
        "load": sum(load for load in judged[-1].loads if not math.isnan(load)),
        "searched_load": None,
        "converged": at is not None,
        "convergence_s": None if at is None else judged[at].time_s - judged[0].time_s,
        "actions": sum(one.changed for one in before),
        "actions_total": sum(one.changed for one in judged),
        "cores_used": statistics.fmean(one.used[0] for one in measured),
        "ways_used": statistics.fmean(one.used[1] for one in measured),
        "intervals": len(judged),
        "targets": sum(one.targets for one in judged),
        "targets_missed": sum(one.missed for one in judged),
        "target_missed_share": _missed(judged),
        "target_missed_after": _missed(after),
        "violations": sum(not one.met for one in judged),
        "missed_share": statistics.fmean(not one.met for one in judged),
        "intervals_after": len(after),
        "violations_after": sum(not one.met for one in after),
        "downward": downward,
        "cliff_falls": fallen,
        "e_lc": _mean([one.e_lc for one in measured]),
        "e_be": _mean([one.e_be for one in measured]),
        "e_s": _mean([one.e_s for one in measured]),
        "e_be_ipc": _mean([one.e_be_ipc for one in measured]),
        "e_s_ipc": _mean([one.e_s_ipc for one in measured]),
        "e_s_run": _mean([one.e_s for one in judged]),
        "tail_over_target": _mean(
            [tail_ms / s.target_ms for one in measured for tail_ms, s in zip(one.tails_ms, node.services, strict=True)]
        ),
        "be_speed": _mean([1.0 / slow for one in measured for slow in one.slowdowns]),
        "utilisation": _mean([one.busy for one in measured]),
        "tenants": json.dumps(_tenants(scenario, measured)),
        "faults": len(faults),
        "fault": faults[0][:MAX_FAULT_CHARS] if faults else None,
    }


def _tenants(scenario: Scenario, measured: Sequence[Judged]) -> dict[str, dict[str, float]]:
    """Median tail of each LC service; speed over solo and IPC of each BE job."""
    node = scenario.node
    found: dict[str, dict[str, float]] = {}
    for i, service in enumerate(node.services):
        tails = [one.tails_ms[i] for one in measured if not math.isnan(one.tails_ms[i])]
        if tails:
            found[service.name] = {"tail_ms": statistics.median(tails)}
    for i, job in enumerate(scenario.jobs):
        speeds, ipcs = ([1.0 / one.slowdowns[i] for one in measured], [one.ipcs[i] for one in measured])
        found[job.name] = {"speed": statistics.fmean(speeds), "ipc": statistics.fmean(ipcs)}
    return found


def _missed(judged: Sequence[Judged]) -> float | None:
    """Missed targets of all targets, one an interval and service; None where there are none."""
    targets = sum(one.targets for one in judged)
    return sum(one.missed for one in judged) / targets if targets else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and not math.isnan(value)]
    return statistics.fmean(known) if known else None


def _timeline(scenario: Scenario, judged: Sequence[Judged]) -> list[Row]:
    """One row an interval and LC service."""
    return [
        {
            "time_s": one.time_s,
            "service": service.name,
            "load": one.loads[i],
            "tail_ms": one.tails_ms[i],
            "target_ms": service.target_ms,
            "cores": one.cores[i],
            "ways": one.ways[i],
            "reserved_gbps": one.reserved_gbps[i],
            "busy": one.busy,
            "changed": one.changed,
            "met": one.met,
            "e_lc": one.e_lc,
            "e_be": one.e_be,
            "e_s": one.e_s,
            "be_speed": _mean([1.0 / slow for slow in one.slowdowns]),
        }
        for one in judged
        for i, service in enumerate(scenario.node.services)
        if not math.isnan(one.loads[i])
    ]
