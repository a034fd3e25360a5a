"""What one decision of the policy `osml` starts from: everything that its rules may ask, computed once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from osml.allocation.refusals import was_refused
from osml.domain import Observation, Reason, Service
from osml.entropy import be_entropy, combine, intolerable, lc_entropy
from osml.policies.osml.answers.forecast import NO_MODEL, Answer
from osml.policies.osml.answers.models import Models
from osml.policies.osml.answers.outlook import LEAST_SHOWN, Situation, outlook
from osml.policies.osml.divide import cut_down, fits
from osml.policies.osml.layout import cells_of
from osml.policies.osml.memory.past import Past, after
from osml.policies.osml.memory.state import CELLS, POOLED, SHARED, SOME, Correction, OsmlState, Track
from osml.policies.osml.node import Cell, Node, changed, left_over
from osml.policies.osml.settings import Settings
from osml.policies.osml.track import after_interval, drains, really_missed


@dataclass(frozen=True, slots=True)
class Facts:
    """One interval as the rules see it.

    - `tracks`: what is known of each service now. `cells`: what each has to itself, within the limits of now.
    - `wants`: the cell that each needs: OAA plus correction. `set_aside`: services whose cell is known to be too small.
    - `new`: services that came.
    - `missed`: services that miss their target by more than noise. `alarmed`: those to act upon now.
    - `way`: how the node is run, for `age` intervals; `scores`: E_S of each way. `calm`: intervals with targets met;
      0 where somebody was not measured.
    - `changed`: whether a load or a target is another one, or services or jobs came or went.
    - `notes`: what has changed of limits and services, in words.
    - `expected`: log(latency over target) that Model-C' is sure of in the present cells; no entry where it can't say.
    - `told`: all that Model-C' was asked so far.
    """

    observation: Observation
    node: Node
    before: OsmlState
    settings: Settings
    models: Models
    answers: Mapping[str, Answer]
    services: dict[str, Service]
    tracks: dict[str, Track]
    cells: dict[str, Cell]
    wants: dict[str, Cell]
    set_aside: list[str]
    new: list[str]
    missed: list[str]
    alarmed: list[str]
    way: str
    age: int
    scores: dict[str, float]
    calm: int
    changed: bool
    notes: list[Reason]
    expected: dict[str, float]
    told: dict[tuple[str, Cell], float]

    @property
    def quantum(self) -> float:
        """Logical CPUs of a core unit."""
        return self.observation.platform.core_quantum

    def unpredicted(self, name: str) -> bool:
        """Whether the need of a service is no model's."""
        return self.answers[name].model == NO_MODEL

    def meets(self, name: str) -> bool:
        """Whether a service was measured and met its target: from others nothing is taken, be it noise."""
        slack = self.services[name].slack
        return slack is not None and slack >= 0

    def far(self, name: str) -> bool:
        """Whether a service is so far above its target that a queue must be growing."""
        slack = self.services[name].slack
        return slack is not None and slack < 1.0 - self.settings.far

    def tight(self, name: str) -> Cell:
        """RCliff's bound where that is less than the need: the lesser alternative (OSML, algorithm 1, line 18)."""
        return self._least(name, self.tracks[name].cliff_upper[0])

    def point(self, name: str) -> Cell:
        """The need without the bound of the prediction."""
        return self._least(name, self.tracks[name].oaa[0])

    def cliff(self, name: str) -> Cell:
        """RCliff as it is predicted, without its bound, where that is less than the need."""
        return self._least(name, self.answers[name].cliff[0])

    def _least(self, name: str, cpus: float) -> Cell:
        """The need with so many logical CPUs where that is less, and without the last ways: cores stand for them."""
        want = self.wants[name]
        cores = units(cpus, self.quantum, self.settings.round_bound) + self.tracks[name].correction.cores
        return self.node.bounded(name, min(cores, want.cores), math.ceil(self.settings.scarce_ways * want.ways))

    def situation(self, name: str) -> Situation:
        """What Model-C' is told of a service that has a cell."""
        jobs = left_over(self.node, self.cells).cores / self.node.total.cores if self.node.be else 0.0
        track = self.tracks[name]
        return Situation(
            self.services[name], track.past, track.settled, self.cells[name], self.answers[name], self.quantum, jobs
        )

    def outlook(self, asked: Mapping[str, Sequence[Cell]]) -> dict[str, list[float]]:
        """Bounds of log(latency over target) in these cells, by service that has a cell (Model-C').

        Without services of which it is too early to say, or of which an answer is no number. Empty without the model.
        One call for all services costs little more than one for one cell.
        """
        model, told = self.models.c2, self.told
        if model is None:
            return {}
        shown = {n: cells for n, cells in asked.items() if cells and self.tracks[n].past.latencies >= LEAST_SHOWN}
        new = {name: [cell for cell in cells if (name, cell) not in told] for name, cells in shown.items()}
        unknown = {name: cells for name, cells in new.items() if cells}
        if unknown:
            try:
                found = outlook(model, [(self.situation(name), cells) for name, cells in unknown.items()])
            except Exception:  # a broken model expects nothing; the plain rules take its place
                return {}
            for (name, cells), bounds in zip(unknown.items(), found, strict=True):
                told.update({(name, cell): bound for cell, bound in zip(cells, bounds, strict=True)})
        known = {name: [told[name, cell] for cell in cells] for name, cells in shown.items()}
        return {name: bounds for name, bounds in known.items() if math.isfinite(sum(bounds))}

    def larger(self, name: str) -> list[Cell]:
        """Cells with more cores than the present one that Model-C' is asked about, the nearest first."""
        cell = self.cells[name]
        last = min(cell.cores + self._reach(cell), self.node.mosts[name].cores)
        return [Cell(cores, cell.ways) for cores in range(cell.cores + 1, last + 1)]

    def smaller(self, name: str) -> list[Cell]:
        """The same with fewer cores."""
        cell = self.cells[name]
        last = max(cell.cores - self._reach(cell), self.node.leasts[name].cores)
        return [Cell(cores, cell.ways) for cores in range(cell.cores - 1, last - 1, -1)]

    def _reach(self, cell: Cell) -> int:
        units, share = self.settings.reach
        return units + int(share * cell.cores)

    def in_window(self, name: str) -> bool:
        """Whether a service gives nothing up, because its load fell a short while ago, and nobody could use it.

        A load that was there often comes back; autoscalers call this a stabilization window.
        """
        fell_s, now_s = self.tracks[name].fell_s, self.observation.time_s
        needed = self.node.be or self.set_aside
        return fell_s is not None and not needed and 0 <= now_s - fell_s < self.settings.window_s

    def has_met(self, name: str) -> bool:
        """Whether a service has met its target in the present cell for as long as the rule `less-ahead` waits."""
        track = self.tracks[name]
        return self.meets(name) and min(track.settled, track.met) >= self.settings.safe_after


def units(amount: float, quantum: float, rounding: float) -> int:
    """Whole units for so many CPUs (or ways, of quantum 1); what is no more than `rounding` above does not count."""
    return math.ceil(amount / quantum - rounding)


def jobs_entropy(observation: Observation) -> float | None:
    """E_BE of the jobs whose slowdown was measured; None where there are none."""
    slow = [service.slowdown for service in observation.services if service.kind == "be"]
    known = [slowdown for slowdown in slow if slowdown is not None]
    return be_entropy(known) if known else None


def facts_of(
    observation: Observation,
    node: Node,
    before: OsmlState,
    answers: Mapping[str, Answer],
    models: Models,
    settings: Settings,
) -> Facts:
    """The facts of an interval. `answers` has one for each LC service."""
    services = {service.name: service for service in observation.services if service.kind == "lc"}
    applied = observation.partition
    last = before.in_force if was_refused(observation) else None
    held = cells_of(applied or last or before.wanted, node)
    blind = applied is None and before.wanted is not None  # what is in force nobody knows: nothing is learned
    tracks, moved = dict[str, Track](), False
    for name, one in services.items():
        old, cell = before.tracks.get(name), held.get(name)
        if blind and old is not None:
            tracks[name] = old
            continue
        track, other = after_interval(old, answers[name], one, cell, observation.interval_s, settings)
        track = _with_past(track, old, one, cell, observation.platform.core_quantum)
        tracks[name] = (
            replace(track, fell_s=observation.time_s) if other and _has_fallen(old, track, settings) else track
        )
        moved = moved or other
    notes: list[Reason] = []
    cells = _within_limits(node, held, notes)
    new = [name for name in services if name not in cells and name not in before.tracks]
    gone = sorted(before.tracks.keys() - services.keys())
    notes += [Reason(text=f"{name} is no longer here: its resources are free") for name in gone]
    notes += [Reason(text=f"{name} is new here", service=name) for name in new if before.tracks]
    changed = moved or bool(gone or new) or _other_jobs(before, node)
    if changed:  # what measurements allowed below the need, they allowed in other company
        tracks = {name: replace(one, correction=_not_below(one.correction)) for name, one in tracks.items()}
    tracks = {name: _tried_again(one, observation.time_s) for name, one in tracks.items()}
    missed = [name for name, track in tracks.items() if really_missed(track, services[name], settings)]
    too_small = [name for name in missed if name in cells and tracks[name].settled >= settings.settle]
    tracks |= {name: replace(tracks[name], missed_with=cells[name]) for name in too_small}
    set_aside = [name for name in before.set_aside if name in cells]
    way = _way(cells, services, set_aside)
    age = before.age + 1
    scores = {} if changed else dict(before.scores)
    if not (changed or blind) and age > (settings.patience if way == SHARED else settings.settle):
        scores = _scored(scores, way, observation, services, set_aside)
    streaks = {name: 0 if services[name].slack is None else track.streak for name, track in tracks.items()}
    served = [streak for name, streak in streaks.items() if name not in set_aside]
    facts = Facts(
        observation,
        node,
        before,
        settings,
        models,
        answers,
        services,
        tracks,
        cells,
        {name: _want(node, name, track, observation, settings) for name, track in tracks.items()},
        set_aside,
        new,
        missed,
        [n for n in missed if n not in set_aside and _alarming(n, tracks[n], before, services[n], settings)],
        way,
        age,
        scores,
        max(0, min(served, default=0)),
        changed,
        notes,
        {},
        {},
    )
    facts.expected.update(expected_of(facts))
    return facts


def expected_of(facts: Facts) -> dict[str, float]:
    """Bound of log(latency over target) in the present cells, of services that Model-C' can say it of.

    What `less-ahead` asks next is asked in the same call.
    """
    if facts.way != CELLS:
        return {}
    facts.outlook({n: [cell, *(facts.smaller(n) if facts.has_met(n) else ())] for n, cell in facts.cells.items()})
    found = facts.outlook({name: [cell] for name, cell in facts.cells.items()})
    return {name: bounds[0] for name, bounds in found.items()}


def _with_past(track: Track, before: Track | None, service: Service, cell: Cell | None, quantum: float) -> Track:
    """The track with what the service has shown, which another target makes worthless, and another load does not."""
    past = Past() if before is None or before.target_ms != service.target_ms else before.past
    return replace(track, past=past if cell is None else after(past, service, cell.cores * quantum))


def _has_fallen(before: Track | None, now: Track, settings: Settings) -> bool:
    """Whether a load that is another one now was more before; what drains from a queue of the start is no load."""
    if before is None or before.rate is None or now.rate is None or before.target_ms != now.target_ms:
        return False
    return before.past.latencies >= settings.patience and now.rate < before.rate


def _not_below(correction: Correction) -> Correction:
    return replace(correction, cores=max(0, correction.cores), ways=max(0, correction.ways))


def _tried_again(track: Track, now_s: float) -> Track:
    """The track, without what misses added to the prediction where that is old and the target met."""
    old = track.correction
    if not old.times or now_s < old.until_s or not track.met or max(old.cores, old.ways) <= 0:
        return track
    return replace(track, correction=replace(old, cores=min(0, old.cores), ways=min(0, old.ways)))


def _way(cells: Mapping[str, Cell], services: Mapping[str, Service], set_aside: Sequence[str]) -> str:
    if not cells:
        return SHARED
    return SOME if set_aside else POOLED if len(cells) < len(services) else CELLS


def _want(node: Node, name: str, track: Track, observation: Observation, settings: Settings) -> Cell:
    """The OAA in whole units: at least its bound less the core that an OAA can lose, plus the correction."""
    quantum, correction = observation.platform.core_quantum, track.correction
    cores = max(
        units(track.oaa[0], quantum, settings.round_need),
        units(track.oaa_upper[0] - 1.0, quantum, settings.round_bound),
    )
    ways = units(track.oaa[1], 1.0, settings.round_bound) if node.has_ways else 0
    return node.bounded(name, cores + correction.cores, ways + correction.ways)


def _within_limits(node: Node, held: dict[str, Cell], notes: list[Reason]) -> dict[str, Cell]:
    """Cells as the limits of now allow them: the operator's may have changed, BE jobs may have come."""
    if node.obstacle is not None:
        return {}
    cells = {name: node.bounded(name, *cell) for name, cell in held.items()}
    if not fits(node, cells):
        cells = cut_down(node, cells, {name: node.leasts[name] for name in cells}) or {}
    for name, cell in cells.items():
        if cell != held[name]:
            notes.append(changed(name, held[name], cell, "the limits or the BE jobs changed"))
    return cells


def _alarming(name: str, track: Track, before: OsmlState, service: Service, settings: Settings) -> bool:
    """Whether a missed target is worth acting on: not just after a change, not getting better, not slight and new."""
    slack = service.slack
    if slack is None or track.settled < 1 or drains(before.tracks.get(name), service, settings):
        return False
    return slack < -settings.slight or track.missed > 1 or track.settled >= settings.hovers


def _other_jobs(before: OsmlState, node: Node) -> bool:
    """Whether BE jobs came or went since the last decision: E_S with jobs and E_S without are not comparable."""
    if before.wanted is None:
        return False
    owners = {owner for region in before.wanted.regions for owner in region.owners}
    return owners - before.tracks.keys() != set(node.be)


def _scored(
    scores: dict[str, float],
    way: str,
    observation: Observation,
    services: Mapping[str, Service],
    set_aside: Sequence[str],
) -> dict[str, float]:
    """The scores, with what the present way to run the node is worth: its E_S, the half of it from this interval.

    Who is set aside and completes no request misses its target completely.
    """
    slacks = {name: one.slack for name, one in services.items()}
    ratios = [1.0 - slack for slack in slacks.values() if slack is not None]
    ratios += [math.inf for name in set_aside if slacks[name] is None]
    missed = [intolerable(ratio, 1.0) for ratio in ratios]
    e_s = combine(lc_entropy(missed), jobs_entropy(observation)) if missed else None
    return scores if e_s is None else {**scores, way: 0.5 * (scores.get(way, e_s) + e_s)}
