"""The sweep, interval by interval: an observation in, a partition out. It knows neither agent nor clock nor file.

Look, then for each cell: settle, measure, and rest at the largest good cell after one that missed the target. Two rails
end a cell at once, also while it settles: a protected neighbour misses its target; the service is far beyond its own.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from statistics import fmean, median
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from osml.allocation.policy import Plan
from osml.datasets.store import FAR
from osml.datasets.surfaces import SURELY
from osml.domain import NOT_DONE, Observation, Partition, Reason, Service
from osml.policies.unmanaged import shared_by_all
from osml_training.live_sweep.design import Bools, Cell, Floats, every_cell, expected_cells, largest
from osml_training.live_sweep.journal import (
    Condition,
    FinishedCell,
    Measured,
    Refused,
    Result,
    Silent,
    Unsafe,
    told_of,
)
from osml_training.live_sweep.room import Room, room_of

Design = Callable[[Floats, float, Bools], Cell | None]
_SILENT = 3
"""Times that a new latency is due and does not come, after which the service counts as one that does not answer."""

_ASKED = 1.01 * SURELY
"""Requests that must have come by then, with room for the single precision of traces: else labels don't know it."""

_DUE = 3
"""New latencies that tell how often they come."""

_BAND, _STAYS = 1.25, 0.5
"""Where the load is what comes: a surface keeps its load up to half of this factor away, and then begins another."""


_TRIED = ("met", "missed", "silent")
"""States of cells that say something of the service."""

_CHANCES = 2
"""Times that a cell may be unsafe although a larger one was not."""


class Rails(Struct, frozen=True):
    """Intervals, and the limits that end a cell or the sweep."""

    look: int = 5  # before anything is changed
    settle: int = 2  # after each change
    samples: int = 5  # measured in each cell
    calm: int = 2  # of a rest: with all targets met
    patience: int = 60  # in a rest, or with somebody else's hand on the machine
    far: float = 5.0  # times its target: so slow ends a cell

    def cell_intervals(self) -> int:
        """About how long a cell takes, with its share of rests."""
        return self.settle + self.samples + self.calm


class Look(Struct, frozen=True):
    """Before a surface: the intervals that were seen, and which of them, from 1 on, had a new latency."""

    seen: tuple[Observation, ...] = ()
    new_at: tuple[int, ...] = ()


class Rest(Struct, frozen=True):
    """At a cell that the service can stay in: intervals of it, and those at the end with all targets met."""

    cell: Cell
    count: int = 0
    calm: int = 0


class Trial(Struct, frozen=True):
    """In a cell that is measured: new latencies, the intervals since the last one, and the intervals that count."""

    cell: Cell
    count: int = 0
    silent: tuple[Observation, ...] = ()
    intervals: tuple[Observation, ...] = ()


class WalkState(Struct, frozen=True):
    """Nothing travels with the agent: the walk itself remembers."""


class Walk:
    """The state of a sweep. `finished` are cells of earlier runs; `on_cell` keeps one, `on_load` sets the generator."""

    name = "sweep"
    version = 1
    whole_node = True

    State = WalkState

    def __init__(
        self,
        service: str,
        protected: frozenset[str],
        rails: Rails,
        conditions: list[Condition],
        finished: list[FinishedCell],
        on_cell: Callable[[FinishedCell], None],
        on_load: Callable[[float], None] = lambda _: None,
        *,
        design: Design,
    ) -> None:
        self.service, self.protected, self.rails = service, protected, rails
        self.ended: str | None = None  # why; None while it goes on
        self.complete = False  # all labels have what they need
        self.room: Room | None = None
        self._conditions, self._on_cell, self._on_load = conditions, on_cell, on_load
        self._design = design
        self._finished = list(finished)
        self._index = -1
        self._phase: Look | Rest | Trial = Look()
        self._due = 1  # intervals from one new latency to the next, at most
        self._rates: deque[float] = deque(maxlen=5)
        self._wanted = Partition([])
        self._odd = 0  # intervals in which the allocation is not in force
        self._last: tuple[Any, ...] | None = None
        self._band: float | None = None
        self._target_ms = math.inf
        self._next_condition()

    # -- as a policy -----------------------------------------------------------------------------------------------

    def initial(self, observation: Observation, seed: int) -> WalkState:
        """Nothing to remember."""
        del observation, seed
        return WalkState()

    def decide(self, observation: Observation, state: WalkState) -> tuple[Plan, WalkState]:
        """The allocation until the next observation."""
        partition, text = self.turn(observation)
        return Plan(partition, [Reason(text=f"sweep: {text}", service=self.service)]), state

    # -- what is known ---------------------------------------------------------------------------------------------

    @property
    def condition(self) -> Condition:
        """Of the surface that is being measured."""
        return self._conditions[self._index]

    def load(self) -> float | None:
        """Requests per second of the surface that is being measured; None where no rate is known."""
        if self.condition.load is not None:
            return self.condition.load
        if not self._rates:
            return None
        rate = median(self._rates)
        if self._band is None or abs(math.log(rate / self._band, _BAND)) > _STAYS:
            known = [c.offered_per_s for c in self._finished if c.offered_per_s and c.condition == self.condition]
            near = [load for load in known if abs(math.log(rate / load, _BAND)) <= _STAYS]
            self._band = near[0] if near else float(f"{rate:.4g}")
        return self._band

    def surface(self) -> Floats:
        """Latencies of the finished cells under the present condition and load, NaN where none was measured."""
        room = self._known_room()
        out = np.full(room.shape, np.nan)
        for cell in self._of_surface():
            if cell.state in _TRIED:
                out[cell.cell[0] - 1, cell.cell[1] - 1] = np.inf if cell.latency_ms is None else cell.latency_ms
        return out

    def _of_surface(self) -> list[FinishedCell]:
        load, condition = self.load(), self.condition
        here = [cell for cell in self._finished if (cell.condition, cell.offered_per_s) == (condition, load)]
        return [cell for cell in here if not _too_short(cell)]

    def progress(self) -> tuple[int, int]:
        """Cells measured and about how many all surfaces take together."""
        each = 1
        if self.room is not None:
            every = int(self.room.allowed().sum())
            each = every if self._design is every_cell else min(every, expected_cells(*self.room.shape))
        total = len(self._conditions) * each
        return len(self._finished), max(total, len(self._finished))

    def _known_room(self) -> Room:
        if self.room is None:
            raise RuntimeError("asked for a cell before the node was looked at")
        return self.room

    # -- one interval ----------------------------------------------------------------------------------------------

    def turn(self, observation: Observation) -> tuple[Partition, str]:
        """What shall be in force until the next observation, and why."""
        if self.ended is not None:
            return self._everybody(observation, self.ended)
        own = next((one for one in observation.services if one.name == self.service), None)
        if own is None:
            return self._end(observation, f"service '{self.service}' is not there any more")
        fresh = self._is_fresh(own)
        self._target_ms = own.target_ms or math.inf
        phase = self._phase
        if isinstance(phase, Look):
            return self._look(phase, observation, own, fresh)
        if observation.partition != self._wanted:
            return self._not_in_force(phase, observation)
        self._odd = 0
        troubled = self._troubled(observation)
        if isinstance(phase, Rest):
            return self._rest(phase, observation, own, fresh, troubled)
        return self._measure(phase, observation, own, fresh, troubled)

    def _look(self, phase: Look, observation: Observation, own: Service, fresh: bool) -> tuple[Partition, str]:
        """What there is, and how often its latency is a new one."""
        seen = (*phase.seen, observation)
        looked = len(seen)
        new_at = (*phase.new_at, looked) if fresh else phase.new_at
        self._phase = Look(seen, new_at)
        self._remember_rate(own)
        if looked < self.rails.look:
            return self._everybody(observation, f"looking at the node, {looked} of {self.rails.look}")
        if (own.latency_ms is None or len(new_at) < _DUE) and looked < self.rails.patience:
            return self._everybody(observation, f"waiting for {_DUE} new latencies of '{self.service}'")
        if own.latency_ms is None:
            why = observation.missing.get(f"latency.{self.service}", "its source says nothing")
            return self._end(observation, f"'{self.service}' has no latency: {why}")
        self._due = max((after - before for before, after in pairwise(new_at)), default=looked)
        most = self.rails.patience // (self.rails.calm + 1)  # a rest ends after `calm` of them
        if len(new_at) < _DUE or self._due > most:
            return self._end(
                observation,
                f"the latency of '{self.service}' was new {len(new_at)} times in {looked} intervals, expected at "
                f"least once in {most}: let its source write more often",
            )
        self.room = room_of(list(seen), self.service)
        return self._to_rest(observation)

    def _not_in_force(self, phase: Rest | Trial, observation: Observation) -> tuple[Partition, str]:
        """The agent could not do it, or somebody else did something."""
        outcome = observation.outcome
        if outcome is not None and outcome.status in NOT_DONE and isinstance(phase, Trial):
            return self._close(phase.cell, observation, Refused(f"the agent: {outcome.message}"))
        self._odd += 1
        self._phase = type(phase)(phase.cell)
        if self._odd > self.rails.patience:
            return self._end(observation, "another program changes the allocation, or the agent cannot apply it")
        return self._wanted, "waiting until the allocation is in force"

    def _rest(
        self, phase: Rest, observation: Observation, own: Service, fresh: bool, troubled: list[str]
    ) -> tuple[Partition, str]:
        count, calm = phase.count + 1, phase.calm
        met = own.slack is not None and own.slack >= 0
        if fresh and not troubled and (met or not self._good().any()):
            calm += 1
            if met:
                self._remember_rate(own)
        elif fresh or troubled:
            calm = 0
        self._phase = Rest(phase.cell, count, calm)
        if calm >= self.rails.calm:
            return self._go_on(observation)
        if troubled and not self._good().any() and count > self.rails.patience // 4:
            # It was never better than this: the neighbours need more than was thought.
            self._known_room().give(phase.cell, troubled, self.condition.mba)
            return self._to_rest(observation)
        if count > self.rails.patience:
            who = ", ".join(troubled) or f"'{self.service}'"
            return self._end(observation, f"{who} misses the target for {self.rails.patience} intervals of rest")
        return self._wanted, f"resting until all targets are met ({calm} of {self.rails.calm})"

    def _measure(
        self, phase: Trial, observation: Observation, own: Service, fresh: bool, troubled: list[str]
    ) -> tuple[Partition, str]:
        if troubled:
            return self._close(phase.cell, observation, Unsafe(f"{', '.join(troubled)} missed the target"))
        silent = () if fresh else (*phase.silent, observation)
        if self._has_fallen_silent(silent):
            quiet = tuple(_without_latency(one, self.service) for one in silent)
            unknown = "no answer; labels do not count it, for the load is not known"
            silence = Silent(unknown) if self.load() is None else Silent()
            return self._close(phase.cell, observation, silence, quiet)
        latency_ms, target_ms = own.latency_ms, self._target_ms
        if fresh and latency_ms is not None and latency_ms > self.rails.far * target_ms:
            why = f"{latency_ms:.4g} ms, {FAR} of {target_ms:g} ms"
            # It alone: labels take the mean of all intervals, and quick ones before it could make that meet the target.
            return self._close(phase.cell, observation, Measured(latency_ms, why), (observation,))
        count = phase.count + fresh
        counts = fresh and count > self.rails.settle
        intervals = (*phase.intervals, observation) if counts else phase.intervals
        if len(intervals) >= self.rails.samples:
            return self._close(phase.cell, observation, Measured(self._mean_ms(intervals)), intervals)
        self._phase = Trial(phase.cell, count, silent, intervals)
        left = self.rails.settle + self.rails.samples - count
        return self._wanted, f"cell {_text(phase.cell)}: {left} intervals left"

    def _has_fallen_silent(self, silent: tuple[Observation, ...]) -> bool:
        """Whether a latency was due often, and many requests came that nobody answered, as far as the load is known."""
        load = self.load()
        asked = load is None or load * sum(one.interval_s for one in silent) >= _ASKED
        return asked and len(silent) >= _SILENT * self._due

    # -- steps -----------------------------------------------------------------------------------------------------

    def _go_on(self, observation: Observation) -> tuple[Partition, str]:
        """To the next cell, the next condition, or the end."""
        cell = self._design(self.surface(), self._target_ms, self._may())
        if cell is None:
            if self._next_condition():
                return self._everybody(observation, "the next load or throttle")
            self.complete = True
            met = any(cell.state == "met" for cell in self._of_surface())
            text = "the labels need no more cells" if met else "no allocation that may be tried meets the target"
            return self._end(observation, f"complete: {text}")
        return self._to(Trial(cell), f"cell {_text(cell)}")

    def _may(self) -> Bools:
        """Cells that may be tried: neither refused nor unsafe.

        Where a cell was unsafe, larger ones leave the neighbours even less. If one of them was measured without a miss,
        the miss had another cause: the cell gets another chance.
        """
        allowed = self._known_room().allowed()
        closed = [(one, (one.cell[0] - 1, one.cell[1] - 1)) for one in self._of_surface()]
        measured = [cell for one, cell in closed if one.state in _TRIED]
        unsafe = [cell for one, cell in closed if one.state == "unsafe"]
        for one, cell in closed:
            if one.state == "refused" or unsafe.count(cell) >= _CHANCES:
                allowed[cell] = False
        for row, column in unsafe:
            if not any(cores >= row and ways >= column for cores, ways in measured):
                allowed[row:, column:] = False
        return allowed

    def _close(
        self, cell: Cell, observation: Observation, result: Result, intervals: tuple[Observation, ...] = ()
    ) -> tuple[Partition, str]:
        """A cell has ended: keep it, then rest or go on."""
        state, latency_ms, why = told_of(result, self._target_ms)
        if state == "met":
            for interval in intervals:
                self._remember_rate(_own(interval, self.service))
        plain = [msgspec.structs.replace(one, policy_state=None) for one in intervals]
        place = cell[0] + 1, cell[1] + 1
        finished = FinishedCell(place, state, self.condition, self.load(), latency_ms, why, plain)
        self._finished.append(finished)
        self._on_cell(finished)
        if state == "met":
            return self._go_on(observation)
        return self._to_rest(observation)

    def _good(self) -> Bools:
        """Measured cells that meet the target and may be used."""
        return (self.surface() <= self._target_ms) & self._may()

    def _to_rest(self, observation: Observation) -> tuple[Partition, str]:
        """The largest good cell; the largest that may be tried as long as none is known."""
        good, may = self._good(), self._may()
        rest = largest(good if good.any() else may)
        if rest is None:
            return self._end(observation, "the neighbours need the whole node: no allocation of the service is safe")
        return self._to(Rest(rest), f"rest at {_text(rest)}")

    def _to(self, phase: Rest | Trial, text: str) -> tuple[Partition, str]:
        self._phase = phase
        self._wanted = self._known_room().partition(phase.cell, self.condition.mba)
        return self._wanted, text

    def _next_condition(self) -> bool:
        if self._index + 1 >= len(self._conditions):
            return False
        self._index += 1
        self._phase = Look()
        self._rates.clear()
        if self.condition.load is not None:
            self._on_load(self.condition.load)
        return True

    def _end(self, observation: Observation, why: str) -> tuple[Partition, str]:
        self.ended = why
        return self._everybody(observation, why)

    def _everybody(self, observation: Observation, text: str) -> tuple[Partition, str]:
        self._wanted = shared_by_all(observation)[0]
        return self._wanted, text

    # -- small things ----------------------------------------------------------------------------------------------

    def _is_fresh(self, own: Service) -> bool:
        """Whether the latency is a new one: a source that is slower than the agent is read twice."""
        latency = own.latency
        now = None if latency is None else msgspec.structs.astuple(msgspec.structs.replace(latency, age_s=None))
        fresh = now is not None and own.latency_ms is not None and now != self._last
        self._last = now
        return fresh

    def _troubled(self, observation: Observation) -> list[str]:
        """Protected neighbours that miss their targets."""
        return [
            one.name
            for one in observation.services
            if one.name in self.protected and one.name != self.service and one.slack is not None and one.slack < 0
        ]

    def _remember_rate(self, own: Service) -> None:
        rate = None if own.latency is None else own.latency.requests_per_s
        if rate:
            self._rates.append(rate)

    def _mean_ms(self, intervals: tuple[Observation, ...]) -> float:
        found = [_own(one, self.service).latency_ms for one in intervals]
        return fmean(value for value in found if value is not None)


def _own(observation: Observation, service: str) -> Service:
    return next(one for one in observation.services if one.name == service)


def _too_short(cell: FinishedCell) -> bool:
    """Whether labels don't know the silence of a cell: older versions kept an interval of it."""
    if cell.state != "silent" or cell.offered_per_s is None:
        return False
    return cell.offered_per_s * sum(one.interval_s for one in cell.intervals) < SURELY


def _without_latency(observation: Observation, service: str) -> Observation:
    """An interval in which nothing was answered: the latency in it is an old one."""
    services = [
        msgspec.structs.replace(one, latency=None) if one.name == service else one for one in observation.services
    ]
    return msgspec.structs.replace(observation, services=services)


def _text(cell: Cell) -> str:
    return f"({cell[0] + 1} core units, {cell[1] + 1} ways)"
