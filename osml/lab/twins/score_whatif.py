"""Part (b): what-if experiments whose truth is the hidden node's own outcome."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from osml.lab.twins.hidden import Hidden
from osml.lab.twins.truth import true_outcomes
from osml.records import Record
from osml.twin import edits
from osml.twin.document import Twin
from osml.twin.edits import Edit
from osml.twin.ensemble import Ensemble
from osml.twin.scenes import Scene
from osml.twin.whatif import changes, chosen_scenes, outcomes_of
from osml.twin.world import world_of

Ratios = dict[str, float]
PLAIN = 0.05
"""Changes of the truth that are smaller (as logarithms) have no sign worth asking for."""


@dataclass(frozen=True)
class Experiment:
    """A change, and whose load it multiplies by how much, if it does."""

    edit: Edit
    load: tuple[str, float] | None = None


def _more_load(name: str, factor: float) -> Experiment:
    return Experiment(edits.load(name, factor), (name, factor))


def experiments(twin: Twin, scenes: Sequence[Scene], seed: int) -> dict[str, Experiment]:
    """What is asked of a node: the same kinds for all, whom they concern drawn by seed."""
    rng = np.random.default_rng([seed, 7])
    ensemble = twin.ensemble
    world = world_of(ensemble, 0, scenes[0])
    targets = {one.name: one.target_ms for one in ensemble.tenants if one.target_ms is not None}
    service = str(rng.choice(world.services))
    other = str(rng.choice(world.services))
    found = {
        "remove a service": Experiment(edits.removed(service)),
        "load x 1.3": _more_load(other, 1.3),
        "load x 0.6": _more_load(other, 0.6),
        "own CPUs": Experiment(edits.own_cpus(world)),
        "own ways (CAT)": Experiment(edits.own_ways(world, targets)),
        "one generation newer": Experiment(edits.newer_cpu()),
        "a third of the CPUs": Experiment(edits.cpu_count(other, max(1, twin.ensemble.machine.cpus // 3))),
    }
    for job in world.jobs[:1]:
        found |= {
            "remove a job": Experiment(edits.removed(job)),
            "bandwidth of the job 20 % (MBA)": Experiment(edits.jobs_bandwidth(20.0)),
            "job on a third of the CPUs": Experiment(edits.cpu_count(job, max(1, twin.ensemble.machine.cpus // 3))),
            "quota of the job": Experiment(edits.quota(job, max(1.0, twin.ensemble.machine.cpus / 6))),
        }
    return found


def last_time(
    scenes: Sequence[Scene], chosen: Sequence[Scene], name: str, percentile: str, load: tuple[str, float] | None
) -> float:
    """The simple answer `last time`, as a logarithm: latency of the scene with the nearest load, over that of now.

    It knows of loads only, and of the service's own: 0 (no change) where another's load, or anything else, changes.
    """
    known = [scene for scene in scenes if percentile in scene.seen.get(name, {}) and scene.rates.get(name)]
    asked = [scene for scene in chosen if percentile in scene.seen.get(name, {}) and scene.rates.get(name)]
    if load is None or load[0] != name or not known or not asked:
        return 0.0
    total = 0.0
    for scene in asked:
        wanted = scene.rates[name] * load[1]
        nearest = min(known, key=lambda one: abs(math.log(one.rates[name] / wanted)))
        total += nearest.seen[name][percentile].log - scene.seen[name][percentile].log
    return total / len(asked)


def rows_of(one: Hidden, record: Record, twin: Twin, seed: int) -> list[dict[str, Any]]:
    """A row an experiment and tenant: logarithms of the true and the predicted change, and its bounds."""
    ensemble: Ensemble = twin.ensemble
    scenes = chosen_scenes(twin.scenes)
    rows: list[dict[str, Any]] = []
    before = outcomes_of(ensemble, scenes)
    truth = true_outcomes(one, record, scenes, [])
    for name, experiment in experiments(twin, scenes, seed).items():
        true = _true_ratios(one, record, scenes, truth, experiment.edit)
        for change in changes(ensemble, scenes, [experiment.edit], before=before):
            if change.name not in true or change.ratio is None or change.before is None:
                continue
            assert change.low is not None and change.high is not None  # noqa: S101 - both where there is a ratio
            percentile = ensemble.tenant(change.name).percentile
            rows.append({
                "seed": seed, "experiment": name, "name": change.name, "class": change.kind,
                "true": true[change.name], "twin": math.log(change.ratio),
                "low": math.log(change.low / change.before), "high": math.log(change.high / change.before),
                "own_load": experiment.load is not None and experiment.load[0] == change.name,
                "last_time": last_time(twin.scenes, scenes, change.name, percentile, experiment.load),
            })  # fmt: skip
    return rows


def _true_ratios(
    one: Hidden, record: Record, scenes: Sequence[Scene], before: Mapping[str, float], edit: Edit
) -> Ratios:
    """Logarithms of the hidden node's own changes."""
    after = true_outcomes(one, record, scenes, [edit])
    return {name: math.log(after[name] / before[name]) for name in after if name in before}


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Signs and sizes over rows; `signed` are those whose true change is plain."""
    plain = [row for row in rows if abs(row["true"]) > PLAIN]
    own_load = [row for row in plain if row["own_load"]]  # `last time` has nothing to say of other changes

    def share(found: Sequence[bool]) -> float | None:
        return float(np.mean(found)) if found else None

    def off(key: str) -> float | None:
        return float(np.median([abs(math.expm1(row[key] - row["true"])) for row in rows])) if rows else None

    return {
        "rows": len(rows), "experiments": len({(row["seed"], row["experiment"]) for row in rows}), "signed": len(plain),
        "sign_right": share([row["twin"] * row["true"] > 0 for row in plain]),
        "own_load_signed": len(own_load),
        "sign_right_own_load": share([row["twin"] * row["true"] > 0 for row in own_load]),
        "sign_right_last_time": share([row["last_time"] * row["true"] > 0 for row in own_load]),
        "within_bounds": share([row["low"] <= row["true"] <= row["high"] for row in rows]),
        "within_bounds_signed": share([row["low"] <= row["true"] <= row["high"] for row in plain]),
        "median_error": off("twin"), "median_error_last_time": off("last_time"),
        "median_error_no_change": float(np.median([abs(math.expm1(-row["true"])) for row in rows])) if rows else None,
    }  # fmt: skip
