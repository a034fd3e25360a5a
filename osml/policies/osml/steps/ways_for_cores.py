"""Cache for CPU time: a service with more ways needs fewer cycles, and the jobs behind it get those.

Beyond the paper. An OAA has as few ways as meet the target. Where jobs run in the background of the services' CPUs,
such a cell can cost them more CPU time than its ways are worth to them; which it is, only their speed tells. So once
all is calm one service at a time gets twice its ways on trial, and keeps them where the jobs do more.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from osml.domain import Partition
from osml.policies.osml.node import Cell
from osml.policies.osml.remembered.misses import CLOSE_TO_JOBS
from osml.policies.osml.remembered.state import PARTED, Trial, WaysForCores
from osml.policies.osml.working_plan import WorkingPlan

WARM = 3
"""Intervals after a change in which the cache still fills: they are not judged."""

LOOK = 8
"""Intervals whose mean is judged: a quarter of a percent, where one is known to half a percent."""

WORTH = 1.005
"""Speed of the jobs on trial over that before, from which on a service keeps the ways."""


def ways_for_cores(turn: WorkingPlan) -> Partition:
    """What is held, or with a trial begun or ended."""
    if not turn.node.background or turn.node.ways is None or turn.kind != PARTED or turn.on_leftovers:
        turn.ways_for_cores = WaysForCores()
        return turn.hold()
    speeds = _speeds(turn)
    if not speeds:
        return turn.hold()
    turn.ways_for_cores = seen = _seen(turn, speeds)
    if seen.age < WARM + LOOK:
        return turn.hold()
    trial = seen.trial
    if trial is None:
        return _begun(turn, seen)
    cores, ways = turn.cells[trial.service]
    gains = [seen.sums[job] / before for job, before in trial.sums.items() if before > 0.0]  # who slept tells nothing
    gain = sum(gains) / len(gains) if gains else 1.0
    told = f"with {ways - trial.ways:+d} ways the jobs do {100.0 * gain:.1f} % of their work before"
    if gain >= WORTH:
        turn.say(f"{trial.service} keeps {ways} ways: {told}", trial.service)
        return _begun(turn, seen)
    back = turn.node.bounded(trial.service, cores, min(trial.ways, ways)).ways  # limits may have changed on trial
    turn.say(f"{trial.service} has {back} ways again: {told}", trial.service)
    after = replace(seen, tried=[*seen.tried, trial.service], trial=None)
    return _given(turn, after, trial.service, back)


def _speeds(turn: WorkingPlan) -> dict[str, float]:
    """Work, else instructions, of every job a second; empty where one's was not measured.

    A job that has a rate of work is judged by nothing else, in no interval.
    """
    found: dict[str, float] = {}
    interval_s = turn.node.observation.interval_s
    for service in turn.node.observation.services:
        if service.kind == "be":
            speed, instructions = service.counters.work_rate, service.counters.instructions
            if speed is None and service.work_rate_solo is None and instructions is not None:
                speed = instructions / interval_s
            if speed is None:
                return {}
            found[service.name] = speed
    return found


def _seen(turn: WorkingPlan, speeds: Mapping[str, float]) -> WaysForCores:
    """What is known after one more interval: nothing where jobs are others, less where cells are."""
    before = turn.ways_for_cores
    cells = {name: (cell.cores, cell.ways) for name, cell in turn.cells.items()}
    zero = dict.fromkeys(speeds, 0.0)
    if speeds.keys() != before.sums.keys():
        return WaysForCores(cells=cells, sums=zero)
    if cells != before.cells:
        old = before.trial
        kept = before.kept if old is None else {**before.kept, old.service: old.ways}  # what was on trial is not proven
        kept = {name: ways for name, ways in kept.items() if name in cells and ways <= cells[name][1]}
        return WaysForCores(cells=cells, sums=zero, kept=kept, tried=before.tried)
    counts = before.age >= WARM
    sums = {job: total + speeds[job] for job, total in before.sums.items()} if counts else before.sums
    return replace(before, age=before.age + 1, sums=sums)


def _begun(turn: WorkingPlan, seen: WaysForCores) -> Partition:
    """The next trial, by who misses the cache most; none where all were tried, or somebody is close to its target."""
    room = turn.node.for_lc.ways - sum(cell.ways for cell in turn.cells.values())
    close = any((known.level or 0.0) > CLOSE_TO_JOBS for known in turn.known.values())
    for name in sorted(turn.cells, key=lambda one: -(turn.services[one].counters.llc_misses or 0.0)):
        old = turn.cells[name].ways
        ways = min(2 * old, old + room, turn.node.most(name).ways)
        if ways > old and name not in seen.tried and not close:
            turn.say(f"{name} gets {ways - old} more ways on trial: the work of the jobs on its CPUs is compared", name)
            return _given(turn, replace(seen, trial=Trial(name, old, seen.sums)), name, ways)
    turn.ways_for_cores = replace(seen, trial=None, age=WARM, sums=dict.fromkeys(seen.sums, 0.0))
    return turn.hold()


def _given(turn: WorkingPlan, seen: WaysForCores, name: str, ways: int) -> Partition:
    """The cells with so many ways for one service, and the measuring begun anew."""
    cells = {**turn.cells, name: Cell(turn.cells[name].cores, ways)}
    turn.ways_for_cores = replace(
        seen,
        cells={one: (cell.cores, cell.ways) for one, cell in cells.items()},
        kept={**seen.kept, name: ways},
        age=0,
        sums=dict.fromkeys(seen.sums, 0.0),
    )
    return turn.write(cells)
