"""What measurement noise alone does to the labels: an error that no predictor can go below, however good it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from osml.failure import InputError
from osml_training.data.collect import collect_labelled, read_description
from osml_training.data.store import labels_file, open_parquet, trace_files
from osml_training.data.sweep import MAX_NEIGHBOURS, Sweep

_LABELS = ("rcliff_cores", "rcliff_ways", "oaa_cores", "oaa_ways")


def twin_sweep(dataset: Path, platform: str) -> Sweep:
    """The sweep of a collected data set again, without noise: the same runs. InputError where it was not simulated."""
    files = trace_files(dataset, (platform,))
    provenance = read_description(dataset).provenance
    if provenance.kind != "virtual" or provenance.seed is None:
        raise InputError(f"data set '{dataset}' was not simulated: its noise-free twin is not known")
    services = tuple(sorted({file.parent.name.removeprefix("service=") for file in files}))
    rows = sum(open_parquet(file).metadata.num_rows for file in files)
    settings = provenance.settings
    samples = int(settings["samples"])
    sweep = Sweep(
        (platform,), services, tuple(settings["neighbours"]), tuple(settings["jobs"]), tuple(settings["loads"]),
        tuple(settings["threads"]), int(settings["colocated"]), rows, samples, interval_s=float(settings["interval_s"]),
        warmup_s=float(settings["warmup_s"]), noise=False, seed=provenance.seed,
        most_neighbours=int(settings.get("most_neighbours", MAX_NEIGHBOURS)),
    )  # fmt: skip
    return replace(sweep, samples=1, rows=max(1, rows // samples))


def _labels(dataset: Path, platform: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for traces in trace_files(dataset, (platform,)):
        table = open_parquet(labels_file(dataset, traces)).read(columns=["run", "service", "load", *_LABELS])
        found |= {row["run"]: row for row in table.to_pylist()}
    return found


def label_noise(dataset: Path, platform: str, into: Path) -> dict[str, Any]:
    """Mean absolute difference of the labels of noisy runs and of the same runs without noise, by label.

    `runs` were labelled in both, `only_noisy` and `only_clean` in one: at the edge of what a machine can carry noise
    decides whether there is an OAA at all. `into` keeps the twin.
    """
    twin = collect_labelled(into, twin_sweep(dataset, platform))
    noisy, clean = _labels(dataset, platform), _labels(twin, platform)
    both = [run for run in noisy if run in clean]

    def whole(row: dict[str, Any]) -> bool:
        return all(row[name] is not None for name in _LABELS)

    pairs = [(noisy[run], clean[run]) for run in both if whole(noisy[run]) and whole(clean[run])]
    if not pairs:
        raise InputError(f"data set '{dataset}' and its noise-free twin have no labelled run in common")
    return {
        "runs": len(pairs),
        "only_noisy": sum(whole(noisy[run]) and not whole(clean[run]) for run in both),
        "only_clean": sum(whole(clean[run]) and not whole(noisy[run]) for run in both),
        "mae": {name: round(float(np.mean([abs(a[name] - b[name]) for a, b in pairs])), 4) for name in _LABELS},
    }
