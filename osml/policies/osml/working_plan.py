"""One decision of the policy `osml` in the making: what is known, what is wanted, and what is said of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from osml.allocation.policy import latency_text
from osml.domain import Forecast, Infeasible, Partition, Reason, Service
from osml.entropy import be_entropy, combine, intolerable, lc_entropy
from osml.policies.osml.answers.correct import Action
from osml.policies.osml.answers.forecast import NO_MODEL, Answer
from osml.policies.osml.answers.models import Models
from osml.policies.osml.bandwidth import with_bandwidth
from osml.policies.osml.cliff_shield import NEED, safe, units
from osml.policies.osml.node import NOTHING, Cell, Node, left_over, parted
from osml.policies.osml.remembered.backoff import is_banned
from osml.policies.osml.remembered.misses import CALM, SETTLE, over, really_missed
from osml.policies.osml.remembered.service_memory import Known, learned, without_prediction
from osml.policies.osml.remembered.state import PARTED, SOME, OsmlState, Pair, WaysForCores
from osml.policies.osml.whole_units import cut_down, fits, spread_out

LONG_S = 8.0
"""After so many seconds with a missed target BE jobs are no longer in the background."""


class WorkingPlan:
    """What a decision starts from, and what its steps write to."""

    def __init__(self, node: Node, state: OsmlState, answers: dict[str, Answer], models: Models) -> None:
        self.node, self.before, self.answers, self.models = node, state, answers, models
        self.services: dict[str, Service] = {service.name: service for service in node.lc}
        self.unpredicted = {name for name, answer in answers.items() if answer.model == NO_MODEL}
        self.blind = models.a is None and models.a2 is None
        self.quantum = node.observation.platform.core_quantum
        self.now_s = node.observation.time_s
        self.cells = node.cells
        self.reasons: list[Reason] = []
        self.unsatisfied: list[str] = []
        self.shortage = ""
        self.actions: dict[str, Action] = {}
        self.kind, self.age = state.kind, state.age + 1
        self.ways_for_cores = state.ways_for_cores
        self.on_leftovers = [name for name in state.on_leftovers if name in self.services]
        interval_s = node.observation.interval_s
        blank = node.observation.partition is None and state.wanted is not None  # what is in force nobody knows
        self.known: dict[str, Known] = {}
        for name, service in self.services.items():
            before = state.known.get(name)
            if before is None or not blank:
                before = learned(before, answers[name], service, self.cells.get(name), interval_s)
            self.known[name] = before if name not in self.unpredicted else without_prediction(before, answers[name])
        self.new = [name for name in self.services if name not in self.cells]
        here, there = set(self.services), set(state.known)
        self.moved = [n for n, k in self.known.items() if n in there and k.loads != state.known[n].loads]
        self.few_job_ways = state.few_job_ways and not self.moved
        if self.moved:
            self.ways_for_cores = WaysForCores()  # what ways are worth at other loads nobody knows
        if here != there:
            for name in sorted(there - here):
                self.say(f"{name} is no longer on the node: its resources are free")
            for name in sorted(here - there) if there else []:
                self.say(f"{name} is new on the node", name)
        self.violated = [name for name, known in self.known.items() if really_missed(known, self.services[name])]
        served = [name for name in self.violated if name not in self.on_leftovers]
        self.slacks = {name: service.slack for name, service in self.services.items()}
        measured = any(slack is not None for slack in self.slacks.values())
        self.calm = 0 if served or self.new else state.calm + measured
        restart = here != there or bool(self.moved)
        self._score(restart=restart)
        eased = bool(there - here) or any(self._less_load(name) for name in self.moved)
        self.jobs_isolated = self._jobs_isolated(
            state.jobs_isolated and not eased and bool(node.be)
        )  # other jobs may be harmless
        behind = node.background and not self.jobs_isolated and not eased
        self.without_jobs = [name for name in self.cells if name in state.without_jobs] if behind else []
        if len(self.without_jobs) == len(self.services):  # jobs have to be somewhere
            self.without_jobs = []
        self.pairs = self._pairs(state.pairs)
        if self.pairs or self.without_jobs:
            taken = Cell(sum(pair.cores for pair in self.pairs), 0)
            self.node = node._replace(without_jobs=frozenset(self.without_jobs), taken=taken)
        self._make_room()
        self.wants = {name: self.want(name) for name in self.services}

    def _less_load(self, name: str) -> bool:
        """Whether a load fell, or a target became laxer."""
        now, before = self.known[name], self.before.known[name]
        return (now.rate or 0.0) < (before.rate or 0.0) or (now.target_ms or 0.0) > (before.target_ms or 0.0)

    def _jobs_isolated(self, before: bool) -> bool:
        """Whether BE jobs leave the services' CPUs: behind them they still take of the clock and of memory traffic."""
        if before or not self.node.background:
            return before
        long = [n for n, known in self.known.items() if known.missed * self.node.observation.interval_s >= LONG_S]
        if not long:
            return False
        self.say(f"{long[0]} has been above its target for {LONG_S:g} s: BE jobs leave the services' CPUs", long[0])
        return True

    def _score(self, *, restart: bool) -> None:
        """What the present way to run the node is worth, once it has shown that; and whether misses get less."""
        state = self.before
        self.scores = {} if restart else dict(state.scores)
        ratios = {name: ratio for name, one in self.services.items() if (ratio := over(one)) is not None}
        missed = [math.log(max(1.0, ratio)) for name, ratio in ratios.items() if name in self.violated]
        behind = sum(missed) if missed else None  # queues drain one after the other: all count, not the worst
        falls = behind is None or (state.lowest is not None and behind < state.lowest - 0.01)
        self.no_progress = 0 if falls else state.no_progress + 1
        self.lowest = behind if behind is None or state.lowest is None else min(behind, state.lowest)
        slow = [one.slowdown for one in self.node.observation.services if one.kind == "be"]
        known = [slowdown for slowdown in slow if slowdown is not None]
        e_lc = lc_entropy([intolerable(ratio, 1.0) for ratio in ratios.values()]) if ratios else None
        e_s = None if e_lc is None else combine(e_lc, be_entropy(known) if known else None)
        if e_s is not None and self.age > SETTLE and (self.no_progress == 0 or self.no_progress > SETTLE):
            old = self.scores.get(self.kind)
            self.scores[self.kind] = e_s if old is None else 0.5 * (old + e_s)

    def _pairs(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Those that go on: both are here and allowed so much, loads are the same, and the giver doesn't suffer."""
        kept = [p for p in pairs if {p.taker, p.giver} <= set(self.cells) and not {p.taker, p.giver} & set(self.moved)]
        going = [p for p in kept if p.giver not in self.violated and self._may_share(p)]
        for pair in pairs:
            if pair not in going and pair.giver in self.cells:
                cell = self.cells[pair.giver]
                self.cells = {**self.cells, pair.giver: Cell(cell.cores + pair.cores, cell.ways)}
                self.say(f"{pair.giver} shares its {pair.cores} cores no longer", pair.giver)
        return going

    def _may_share(self, pair: Pair) -> bool:
        """Whether what both reach is within the operator's limits of now."""
        both = (pair.taker, pair.giver)
        return all(self.cells[name].cores + pair.cores <= self.node.most(name).cores for name in both)

    def _make_room(self) -> None:
        """Cells as the limits of now allow them: the operator's may have changed, BE jobs may have come."""
        node = self.node
        cells = {name: node.bounded(name, *cell) for name, cell in self.cells.items()}
        if not fits(node, cells):
            self.pairs, self.node = [], node._replace(taken=NOTHING)
            cells = cut_down(self.node, cells, {name: node.least(name) for name in cells}) or {}
        if cells == self.cells:
            return
        for name, cell in cells.items():
            old = self.cells[name]
            if cell != old:
                self.say(
                    f"{name} changes by {cell.cores - old.cores:+d} cores and {cell.ways - old.ways:+d} ways: "
                    "the limits or the BE jobs changed",
                    name,
                    cell.cores - old.cores,
                )
        self.cells = cells

    def want(self, name: str) -> Cell:
        """The OAA in whole units: what the shield calls safe, and no cell that missed the target before."""
        known, node = self.known[name], self.node
        cores = max(units(known.oaa[0], self.quantum, NEED), units(known.oaa_upper[0] - 1.0, self.quantum))
        cell = node.bounded(name, cores, units(known.oaa[1], 1.0) if node.ways is not None else 0)
        while self.banned(name, cell) and cell.cores < min(node.most(name).cores, node.total.cores):
            cell = node.bounded(name, cell.cores + 1, cell.ways + 1)
        return cell

    def meets(self, name: str) -> bool:
        """Whether a service was measured and met its target: from others nothing is taken, be it noise."""
        slack = self.slacks[name]
        return slack is not None and slack >= 0

    def safe(self, name: str, cell: Cell) -> bool:
        """What the shield says."""
        return safe(self.known[name], cell, self.quantum, self.now_s, has_ways=self.node.ways is not None)

    def banned(self, name: str, cell: Cell) -> bool:
        """Whether such a cell missed the target at this load, not too long ago."""
        known = self.known[name]
        return is_banned(known.bans, cell, known.rate, self.now_s)

    def part(self, cells: dict[str, Cell], to: Sequence[str]) -> Partition:
        """Cells, and what is left of the node for those in `to` until all is calm."""
        self.on_leftovers = [
            name for name in self.on_leftovers if name in cells and cells[name].cores < self.wants[name].cores
        ]
        self.go(SOME if self.on_leftovers else PARTED)
        known_needs = [name for name in to if name not in self.unpredicted]
        found = spread_out(self.node, {name: cells[name] for name in self.services}, known_needs or to)
        for name, cell in found.items():
            if cell != self.cells.get(name):  # what is only lent until all is calm goes back in one step
                self.known[name] = replace(self.known[name], before=None)
            known, need = self.known[name], self.wants[name]
            if name not in self.cells:
                self.say(
                    f"{name} gets {cell.cores} cores and {cell.ways} ways, it needs {need.cores} and {need.ways} "
                    f"(OAA {known.oaa[0]:.1f}, {known.oaa[1]:.1f}; RCliff {known.cliff[0]:.1f}, {known.cliff[1]:.1f}); "
                    f"{latency_text(self.services[name])}",
                    name,
                    cell.cores,
                )
        return self.write(found)

    def changed(self, cells: dict[str, Cell]) -> Partition:
        """Other cells, with the reason for each change."""
        for name, cell in cells.items():
            old, known = self.cells[name], self.known[name]
            if cell == old:
                continue
            by = f"; {self.actions[name]}" if name in self.actions else ""
            self.say(
                f"{name} changes by {cell.cores - old.cores:+d} cores and {cell.ways - old.ways:+d} ways: "
                f"{latency_text(self.services[name])}; OAA {known.oaa[0]:.1f} cores, {known.oaa[1]:.1f} ways{by}",
                name,
                cell.cores - old.cores,
            )
        self.go(SOME if self.on_leftovers else PARTED)
        return self.write(cells)

    def hold(self) -> Partition:
        """Nothing to do."""
        names = ", ".join([f"{name} {cell.cores} cores, {cell.ways} ways" for name, cell in self.cells.items()])
        idle = left_over(self.node, [*self.cells.values(), self.node.taken])
        self.say(f"no change: {names}; {idle.cores} cores and {idle.ways} ways are idle")
        return self.write(self.cells)

    def write(self, cells: dict[str, Cell]) -> Partition:
        """Cells and pairs as a partition."""
        pairs = [(pair.taker, pair.giver, Cell(pair.cores, 0)) for pair in self.pairs]
        gbps = {name: known.gbps for name, known in self.known.items()}
        met = min([known.met for known in self.known.values()], default=0)
        return with_bandwidth(self.node, parted(self.node, cells, pairs), gbps, self.models.profiles, self.say, met)

    def go(self, kind: str) -> None:
        """Run the node in that way from now on."""
        if kind != self.kind:
            self.kind, self.age, self.no_progress, self.lowest = kind, 0, 0, None
        if kind != SOME:
            self.on_leftovers = []

    def say(self, text: str, service: str | None = None, change: int = 0) -> None:
        """Add a reason."""
        self.reasons.append(Reason(text=text, service=service, resource="cores" if change else None, change=change))

    def say_hidden(self) -> None:
        """Name the features that the models were asked without, each with its services."""
        found: dict[str, list[str]] = {}
        for name, answer in self.answers.items():
            for feature in answer.hidden:
                found.setdefault(feature, []).append(name)
        if found:
            parts = "; ".join(f"{feature} of {', '.join(names)}" for feature, names in found.items())
            self.say(f"far outside the training range, so these count as not measured: {parts}")

    def infeasible(self) -> Infeasible | None:
        """What the scheduler above is told, in every decision until those targets have been met for a while."""
        if self.shortage:
            return Infeasible(self.unsatisfied, self.shortage)
        if self.on_leftovers:
            names = ", ".join(self.on_leftovers)
            return Infeasible(list(self.on_leftovers), f"these services only have what the others leave: {names}")
        if self.pairs:
            words = "; ".join(f"{p.taker} shares {p.cores} cores with {p.giver}" for p in self.pairs)
            return Infeasible(
                [pair.taker for pair in self.pairs], f"{words}; a node with more free resources is needed"
            )
        told = self.before.shortage
        late = [] if told is None else [name for name in told.services if name in self.known]
        if told is None or all(self.known[name].met >= CALM for name in late):
            return None
        return Infeasible(late, told.message)

    def forecasts(self, answers: dict[str, Answer]) -> list[Forecast]:
        """What the models said, with the actions of Model-C that were taken."""
        found: list[Forecast] = []
        for name, answer in answers.items():
            if answer.model == NO_MODEL:
                continue
            action = self.actions.get(name)
            told = answer.forecast(familiar=name not in self.unpredicted)
            found.append(told if action is None else replace(told, action=(action.cores, action.ways), q=action.q))
        return found

    def state(self, wanted: Partition, lack: Infeasible | None) -> OsmlState:
        """What the next decision has to know."""
        before, seen = self.before, self.node.observation
        asked = before.refused
        if asked is not None:
            asked = replace(asked, asked=wanted != seen.partition)
        return OsmlState(
            known=self.known,
            kind=self.kind,
            age=self.age,
            scores=self.scores,
            on_leftovers=self.on_leftovers,
            pairs=self.pairs,
            calm=self.calm,
            no_progress=self.no_progress,
            lowest=self.lowest,
            few_job_ways=self.few_job_ways,
            wanted=wanted,
            jobs_isolated=self.jobs_isolated,
            without_jobs=self.without_jobs,
            ways_for_cores=self.ways_for_cores,
            unfamiliar=before.unfamiliar,
            shortage=lack,
            refused=asked,
            seq=seen.seq,
            violated_since_s=before.violated_since_s,
            time_s=seen.time_s,
        )

    def waiting(self, applied: Partition) -> OsmlState:
        """The same where nothing is asked for: what was learned of the services or is over, and nothing decided."""
        before, seen = self.before, self.node.observation
        refused = before.refused and replace(before.refused, wait=before.refused.wait - 1, asked=False)
        return replace(
            before,
            known=self.known,
            calm=self.calm,
            wanted=applied,
            shortage=self.infeasible(),
            refused=refused,
            jobs_isolated=before.jobs_isolated and self.jobs_isolated,
            without_jobs=self.without_jobs,
            ways_for_cores=self.ways_for_cores,
            seq=seen.seq,
            time_s=seen.time_s,
        )
