"""`osml learn train MODEL` without its command line: train, export, evaluate what was exported, store, track."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from osml.base.failure import InputError
from osml.predictors import load_predictor
from osml.predictors.metadata import platform_for
from osml_training.evaluate.evaluate import evaluate
from osml_training.export.bundle import describe, write_bundle
from osml_training.export.made import Made, command_line
from osml_training.export.parity import graph_limit
from osml_training.export.publish import Judged, check_name, publish
from osml_training.tables.features import Model
from osml_training.train import loop
from osml_training.train.config import CONFIGS, Config, Variant, read_config
from osml_training.train.splits import for_data, split_for
from osml_training.train.table import is_real, runs_of, source_of
from osml_training.train.train import train


@dataclass(frozen=True)
class Job:
    """One training from the command line; None is the default of the command (`workers`: 2 with Ray, else 1)."""

    dataset: Path
    model: Model
    variant: Variant
    out: Path
    platform: str | None = None
    config: Path | None = None
    name: str | None = None
    version: str = "1"
    changes: dict[str, Any] = field(default_factory=lambda: {})
    track: str | None = None
    ray: str | None = None
    workers: int | None = None

    def config_read(self) -> Config:
        """The config with the changes; InputError where it is of another model."""
        found = read_config(self.config or CONFIGS / f"{self.model}-{self.variant}.yaml", self.changes)
        if found.model != self.model:
            raise InputError(f"config {self.config}: model is '{found.model}', expected '{self.model}'")
        return found


def run_job(job: Job, on_progress: Callable[[loop.Epoch], None] | None = None) -> Made:
    """Train, export, evaluate the exported file on the held-out runs, write its folder and the manifest."""
    config = job.config_read()
    if job.name is not None:
        check_name(job.name)
    if job.track:
        from osml_training.registry.tracking import check_uri  # noqa: PLC0415

        check_uri(job.track)
    platforms = (job.platform,) if job.platform else None
    runs = runs_of(source_of(job.dataset, config, None, platforms=platforms))
    split = split_for(runs, for_data(config.split, real=is_real(job.dataset)))
    config = msgspec.structs.replace(config, split=split)

    if job.ray is not None:
        from osml_training.train.on_ray import train_on_ray  # noqa: PLC0415 - Ray takes seconds to load

        trained = train_on_ray(
            job.dataset,
            config,
            platforms=platforms,
            workers=job.workers or 2,
            address=job.ray,
            storage=job.out / ".ray",
            graph=graph_limit,
        )
    else:
        trained = train(
            job.dataset,
            config,
            platforms=platforms,
            on_progress=on_progress,
            graph=graph_limit,
            workers=job.workers or 1,
        )
    name = job.name or f"{config.model}-{config.variant}-{job.platform or platform_for(trained.platforms)}"
    first = describe(trained, job.dataset, name=name, version=job.version, command=command_line(), metrics={})

    def judged(folder: Path) -> Judged:
        document = evaluate(load_predictor(folder), job.dataset, platforms=platforms)
        told = {key: document[key] for key in ("rows", "coverage", "coverage_unseen", "hidden_counters")}
        return msgspec.structs.replace(first, metrics=first.metrics | told), document

    done = publish(partial(write_bundle, trained), first, job.out, judged)
    warnings = [*trained.warnings, *done.warnings]
    if job.track:
        from osml_training.registry.tracking import track  # noqa: PLC0415 - MLflow takes seconds to load

        warnings += track(job.track, trained, done.metadata, done.folder)
    return Made(done.folder, done.document, warnings)
