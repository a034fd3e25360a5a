"""What measurement noise alone does to the labels: an error that no predictor can go below, however good it is."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.datasets.dataset import read_description
from osml.datasets.store import open_parquet, trace_files
from osml_training.collect.collect import collect_labelled
from osml_training.collect.fresh_sweep import node_digest
from osml_training.collect.sweep import MAX_NEIGHBOURS, Sweep
from osml_training.evaluate.surfaces import read_labels
from osml_training.tables.example_rows import DEPRIVED, RunLabels
from osml_training.tables.examples import WINDOWS
from osml_training.tables.features import OUTPUTS, Model

Floats = NDArray[np.float64]


def twin_sweep(dataset: Path, platform: str) -> Sweep:
    """The sweep of a collected data set again, without noise: the same runs. InputError where it was not simulated."""
    files = trace_files(dataset, (platform,))
    provenance = read_description(dataset).provenance
    if provenance.kind != "virtual" or provenance.seed is None:
        raise InputError(f"data set '{dataset}' is not simulated, so the same runs without noise do not exist")
    made_by = provenance.settings.get("node", node_digest())  # older data sets do not say it
    if made_by != node_digest():
        raise InputError(
            f"data set '{dataset}' was made by another virtual node ({made_by}, now {node_digest()}): collect it again"
        )
    services = tuple(sorted({file.parent.name.removeprefix("service=") for file in files}))
    rows = sum(open_parquet(file).metadata.num_rows for file in files)
    settings = provenance.settings
    samples = int(settings["samples"])
    sweep = Sweep(
        (platform,),
        services,
        tuple(settings["neighbours"]),
        tuple(settings["jobs"]),
        tuple(settings["loads"]),
        tuple(settings["threads"]),
        int(settings["colocated"]),
        rows,
        samples,
        interval_s=float(settings["interval_s"]),
        warmup_s=float(settings["warmup_s"]),
        noise=False,
        seed=provenance.seed,
        most_neighbours=int(settings.get("most_neighbours", MAX_NEIGHBOURS)),
        unconfined=int(settings.get("unconfined", 0)),
    )
    return replace(sweep, samples=1, rows=max(1, rows // samples))


def label_noise(dataset: Path, platform: str, into: Path, model: Model = "a") -> dict[str, Any]:
    """Mean absolute difference of the labels of noisy runs and of the same runs without noise, by output of a model.

    For B and B' over all questions that both runs answer: cells near both OAAs, slowdowns or deprivations; of B, as in
    table 5, those whose label is not 0. `runs` were labelled in both, `only_noisy` and `only_clean` in one: at the edge
    of what a machine can carry noise decides whether there is an OAA at all. `into` keeps the twin.
    """
    twin = collect_labelled(into, twin_sweep(dataset, platform))
    noisy, clean = _labels(dataset, platform), _labels(twin, platform)
    both = [(noisy[run], clean[run]) for run in noisy if run in clean]
    pairs = [(a, b) for a, b in both if a.oaa is not None and b.oaa is not None]
    if not pairs:
        raise InputError(f"data set '{dataset}' and its noise-free copy have no common labelled run")
    differences = np.concatenate([label_differences(model, a, b) for a, b in pairs])
    return {
        "runs": len(pairs),
        "only_noisy": sum(a.oaa is not None and b.oaa is None for a, b in both),
        "only_clean": sum(a.oaa is None and b.oaa is not None for a, b in both),
        "mae": {
            name: round(float(np.nanmean(differences[:, k])), 4)
            for k, name in enumerate(OUTPUTS[model])
            if np.isfinite(differences[:, k]).any()
        },
    }


def _labels(dataset: Path, platform: str) -> dict[str, RunLabels]:
    return {found.key.run: found for found, _ in read_labels(dataset, (platform,))}


def label_differences(model: Model, noisy: RunLabels, clean: RunLabels) -> Floats:
    """Absolute differences of two labellings of a run, (questions, outputs), NaN where one has no answer."""
    if model in ("a", "a2"):
        return np.abs(noisy.cliff - clean.cliff)[None].astype(np.float64)
    window = WINDOWS[model]
    cells = np.argwhere(noisy.start_cells(window) & clean.start_cells(window)) + 1  # (cells, 2), from 1
    if model == "b":
        found = (
            [
                run.b_points(cells, noisy.slowdowns).reshape(-1, len(OUTPUTS["b"])).astype(np.float64)
                for run in (noisy, clean)
            ]
            if len(cells)
            else [np.empty((0, len(OUTPUTS["b"])))] * 2
        )
        unit = np.where(np.arange(len(OUTPUTS["b"])) % 2 == 0, noisy.unit, 1.0)  # core units to CPUs
        return np.where(found[0] == 0, np.nan, np.abs(found[0] - found[1]) * unit)
    taken = np.array(list(product(range(DEPRIVED + 1), repeat=2))[1:])
    left = np.maximum(cells[:, None] - taken[None], 1)  # (cells, deprivations, 2)

    def reduction(run: RunLabels) -> Floats:
        before = run.latency_ms[cells[:, 0] - 1, cells[:, 1] - 1][:, None]
        with np.errstate(divide="ignore"):
            return 100.0 * (1.0 - before / run.latency_ms[left[..., 0] - 1, left[..., 1] - 1])

    moved = (left != cells[:, None]).any(2)
    return np.abs(reduction(noisy) - reduction(clean))[moved][:, None]
