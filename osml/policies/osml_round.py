"""One decision of the policy `osml`: from predicted needs and what was measured to cells."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from osml.domain import Forecast, Partition, Reason, Service
from osml.entropy import be_entropy, combine, intolerable, lc_entropy
from osml.policies.osml_bandwidth import with_bandwidth
from osml.policies.osml_correct import Action, upsize
from osml.policies.osml_fit import cut_down, fits, missing, spread_out
from osml.policies.osml_forecast import Answer
from osml.policies.osml_memory import Known, banned, learned, with_ban
from osml.policies.osml_misses import SETTLE, alarming, over, really_missed
from osml.policies.osml_models import Models
from osml.policies.osml_node import Cell, Node, left_over, parted
from osml.policies.osml_overcommit import overcommit, share
from osml.policies.osml_reclaim import reclaim
from osml.policies.osml_shield import NEED, safe, units
from osml.policies.osml_state import PARTED, SOME, OsmlState, Pair
from osml.policies.osml_trade import b_points, best_fit, neighbour_to_share
from osml.policies.policy import latency_text

NEARLY_ALL = 0.92
"""Of the cores: needs beyond that are not worth parting a node whose services meet their targets as it is."""

FAR = -1.0
"""Slack below which a service is far behind: its latency is twice the target."""

LONG_S = 8.0
"""After so many seconds with a missed target BE jobs are no longer in the background."""

WITHDRAWN = 3
"""Intervals after a step down in which a missed target takes it back."""


class Round:
    """One decision in the making."""

    def __init__(self, node: Node, state: OsmlState, answers: dict[str, Answer], models: Models) -> None:
        self.node, self.before, self.answers, self.models = node, state, answers, models
        self.services: dict[str, Service] = {service.name: service for service in node.lc}
        self.blind = models.a is None and models.a2 is None
        self.quantum = node.observation.platform.core_quantum
        self.cells = node.cells
        self.reasons: list[Reason] = []
        self.unsatisfied: list[str] = []
        self.lack = ""
        self.actions: dict[str, Action] = {}
        self.kind, self.age = state.kind, state.age + 1
        self.aside = [name for name in state.aside if name in self.services]
        interval_s = node.observation.interval_s
        self.known: dict[str, Known] = {
            name: learned(state.known.get(name), answers[name], service, self.cells.get(name), interval_s)
            for name, service in self.services.items()
        }
        if self.blind:
            self.known = {
                name: replace(k, oaa=answers[name].oaa, oaa_upper=answers[name].oaa) for name, k in self.known.items()
            }
        self.new = [name for name in self.services if name not in self.cells]
        here, there = set(self.services), set(state.known)
        self.moved = [n for n, k in self.known.items() if n in there and k.loads != state.known[n].loads]
        self.narrow = state.narrow and not self.moved
        for name in sorted(there - here):
            self.say(f"{name} has gone: its part is free")
        for name in sorted(here - there) if there else []:
            self.say(f"{name} has come", name)
        self.violated = [name for name, known in self.known.items() if really_missed(known, self.services[name])]
        served = [name for name in self.violated if name not in self.aside]
        measured = any(service.slack is not None for service in node.lc)
        self.calm = 0 if served or self.new else state.calm + measured
        restart = here != there or bool(self.moved)
        self._score(restart=restart)
        self.apart = self._jobs_apart(state.apart, restart=restart)
        self.pairs = self._pairs(state.pairs)
        self.node = node._replace(taken=Cell(sum(pair.cores for pair in self.pairs), 0))
        self._make_room()
        self.wants = {name: self.want(name) for name in self.services}

    def _jobs_apart(self, before: bool, *, restart: bool) -> bool:
        """Whether BE jobs leave the services' CPUs: behind them they still take of the clock and of memory traffic."""
        long = [n for n, known in self.known.items() if known.missed * self.node.observation.interval_s >= LONG_S]
        if restart or before or not (self.node.background and long):
            return before and not restart
        self.say(f"{long[0]} has missed its target for {LONG_S:g} s: BE jobs leave the services' CPUs", long[0])
        return True

    def _score(self, *, restart: bool) -> None:
        """What the present way to run the node is worth, once it has shown that; and whether misses get less."""
        state = self.before
        self.scores = {} if restart else dict(state.scores)
        ratios = {name: ratio for name, one in self.services.items() if (ratio := over(one)) is not None}
        worst = max((ratio for name, ratio in ratios.items() if name in self.violated), default=None)
        falls = worst is None or (state.lowest is not None and worst < 0.99 * state.lowest)
        self.stuck = 0 if falls else state.stuck + 1
        self.lowest = worst if worst is None or state.lowest is None else min(worst, state.lowest)
        slow = [one.slowdown for one in self.node.observation.services if one.kind == "be"]
        known = [slowdown for slowdown in slow if slowdown is not None]
        e_lc = lc_entropy([intolerable(ratio, 1.0) for ratio in ratios.values()]) if ratios else None
        e_s = None if e_lc is None else combine(e_lc, be_entropy(known) if known else None)
        if e_s is not None and self.age > SETTLE and (self.stuck == 0 or self.stuck > SETTLE):
            old = self.scores.get(self.kind)
            self.scores[self.kind] = e_s if old is None else 0.5 * (old + e_s)

    def _pairs(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Those that go on: both are here, loads are the same, and the giver doesn't suffer."""
        kept = [p for p in pairs if {p.taker, p.giver} <= set(self.cells) and not {p.taker, p.giver} & set(self.moved)]
        going = [p for p in kept if p.giver not in self.violated]
        for pair in pairs:
            if pair not in going and pair.giver in self.cells:
                cell = self.cells[pair.giver]
                self.cells = {**self.cells, pair.giver: Cell(cell.cores + pair.cores, cell.ways)}
                self.say(f"{pair.giver} shares no more: its {pair.cores} cores are its own again", pair.giver)
        return going

    def _make_room(self) -> None:
        """Cells as the limits of now allow them: the operator's may have changed, BE jobs may have come."""
        node = self.node
        cells = {name: node.bounded(name, *cell) for name, cell in self.cells.items()}
        if not fits(node, cells):
            self.pairs, self.node = [], node._replace(taken=Cell(0, 0))
            cells = cut_down(self.node, cells, {name: node.least(name) for name in cells}) or {}
        for name, cell in cells.items():
            old = self.cells[name]
            if cell != old:
                self.say(
                    f"{name} {cell.cores - old.cores:+d} cores, {cell.ways - old.ways:+d} ways: the limits of now",
                    name, cell.cores - old.cores,
                )  # fmt: skip
        self.cells = cells

    def want(self, name: str) -> Cell:
        """The OAA in whole units: what the shield calls safe, and no cell that missed the target before."""
        known, node = self.known[name], self.node
        cores = max(units(known.oaa[0], self.quantum, NEED), units(known.oaa_upper[0] - 1.0, self.quantum))
        cell = node.bounded(name, cores, units(known.oaa[1], 1.0) if node.ways is not None else 0)
        most = min(node.most(name).cores, node.total.cores)
        while cell.cores < most and banned(known, cell):
            cell = Cell(cell.cores + 1, cell.ways)
        return cell

    def decide(self) -> Partition:
        """The partition for the next interval."""
        if not self.cells:
            return self.place_all()
        if self.new:
            return self.place()
        alarmed = [
            name for name in self.violated
            if name not in self.aside and alarming(self.known[name], self.before.known.get(name), self.services[name])
        ]  # fmt: skip
        ahead = [n for n in self.moved if n not in self.aside and self.wants[n].cores > self.cells[n].cores]
        if alarmed or ahead:
            return self.relieve(alarmed or ahead)
        met = [name for name in self.aside if self.known[name].met > SETTLE]
        if met:
            self.say(f"{', '.join(met)} meets its target again", met[0])
            self.aside = [name for name in self.aside if name not in met]
        return reclaim(self)

    def place_all(self) -> Partition:
        """Algorithm 1 at the beginning, or where everybody shares: nobody has a cell yet."""
        node = self.node
        if not fits(node, self.wants):
            return overcommit(self)
        needed = sum(cell.cores for cell in self.wants.values())
        saves_nothing = needed > NEARLY_ALL * node.for_lc.cores and not self.blind  # even parts are no needs
        if node.may_share and not node.background and not self.violated and saves_nothing:
            return share(self, "all targets are met so, and cells would save next to nothing")
        return self.part(self.wants, list(self.services))

    def place(self) -> Partition:
        """Algorithm 1: the need of who has come out of what is idle, of what others don't need, of Model-B's points."""
        here = {name: cell for name, cell in self.cells.items() if name not in self.aside}
        for asked in (lambda: here, lambda: {name: self.wants[name] for name in here}, lambda: self.traded(here)):
            base = asked()  # Model-B is asked last, and speaks only where it decides
            cells = {n: base.get(n, self.wants[n] if n in self.new else self.node.least(n)) for n in self.services}
            if base and fits(self.node, cells):
                # Who is there already has less from now on, too: of the clock, of memory traffic.
                return self.part(cells, list(cells))
        return overcommit(self)

    def traded(self, here: dict[str, Cell]) -> dict[str, Cell]:
        """What the neighbours keep where Model-B says what they can spare; empty where that is not enough."""
        wants = {name: self.wants[name] for name in here}
        lack = missing(self.node, {**wants, **{name: self.wants[name] for name in self.new}})
        givers = [self.services[name] for name in here if not self.known[name].missed]
        points = b_points(self.node.observation, givers, self.models)
        for name, options in points.items():
            less = [Cell(wants[name].cores - cell.cores, wants[name].ways - cell.ways) for cell in options]
            points[name] = [
                option for option, cell in zip(options, less, strict=True)
                if cell == self.node.bounded(name, *cell) and self.safe(name, cell)
            ]  # fmt: skip
        given = best_fit(lack, points)
        if given is None:
            return {}
        for name, cell in given.items():
            self.say(f"{name} can spare {cell.cores} cores and {cell.ways} ways (Model-B)", name, -cell.cores)
            wants[name] = Cell(wants[name].cores - cell.cores, wants[name].ways - cell.ways)
        return wants

    def relieve(self, names: Sequence[str]) -> Partition:
        """Algorithm 2: more for those who miss their target, out of what is idle, else of what others don't need."""
        steps = {name: self.step(name) for name in names}
        # More of both, or of the one that others can spare: cores and ways stand for each other (PARTIES, 3.4.3).
        more_ways = {n: self.node.bounded(n, self.cells[n].cores, step.ways + 1) for n, step in steps.items()}
        for more in (steps, more_ways):
            cells = self.given(more)
            if cells is not None and any(cells[name] != self.cells[name] for name in names):
                return self.changed(self.lent(names, cells))
        if not any(self.known[name].missed for name in names):
            return self.hold()  # a guess ahead of any miss is not worth anybody else's cell
        self.wants |= steps
        return self.pair(names, steps) or overcommit(self)

    def lent(self, names: Sequence[str], cells: dict[str, Cell]) -> dict[str, Cell]:
        """The cells, with all that is idle for those who are far behind: a queue drains the faster the more it has.

        BE jobs pay for that only where they are in the background anyway.
        """
        behind = [name for name in names if (self.services[name].slack or 0.0) < FAR]
        if not behind or (self.node.be and not self.node.background):
            return cells
        for name in behind:
            self.known[name] = replace(self.known[name], before=None)
        return spread_out(self.node, cells, behind)

    def step(self, name: str) -> Cell:
        """What is tried next for a service: its need where that is more, else what Model-C says, else a plain step."""
        known, cell = self.known[name], self.cells[name]
        target = self.wants[name]
        if known.missed:
            self.known[name] = known = with_ban(known, cell)
            target = self.want(name)
            tried = self.correction(name, cell)
            if known.before is not None and known.settled <= WITHDRAWN:
                tried = Cell(*known.before)
                self.say(f"{name}: the last step down is withdrawn", name)
            target = Cell(max(target.cores, tried.cores), max(target.ways, tried.ways))
        target = self.node.bounded(name, max(target.cores, cell.cores), max(target.ways, cell.ways))
        self.wants[name] = target
        return target

    def correction(self, name: str, cell: Cell) -> Cell:
        """Model-C's action; without it, or where a queue grows fast, a step in proportion to the cell."""
        slack = self.services[name].slack or 0.0
        more, way = max(1, round(0.15 * cell.cores)), int(self.node.ways is not None)
        if slack < FAR:
            return Cell(cell.cores + max(2, round(0.3 * cell.cores)), cell.ways + way)
        free = Cell(self.node.total.cores - cell.cores, self.node.total.ways - cell.ways)
        action = upsize(self.node.observation, name, self.models, cell, free)
        if action is None:
            return Cell(cell.cores + more, cell.ways + way)
        self.actions[name] = action
        return Cell(cell.cores + action.cores, cell.ways + action.ways)

    def given(self, more: dict[str, Cell]) -> dict[str, Cell] | None:
        """Cells with more for some: idle units first, else what others don't need; None where that is too little."""
        asked = {**self.cells, **more}
        least = {
            name: cell if name in more or not self.meets(name) else _smaller(self.wants[name], cell)
            for name, cell in asked.items()
        }
        least |= {name: self.node.least(name) for name in self.aside}
        return cut_down(self.node, asked, least)

    def pair(self, names: Sequence[str], steps: dict[str, Cell]) -> Partition | None:
        """Algorithm 4: the cores that a service lacks are shared with whom that harms least, by Model-B'."""
        busy = {name for pair in self.pairs for name in (pair.taker, pair.giver)} | set(self.violated) | set(self.aside)
        name = names[0]
        cores = min(steps[name].cores - self.cells[name].cores, 3)
        givers = [service for n, service in self.services.items() if n not in busy]
        if len(names) > 1 or cores < 1 or self.node.background or not givers or name in busy - set(self.violated):
            return None
        found = neighbour_to_share(self.node.observation, self.cells, givers, cores, self.models)
        if found is None:
            return None
        giver, percent = found
        left = self.node.bounded(giver, self.cells[giver].cores - cores, self.cells[giver].ways)
        if left.cores != self.cells[giver].cores - cores:
            return None
        self.pairs = [*self.pairs, Pair(name, giver, cores)]
        text = f"{name} shares {cores} cores with {giver}: Model-B' expects {giver} to be {percent:.0f} % slower"
        self.say(text, name, cores)
        self.unsatisfied, self.lack = [name], f"{text}; {name} needs a node with more room"
        return self.write({**self.cells, giver: left})

    def meets(self, name: str) -> bool:
        """Whether a service was measured and met its target: from others nothing is taken, be it noise."""
        slack = self.services[name].slack
        return slack is not None and slack >= 0

    def safe(self, name: str, cell: Cell) -> bool:
        """What the shield says."""
        return safe(self.known[name], cell, self.quantum, has_ways=self.node.ways is not None)

    def part(self, cells: dict[str, Cell], to: Sequence[str]) -> Partition:
        """Cells, and what is left of the node for those in `to` until all is calm."""
        self.aside = [name for name in self.aside if name in cells and cells[name].cores < self.wants[name].cores]
        self.go(SOME if self.aside else PARTED)
        found = spread_out(self.node, {name: cells[name] for name in self.services}, to)
        for name, cell in found.items():
            if cell != self.cells.get(name):  # what is only lent until all is calm goes back in one step
                self.known[name] = replace(self.known[name], before=None)
            known, need = self.known[name], self.wants[name]
            if name not in self.cells:
                self.say(
                    f"{name}: {cell.cores} cores and {cell.ways} ways, of which it needs {need.cores} and {need.ways} "
                    f"(OAA {known.oaa[0]:.1f}, {known.oaa[1]:.1f}; RCliff {known.cliff[0]:.1f}, {known.cliff[1]:.1f}); "
                    f"{latency_text(self.services[name])}",
                    name, cell.cores,
                )  # fmt: skip
        return self.write(found)

    def changed(self, cells: dict[str, Cell]) -> Partition:
        """Other cells, with the reason for each change."""
        for name, cell in cells.items():
            old, known = self.cells[name], self.known[name]
            if cell == old:
                continue
            by = f"; {self.actions[name]}" if name in self.actions else ""
            self.say(
                f"{name} {cell.cores - old.cores:+d} cores, {cell.ways - old.ways:+d} ways: "
                f"{latency_text(self.services[name])}; OAA {known.oaa[0]:.1f} cores, {known.oaa[1]:.1f} ways{by}",
                name, cell.cores - old.cores,
            )  # fmt: skip
        self.go(SOME if self.aside else PARTED)
        return self.write(cells)

    def hold(self) -> Partition:
        """Nothing to do."""
        names = ", ".join(f"{name} {cell.cores} cores, {cell.ways} ways" for name, cell in self.cells.items())
        idle = left_over(self.node, [*self.cells.values(), self.node.taken])
        self.say(f"held: {names}; {idle.cores} cores and {idle.ways} ways are left")
        return self.write(self.cells)

    def write(self, cells: dict[str, Cell]) -> Partition:
        """Cells and pairs as a partition."""
        pairs = [(pair.taker, pair.giver, Cell(pair.cores, 0)) for pair in self.pairs]
        gbps = {name: known.gbps for name, known in self.known.items()}
        return with_bandwidth(self.node, parted(self.node, cells, pairs), gbps)

    def go(self, kind: str) -> None:
        """Run the node in that way from now on."""
        if kind != self.kind:
            self.kind, self.age, self.stuck, self.lowest = kind, 0, 0, None
        if kind != SOME:
            self.aside = []

    def say(self, text: str, service: str | None = None, change: int = 0) -> None:
        """Add a reason."""
        self.reasons.append(Reason(text=text, service=service, resource="cores" if change else None, change=change))

    def forecasts(self) -> list[Forecast]:
        """What the models said, with the actions of Model-C that were taken."""
        found: list[Forecast] = []
        for name, answer in self.answers.items():
            action = self.actions.get(name)
            told = answer.forecast()
            found.append(told if action is None else replace(told, action=(action.cores, action.ways), q=action.q))
        return found

    def state(self, wanted: Partition) -> OsmlState:
        """What the next decision has to know."""
        return OsmlState(
            known=self.known, kind=self.kind, age=self.age, scores=self.scores, aside=self.aside, pairs=self.pairs,
            calm=self.calm, stuck=self.stuck, lowest=self.lowest, narrow=self.narrow, wanted=wanted, apart=self.apart,
            violated_since_s=self.before.violated_since_s, time_s=self.node.observation.time_s,
        )  # fmt: skip


def _smaller(one: Cell, other: Cell) -> Cell:
    return Cell(min(one.cores, other.cores), min(one.ways, other.ways))
