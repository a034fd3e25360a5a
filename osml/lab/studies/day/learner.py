"""A Model-C' that goes on learning on one node, from what an agent of that node sees."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osml.allocation.policy import Plan
from osml.domain import Observation
from osml.policies.osml import Osml
from osml.policies.osml.answers.models import Models
from osml.policies.osml.answers.outlook import LEAST_SHOWN, outlook_rows
from osml.policies.osml.facts import Facts
from osml.policies.osml.layout import cells_of
from osml.policies.osml.memory.state import CELLS, OsmlState
from osml.policies.osml.node import Cell
from osml.predictors import Prediction, Predictor
from osml.predictors.outlook import OUTLOOK_INPUTS

INPUTS = ("cpus_change", "ways_change", "utilisation", "wait_change", "offset_fast", "log_use", "log_settled")
"""Of a row of Model-C', by which its errors on this node may differ."""

_RIDGE = 10.0  # rows that say "no error": little data changes little
_ENOUGH_SAMPLES = 100.0  # a tail of fewer requests counts less
_SETTLED, _SEEN = 5, 9  # intervals after the decision that the label is the mean of; sensors may be two late
_NEAR = 1.0  # levels that are further from the target are of queues that grow
_KEPT = 20_000  # labels


class NodeOutlook(Predictor):
    """The shipped model with a linear correction of its median, fitted to the residuals of one node."""

    def __init__(self, model: Predictor) -> None:
        self._model, self.metadata = model, model.metadata
        self._at = [OUTLOOK_INPUTS.index(name) for name in INPUTS]
        self._weights: NDArray[np.float64] = np.zeros(len(INPUTS) + 1)
        self._rows: list[NDArray[np.float64]] = []
        self._errors: list[tuple[float, float]] = []

    @property
    def labels(self) -> int:
        """What it has learned from so far."""
        return len(self._errors)

    def predict(self, features: NDArray[Any]) -> Prediction:
        """Answers of the shipped model, moved by what the node has shown; the bounds are as wide as before."""
        told = self._model.predict(features)
        moved = told.points + (self._design(features) @ self._weights)[:, None]
        return Prediction(np.asarray(moved, np.float32), told.spread, told.metadata)

    def learn(self, row: NDArray[np.float32], less_prior: float, samples: float) -> None:
        """One label: log(latency over target) less the prior, seen in the cell of a row (inputs,)."""
        error = less_prior - float(self._model.predict(row[None, :]).points[0, 0])
        self._rows.append(self._design(row[None, :])[0])
        self._errors.append((error, min(1.0, samples / _ENOUGH_SAMPLES)))
        del self._rows[:-_KEPT], self._errors[:-_KEPT]

    def fit(self) -> None:
        """Weighted ridge regression over all labels."""
        if not self._rows:
            return
        design = np.array(self._rows)
        errors, weights = np.array(self._errors).T
        weighted = design.T * weights
        ridge = weighted @ design + _RIDGE * np.eye(design.shape[1])
        self._weights = np.asarray(np.linalg.solve(ridge, weighted @ errors), np.float64)

    def _design(self, features: NDArray[Any]) -> NDArray[np.float64]:
        chosen = np.nan_to_num(features[:, self._at].astype(np.float64))
        return np.concatenate([np.ones((len(chosen), 1)), chosen], axis=1)


@dataclass
class _Waiting:
    """A cell that was decided, until what it brings has been seen."""

    seq: int
    cell: Cell
    row: NDArray[np.float32]
    prior: float
    levels: float = 0.0
    samples: float = 0.0
    seen: int = 0


class LearningOsml(Osml):
    """The policy `osml` whose Model-C' learns from each cell that lasts, and is fitted anew every `every` intervals."""

    def __init__(self, models: Models, every: int) -> None:
        if models.c2 is None:
            raise ValueError("models has no Model-C', expected one to go on with")
        self.outlook, self._every = NodeOutlook(models.c2), every
        super().__init__(replace(models, c2=self.outlook))
        self._waiting: dict[str, list[_Waiting]] = {}
        self._facts: Facts | None = None

    def decide(self, observation: Observation, state: OsmlState) -> tuple[Plan, OsmlState]:
        """The policy's decision; besides, labels for what was decided before."""
        self._facts = None
        plan, after = super().decide(observation, state)
        facts = self._facts
        if facts is not None and facts.way == CELLS:
            self._see(facts)
            self._ask(facts, plan)
        if observation.seq % self._every == self._every - 1:
            self.outlook.fit()
        return plan, after

    def _known(self, facts: Facts) -> Facts:
        self._facts = facts
        return facts

    def _see(self, facts: Facts) -> None:
        """What this interval says of cells that were decided some intervals ago."""
        for name, waiting in self._waiting.items():
            service = facts.services.get(name)
            kept = [one for one in waiting if facts.cells.get(name) == one.cell]
            for one in kept:
                if service is None or service.latency_ms is None or service.target_ms is None:
                    continue
                if facts.observation.seq - one.seq >= _SETTLED:
                    samples = 1.0 if service.latency is None else max(1.0, float(service.latency.samples or 1))
                    one.levels += samples * math.log(max(service.latency_ms / service.target_ms, 1e-3))
                    one.samples, one.seen = one.samples + samples, one.seen + 1
            done = [one for one in kept if facts.observation.seq - one.seq >= _SEEN]
            for one in done:
                level = one.levels / one.samples if one.samples else math.inf
                if abs(level) < _NEAR:
                    self.outlook.learn(one.row, level - one.prior, one.samples / one.seen)
            self._waiting[name] = [one for one in kept if one not in done]

    def _ask(self, facts: Facts, plan: Plan) -> None:
        """Remember what is decided now, with the row that Model-C' would be asked."""
        for name, cell in cells_of(plan.partition, facts.node).items():
            if name in facts.cells and facts.tracks[name].past.latencies >= LEAST_SHOWN:
                rows, prior = outlook_rows(facts.situation(name), [cell])
                one = _Waiting(facts.observation.seq, cell, rows[0], float(prior[0]))
                self._waiting.setdefault(name, []).append(one)
