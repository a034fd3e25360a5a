"""Runs the policy `osml` on many different nodes, and asks their equations what other cells would bring.

Simulated. Cells are changed at random now and then, so that the model sees more than the policy's own choice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from osml.allocation.policy import Plan
from osml.domain import Observation
from osml.policies.osml import Osml
from osml.policies.osml.answers.outlook import LEAST_SHOWN, Situation, outlook_rows
from osml.policies.osml.facts import Facts
from osml.policies.osml.layout import cells_of, partition_of
from osml.policies.osml.memory.state import CELLS, OsmlState
from osml.policies.osml.node import Cell
from osml.predictors.outlook import OUTLOOK_INPUTS
from osml.simulator.closed_loop import ClosedLoop
from osml.simulator.oracle.partitions import Evaluator
from osml.simulator.state import Node
from osml.simulator.variation.conditions import CONDITIONS
from osml.simulator.variation.draw import drawn
from osml.simulator.variation.loads import changing_loads

LEARNED: Mapping[str, int] = {
    "nominal": 1, "node-30": 1, "node-50": 2, "drift": 2, "counters-30": 1, "noise": 1, "sampled": 2, "late": 2,
    "blind": 1, "cpu-time": 1, "machines": 2, "real": 3, "real-hard": 4,
}  # fmt: skip
"""Conditions that nodes are drawn under, with their weights. All others of `CONDITIONS` are not learned."""

FIRST_SEED = 50_000
"""Of the nodes that are learned from; the suites draw theirs from 0 on."""

SECONDS, ASK_EVERY_S, SERVICES = 360, 6, 4
JOBS_SHARE, STIRRED = 0.7, 0.06
"""Nodes with a best-effort job; intervals in which a cell is changed at random."""
STEPS = (-6, -4, -3, -2, -1, 0, 1, 2, 3, 5)
WAY_STEPS = (-2, 2)
_STIR_CORES, _STIR_WAYS = (-4, -3, -2, -1, -1, 1, 2, 3), (0, 0, 0, -2, 2)
_CHANGES_S = (60.0, 120.0, 400.0)
_MOST_LEVEL = 50.0


class Rows(NamedTuple):
    """One node: inputs (rows, len(OUTLOOK_INPUTS)), log(latency over target) as `level`, and its prior (rows,)."""

    seed: int
    condition: str
    platform: str
    beside_jobs: bool
    inputs: np.ndarray[tuple[int, int], np.dtype[np.float32]]
    prior: np.ndarray[tuple[int], np.dtype[np.float64]]
    level: np.ndarray[tuple[int], np.dtype[np.float64]]
    steps: np.ndarray[tuple[int], np.dtype[np.int64]]


def collect(nodes: int, first: int, workers: int) -> Iterator[Rows]:
    """The rows of so many nodes, of seeds from `first` on, in their order. Nodes without a cell have no rows."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(rows_of, range(first, first + nodes))


def rows_of(seed: int) -> Rows:
    """One node for SECONDS: the same seed gives the same rows."""
    rng = np.random.default_rng([seed, 5])
    weights = np.array(list(LEARNED.values()), float)
    condition = str(rng.choice(list(LEARNED), p=weights / weights.sum()))
    beside_jobs = bool(rng.random() < JOBS_SHARE)
    variant = drawn(CONDITIONS[condition], seed, beside_job=beside_jobs)
    policy, every_s = _Stirring(rng), float(rng.choice(_CHANGES_S))
    loop = ClosedLoop(
        variant.node, changing_loads(variant, SECONDS, (0.5 * every_s, 1.5 * every_s)), policy, seed=seed, delay_s=0.1,
        tolerant=True, drift=variant.drift, sensors=variant.sensors,
    )  # fmt: skip
    inputs: list[np.ndarray[tuple[int, int], np.dtype[np.float32]]] = []
    prior, level, steps = list[float](), list[float](), list[int]()
    for second in range(SECONDS):
        began_s, loads = loop.time_s, loop.loads_now()
        loop.step()
        facts = policy.facts
        if second % ASK_EVERY_S != ASK_EVERY_S // 2 or facts is None or facts.way != CELLS:
            continue
        node = variant.node if variant.drift is None else variant.drift.node(variant.node, began_s)
        for situation, cells, levels in _asked(facts, Evaluator(node, loads)):
            rows, priors = outlook_rows(situation, cells)
            inputs.append(rows)
            prior += priors.tolist()
            level += levels
            steps += [cell.cores - situation.cell.cores for cell in cells]
    return Rows(
        seed, condition, variant.node.platform.id, beside_jobs,
        np.concatenate(inputs) if inputs else np.empty((0, len(OUTLOOK_INPUTS)), np.float32),
        np.array(prior), np.array(level), np.array(steps, np.int64),
    )  # fmt: skip


class _Stirring(Osml):
    """The policy, with a cell changed at random now and then. `facts` are those of the last decision."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__()
        self._rng, self.facts = rng, None

    facts: Facts | None

    def decide(self, observation: Observation, state: OsmlState) -> tuple[Plan, OsmlState]:
        """The policy's decision; where it changes nothing, now and then another cell for one service."""
        plan, after = super().decide(observation, state)
        facts = self.facts
        if facts is None or facts.way != CELLS or self._rng.random() >= STIRRED:
            return plan, after
        if cells_of(plan.partition, facts.node) != facts.cells:
            return plan, after
        name = str(self._rng.choice(sorted(facts.cells)))
        cores, ways = int(self._rng.choice(_STIR_CORES)), int(self._rng.choice(_STIR_WAYS))
        old = facts.cells[name]
        cells = facts.cells | {name: facts.node.bounded(name, old.cores + cores, old.ways + ways)}
        room = facts.node.for_lc
        if sum(c.cores for c in cells.values()) > room.cores or sum(c.ways for c in cells.values()) > room.ways:
            return plan, after
        stirred = partition_of(observation, facts.node, cells)
        return replace(plan, partition=stirred), replace(after, wanted=stirred)

    def _known(self, facts: Facts) -> Facts:
        self.facts = facts
        return facts


def _asked(facts: Facts, truth: Evaluator) -> Iterator[tuple[Situation, list[Cell], list[float]]]:
    """For each service that can be asked about: cells near to its own, and the level that the node's equations say."""
    names = [service.name for service in truth.node.services]
    if any(name not in facts.cells for name in names):
        return
    for name in names[:SERVICES]:
        situation = facts.situation(name)
        if facts.tracks[name].past.latencies < LEAST_SHOWN:
            continue
        cells, levels = list[Cell](), list[float]()
        for cell in _near(facts, name):
            level = _level(facts, truth, names, name, cell)
            if level is not None:
                cells.append(cell)
                levels.append(level)
        if cells:
            yield situation, cells, levels


def _near(facts: Facts, name: str) -> list[Cell]:
    old = facts.cells[name]
    found = [Cell(old.cores + step, old.ways) for step in STEPS]
    found += [Cell(old.cores, old.ways + step) for step in WAY_STEPS if facts.node.has_ways]
    return [cell for cell in found if cell.cores > 0 and cell == facts.node.bounded(name, *cell)]


def _level(facts: Facts, truth: Evaluator, names: list[str], name: str, cell: Cell) -> float | None:
    """log(latency over target) with this cell and all others as they are; None where that does not fit."""
    node: Node = truth.node
    cells = facts.cells | {name: cell}
    rows = [[round(cells[one].cores * facts.quantum), max(1, cells[one].ways)] for one in names]
    cores, ways = (sum(row[k] for row in rows) for k in (0, 1))
    least = 1 if node.jobs else 0
    if cores > node.platform.cpus - least or ways > node.platform.ways - least:
        return None
    if node.jobs:
        rows.append([node.platform.cpus - cores, node.platform.ways - ways])
    at = names.index(name)
    tail = truth(np.array(rows, np.int64)).tails_ms[at] / node.services[at].target_ms
    return math.log(min(max(tail, 1e-3), _MOST_LEVEL))
