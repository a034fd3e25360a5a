"""One decision of the policy `osml`: from predicted needs and what was measured to cells."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from osml.domain import Partition, Reason, Service
from osml.entropy import system_entropy
from osml.policies.arq import ArqState
from osml.policies.osml_fit import cut_down, fits, missing, spread_out
from osml.policies.osml_forecast import Answer
from osml.policies.osml_memory import Known, banned, learned, with_ban
from osml.policies.osml_models import Models
from osml.policies.osml_node import Cell, Node, left_over, parted, shared_by_services
from osml.policies.policy import latency_text

CALM = 2
"""Intervals with all targets met before anything is taken back."""

LATER = 8
"""Intervals in a cell, and of predictions, before a small surplus is taken back."""

SETTLE = 2
"""Intervals after which a way to run the node shows what it is worth."""

NEARLY_ALL = 0.92
"""Of the cores: needs beyond that are not worth parting a node whose services meet their targets as it is."""

PATIENCE = 40
"""Intervals that a queue may take to drain before more is asked for."""

BAD = 0.1
"""A target missed by more than this is acted upon at once, by less in the second interval."""

LITTLE = 0.1
"""A surplus that is less than this share of a cell is left where it is, once the first surplus is gone."""

FULL = 0.92
"""Share of its CPUs that a service may be using after a step down."""

SHARED, PARTED, SOME = "shared", "parted", "some"
"""Ways to run a node: everybody on everything, everybody in a cell, some in cells and the others in what is left."""


class OsmlState(Struct, frozen=True):
    """`known` are the services; `kind` the way that the node is run for `age` intervals, `scores` the E_S that ways came
    to, `calm` intervals in a row with all targets met, `stuck` those in which the worst miss was none
    less than the `lowest` so far. `narrow`: where all share, BE jobs have few ways of their own. `arq` is kept while ARQ's rules decide."""

    known: dict[str, Known] = {}
    kind: str = SHARED
    age: int = 0
    scores: dict[str, float] = {}
    aside: list[str] = []
    calm: int = 0
    stuck: int = 0
    lowest: float | None = None
    narrow: bool = False
    wanted: Partition | None = None
    arq: ArqState | None = None
    violated_since_s: float | None = None
    time_s: float = 0.0


class Round:
    """One decision in the making."""

    def __init__(self, node: Node, state: OsmlState, answers: dict[str, Answer], models: Models) -> None:
        self.node, self.before, self.answers, self.models = node, state, answers, models
        self.services: dict[str, Service] = {service.name: service for service in node.lc}
        self.cells = node.cells
        self.reasons: list[Reason] = []
        self.unsatisfied: list[str] = []
        self.lack = ""
        self.kind = state.kind
        self.aside = [name for name in state.aside if name in self.services]
        interval_s = node.observation.interval_s
        self.known = {
            name: learned(state.known.get(name), answers[name], service, self.cells.get(name), interval_s)
            for name, service in self.services.items()
        }
        self.new = [name for name in self.services if name not in self.cells]
        here, there = set(self.services), set(state.known)
        self.moved = [n for n, k in self.known.items() if n in there and k.loads != state.known[n].loads]
        self.age = state.age + 1
        self.narrow = state.narrow and not self.moved
        for name in sorted(there - here):
            self.say(f"{name} has gone: its part is free")
        for name in sorted(here - there) if there else []:
            self.say(f"{name} has come", name)
        restart = here != there or bool(self.moved)
        self.scores = {} if restart else dict(state.scores)
        self.violated = [name for name, known in self.known.items() if _really(known, self.services[name])]
        served = [name for name in self.violated if name not in self.aside]
        measured = any(service.slack is not None for service in node.lc)
        self.calm = 0 if served or self.new else state.calm + measured
        self.e_s = system_entropy([*node.observation.services]).e_s
        worst, lowest = self._worst(), state.lowest
        drains = worst is None or (lowest is not None and worst < 0.99 * lowest)
        self.stuck = 0 if drains else state.stuck + 1
        self.lowest = worst if worst is None or lowest is None else min(worst, lowest)
        if self.e_s is not None and self.age > SETTLE and (self.stuck == 0 or self.stuck > SETTLE):
            old = self.scores.get(self.kind)
            self.scores[self.kind] = self.e_s if old is None else 0.5 * (old + self.e_s)
        self.wants = {name: self.want(name) for name in self.services}

    def _worst(self) -> float | None:
        """The highest latency over its target of those who miss it."""
        return max((ratio for name in self.violated if (ratio := self._over(name)) is not None), default=None)

    def draining(self, name: str) -> bool:
        """Whether the latency of a service falls so that it meets its target within PATIENCE intervals."""
        old, service = self.before.known.get(name), self.services[name]
        latency_ms, target_ms = service.latency_ms, service.target_ms
        if old is None or old.latency_ms is None or latency_ms is None or target_ms is None:
            return False
        fall = old.latency_ms - latency_ms
        return fall > 0.01 * old.latency_ms and latency_ms - target_ms <= PATIENCE * fall

    def _over(self, name: str) -> float | None:
        service = self.services[name]
        if service.latency_ms is None or service.target_ms is None:
            return None
        return service.latency_ms / service.target_ms

    # What services need

    def want(self, name: str) -> Cell:
        """The OAA in whole units: what the shield calls safe, and no cell that missed the target before."""
        known, node = self.known[name], self.node
        quantum = node.observation.platform.core_quantum
        cores = max(known.oaa[0], known.oaa_upper[0] - 1.0)
        units = math.ceil(cores / quantum - 0.25)
        ways = math.ceil(known.oaa[1] - 0.25) if node.ways is not None else 0
        cell = node.bounded(name, units, ways)
        while banned(known, cell) and cell.cores < node.most(name).cores and cell.cores < node.total.cores:
            cell = Cell(cell.cores + 1, cell.ways)
        return cell

    def tight(self, name: str) -> Cell:
        """Where RCliff may just not be crossed: a core less than the OAA."""
        known, node = self.known[name], self.node
        quantum = node.observation.platform.core_quantum
        units = math.floor((known.oaa[0] - 1.0) / quantum + 0.25)
        return node.bounded(name, min(units, self.wants[name].cores), self.wants[name].ways)

    def alarmed(self) -> list[str]:
        """Services whose missed target is not the past: not just after a change, and not getting better."""
        found: list[str] = []
        for name in self.violated:
            known, service = self.known[name], self.services[name]
            slack, latency_ms = service.slack, service.latency_ms
            if name in self.aside or name in self.new or slack is None or latency_ms is None or known.settled < 1:
                continue
            if not self.draining(name) and (slack < -BAD or known.missed > 1):
                found.append(name)
        return found

    # The decision

    def decide(self) -> Partition:
        """The partition for the next interval."""
        if not self.cells:
            return self.place_all()
        if self.new:
            return self.place(self.new)
        alarmed = self.alarmed()
        if alarmed:
            return self.relieve(alarmed)
        ahead = [n for n in self.services if n not in self.aside and self.grown(n)]
        if ahead:
            return self.relieve(ahead)
        met = [name for name in self.aside if self.known[name].met > SETTLE]
        if met:
            self.say(f"{', '.join(met)} meets its target again", met[0])
            self.aside = [name for name in self.aside if name not in met]
        return self.reclaim()

    def grown(self, name: str) -> bool:
        """Whether the load of a service has outgrown its cell, by what the models say of it now."""
        known, cell = self.known[name], self.cells[name]
        return name in self.moved and self.wants[name].cores > cell.cores

    def place_all(self) -> Partition:
        """Nobody has a cell: the beginning, or everybody shares."""
        needed = sum(cell.cores for cell in self.wants.values())
        if fits(self.node, self.wants):
            if self.node.may_share and not self.node.background and not self.violated and needed > NEARLY_ALL * self.node.for_lc.cores:
                return self.share("all targets are met, and cells would save next to nothing")
            return self.part(self.wants, list(self.services))
        return self.overcommit()

    def place(self, new: Sequence[str]) -> Partition:
        """Algorithm 1: the need of who has come out of what is idle, else out of what others have beyond theirs."""
        others = {name: cell for name, cell in self.cells.items() if name not in self.aside}
        for base in ({**others, **{n: self.wants[n] for n in new}}, self.wants):
            cells = {n: base.get(n, self.node.least(n)) for n in self.services}
            if fits(self.node, cells):
                # Who is there already has less from now on, too: of the clock, of memory traffic.
                return self.part(cells, list(cells))
        return self.overcommit()

    def relieve(self, names: Sequence[str]) -> Partition:
        """Algorithm 2: more for those who miss their target, out of what is idle, else of what others don't need."""
        steps: dict[str, Cell] = {}
        for name in names:
            known, cell = self.known[name], self.cells[name]
            step = self.wants[name]
            if known.missed:
                self.known[name] = known = with_ban(known, cell)
                step = self.step(name, cell)
                if known.before is not None and known.settled <= 3:
                    step = Cell(*known.before)
                self.wants[name] = self.want(name)
            step = Cell(max(step.cores, cell.cores), max(step.ways, cell.ways))
            steps[name] = self.node.bounded(
                name, max(self.wants[name].cores, step.cores), max(self.wants[name].ways, step.ways)
            )
        # More of both, or of the one that others can spare: cores and ways stand for each other (PARTIES, 3.4.3).
        more_ways = {n: self.node.bounded(n, self.cells[n].cores, s.ways + 1) for n, s in steps.items()}
        for more in (steps, more_ways):
            cells = self.given(more)
            if cells is not None and any(cells[n] != self.cells[n] for n in names):
                self.wants |= more
                for name, cell in cells.items():
                    if cell != self.cells[name]:
                        self.said_change(name, cell, latency_text(self.services[name]))
                self.go(SOME if self.aside else PARTED)
                return parted(self.node, cells)
        self.wants |= steps
        return self.overcommit()

    def given(self, more: dict[str, Cell]) -> dict[str, Cell] | None:
        """All cells with more for some: idle units first, else units that others don't need; None where none suffice."""
        asked = {**self.cells, **more}
        least = {name: cell if name in more else _smaller(self.wants[name], cell) for name, cell in asked.items()}
        least |= {name: self.node.least(name) for name in self.aside}
        return cut_down(self.node, asked, least)

    def step(self, name: str, cell: Cell) -> Cell:
        """What is tried next for a service that misses its target in this cell."""
        more = max(1, round(0.15 * cell.cores))
        slack = self.services[name].slack or 0.0
        if slack < -1.0:
            more = max(2, round(0.3 * cell.cores))
        return Cell(cell.cores + more, cell.ways + (1 if self.node.ways is not None else 0))

    def reclaim(self) -> Partition:
        """Algorithm 3: what is more than the OAA goes to BE jobs or stays idle, in few large steps."""
        node, cells = self.node, dict(self.cells)
        ready = all(k.settled >= 1 and k.confined for n, k in self.known.items() if n not in self.aside)
        if self.calm < CALM or not ready:
            return self.hold()
        for name, cell in self.cells.items():
            if name in self.aside:
                continue
            less = self.less(name, cell)
            if less == cell:
                continue
            cells[name] = less
            self.known[name] = _stepped(self.known[name], cell)
            known = self.known[name]
            self.say(
                f"{name} {less.cores - cell.cores:+d} cores, {less.ways - cell.ways:+d} ways: OAA {known.oaa[0]:.1f} "
                f"cores, {known.oaa[1]:.1f} ways (at most {known.oaa_upper[0]:.1f}), RCliff at most "
                f"{known.upper[0]:.1f}, {known.upper[1]:.1f}; {latency_text(self.services[name])}",
                name, less.cores - cell.cores,
            )
        if self.aside:
            cells = self.filled({n: Cell(c.cores, max(c.ways, self.cells[n].ways)) for n, c in cells.items()})
        return self.hold() if cells == self.cells else parted(node, cells)

    def less(self, name: str, cell: Cell) -> Cell:
        """The cell without what is not needed: at first to the OAA at once, later only what is clearly too much."""
        known, want = self.known[name], self.wants[name]
        cores, ways = min(cell.cores, want.cores), min(cell.ways, want.ways)
        first = known.before is None
        if not first and (known.count < LATER or known.settled < LATER):
            return cell
        if not first and cell.cores - cores < LITTLE * cell.cores:
            cores = cell.cores
        used = self.services[name].counters.cpu_usage_cores
        if used is not None:  # what is measured counts beside what is predicted
            cores = max(cores, min(cell.cores, math.ceil(used / (FULL * self.node.observation.platform.core_quantum))))
        found = Cell(cores, ways)
        return cell if banned(known, found) else found

    def overcommit(self) -> Partition:
        """Not everybody's need fits: RCliff instead of OAA, everybody on everything, or some at the cost of others."""
        node, names = self.node, list(self.services)
        lack = missing(node, self.wants)
        self.lack = f"{lack.cores} cores and {lack.ways} ways are missing for all OAAs together"
        self.unsatisfied = list(self.violated) or names
        shared_well = self.scores.get(SHARED)
        if node.may_share and self.kind == SHARED:
            if not self.violated:
                return self.share("everybody meets its target on shared resources")
            if self.stuck <= SETTLE or self.age <= SETTLE:
                return self.share("queues may still drain")
        tight = {name: self.tight(name) for name in names}
        cells = cut_down(node, self.wants, tight)
        if cells is not None and PARTED not in self.scores and (SHARED in self.scores or not node.may_share):
            self.say("RCliff instead of OAA: not all OAAs fit")
            return self.part(cells, names)
        best_aside = 1.0 / len(names)
        if node.may_share and (shared_well is None or shared_well < 0.9 * best_aside):
            return self.share("not everybody's need fits in parts")
        return self.set_aside(tight)

    def set_aside(self, tight: dict[str, Cell]) -> Partition:
        """As many as possible in cells, the others in what is left: the least E_S where not all can meet their target."""
        node = self.node
        order = sorted(self.services, key=lambda n: (self._price(self.wants[n]), n))
        cells = {name: node.least(name) for name in order}
        served: list[str] = []
        for need in (self.wants, tight):
            for name in order:
                if name in served:
                    continue
                trial = {**cells, name: need[name]}
                if fits(node, trial):
                    cells, served = trial, [*served, name]
        self.aside = [name for name in order if name not in served]
        self.unsatisfied = list(self.aside)
        self.go(SOME)
        self.say(f"{', '.join(self.aside)} in what is left: {self.lack}")
        return parted(node, self.filled({n: cells[n] for n in self.services}))

    def filled(self, cells: dict[str, Cell]) -> dict[str, Cell]:
        """Idle cores for those who are set aside, idle ways for everybody: more cache makes cores go further."""
        return spread_out(self.node, cells, self.aside or list(cells), list(cells))

    def share(self, why: str) -> Partition:
        """Everybody on everything."""
        self.go(SHARED)
        self.say(f"everybody shares everything: {why}; {self.lack}")
        if self.violated and self.age > 0:
            self.narrow = True
        return shared_by_services(self.node, narrow=self.narrow)

    def part(self, cells: dict[str, Cell], to: Sequence[str]) -> Partition:
        """Cells, and what is left of the node for those in `to` until all is calm."""
        node = self.node
        self.aside = [name for name in self.aside if name in cells and cells[name].cores < self.wants[name].cores]
        self.go(SOME if self.aside else PARTED)
        found = spread_out(node, {name: cells[name] for name in self.services}, to)
        for name, cell in found.items():
            known, old = self.known[name], self.cells.get(name)
            if old is None:
                self.say(
                    f"{name}: {cell.cores} cores and {cell.ways} ways, of which it needs {self.wants[name].cores} and "
                    f"{self.wants[name].ways} (OAA {known.oaa[0]:.1f}, {known.oaa[1]:.1f}; RCliff {known.cliff[0]:.1f}, "
                    f"{known.cliff[1]:.1f}); {latency_text(self.services[name])}",
                    name, cell.cores,
                )  # fmt: skip
        return parted(node, found)

    def go(self, kind: str) -> None:
        """Run the node in that way from now on."""
        if kind != self.kind:
            self.kind, self.age, self.stuck, self.lowest = kind, 0, 0, None
        if kind != SOME:
            self.aside = []

    def hold(self) -> Partition:
        """Nothing to do."""
        before = self.node.observation.partition or self.before.wanted
        names = ", ".join(f"{n} {c.cores} cores, {c.ways} ways" for n, c in self.cells.items())
        self.say(f"held: {names}; {left_over(self.node, list(self.cells.values())).cores} cores are left")
        return parted(self.node, self.cells) if before is None else parted(self.node, self.cells)

    def said_change(self, name: str, cell: Cell, why: str) -> None:
        """Say what a service gets more."""
        old, known = self.cells[name], self.known[name]
        self.say(
            f"{name} {cell.cores - old.cores:+d} cores, {cell.ways - old.ways:+d} ways: {why}; OAA {known.oaa[0]:.1f} "
            f"cores, {known.oaa[1]:.1f} ways",
            name, cell.cores - old.cores,
        )

    def say(self, text: str, service: str | None = None, change: int = 0) -> None:
        """Add a reason."""
        self.reasons.append(Reason(text=text, service=service, resource="cores" if change else None, change=change))

    def state(self, wanted: Partition) -> OsmlState:
        """What the next decision has to know."""
        return OsmlState(
            known=self.known, kind=self.kind, age=self.age, scores=self.scores, aside=self.aside, calm=self.calm, stuck=self.stuck, lowest=self.lowest, narrow=self.narrow, wanted=wanted,
            violated_since_s=self.before.violated_since_s, time_s=self.node.observation.time_s,
        )  # fmt: skip

    def _price(self, cell: Cell) -> float:
        total = self.node.total
        return cell.cores / total.cores + (cell.ways / total.ways if total.ways else 0.0)


def _really(known: Known, service: Service) -> bool:
    """Whether a missed target is more than the noise of a tail that few requests made, or lasts."""
    latency_ms, target_ms = service.latency_ms, service.target_ms
    if not known.missed or latency_ms is None or target_ms is None or service.latency is None:
        return False
    samples = service.latency.samples
    tail = math.inf if samples is None else max(1.0, _BEYOND.get(service.percentile, 0.5) * samples)
    once = latency_ms > (1.0 + ONCE / math.sqrt(tail)) * target_ms
    return once or (known.settled >= SETTLE and (known.level or 0.0) > 1.0 + LASTING / math.sqrt(tail))


ONCE, LASTING = 1.0, 0.25
"""A tail of n requests has an error of about 0.3 / sqrt(n): three times that for one interval, twice for the mean."""

_BEYOND = {"p99": 0.01, "p95": 0.05}
"""Share of the requests that are slower than the percentile."""


def _smaller(one: Cell, other: Cell) -> Cell:
    return Cell(min(one.cores, other.cores), min(one.ways, other.ways))


def _stepped(known: Known, cell: Cell) -> Known:
    from msgspec.structs import replace

    return replace(known, before=(cell.cores, cell.ways), count=min(known.count, 1))
