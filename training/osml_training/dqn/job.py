"""`osml learn train c` without its command line: tuples, fitted Q, export, evaluation, registry."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from osml.base.failure import InputError
from osml.datasets.description import FileDescription, described
from osml.datasets.store import dataset_fingerprint, open_parquet, sha256, trace_files
from osml.predictors import FeatureSpec, ModelMetadata, OutputSpec, load_q_function
from osml.predictors.actions import ACTION_NAMES
from osml_training.collect.variants import is_variant
from osml_training.dqn import offline
from osml_training.dqn.attempts import attempts_of
from osml_training.dqn.config import OfflineConfig, read_offline_config, shipped_offline_config
from osml_training.dqn.evaluate import EVALUATION_SEED, check_before, evaluate, fresh_surfaces
from osml_training.dqn.export import write_q_bundle
from osml_training.dqn.qnet import QNet
from osml_training.dqn.transitions import Keep, Transitions, read_transitions, runs_in_file, runs_of, transitions_of
from osml_training.export.bundle import rounded, unit_of
from osml_training.export.commit import commit
from osml_training.export.made import Made, command_line
from osml_training.export.publish import Judged, check_name, publish
from osml_training.tables.runs import NoExamplesError
from osml_training.train.splits import Part, chooses, for_data, for_rates, split_for


@dataclass(frozen=True)
class CJob:
    """One training from the command line. `data`: data sets, or one file of `osml learn data transitions`."""

    data: tuple[Path, ...]
    variant: str
    out: Path
    platform: str | None = None
    config: Path | None = None
    name: str | None = None
    version: str = "1"
    changes: dict[str, Any] = field(default_factory=lambda: {})
    track: str | None = None
    evaluate_on: tuple[Path, ...] | None = None

    def config_read(self) -> OfflineConfig:
        """The config with the changes."""
        return read_offline_config(self.config or shipped_offline_config(self.variant), self.changes)

    @property
    def from_file(self) -> bool:
        """Whether the tuples are in a file already."""
        return len(self.data) == 1 and self.data[0].is_file()


def tuples_of(job: CJob, config: OfflineConfig, part: Part = "train") -> Transitions:
    """The tuples of the runs of a part; those of `train` are learned from."""
    keep: Keep = chooses(part, config.split)
    if job.from_file:
        return read_transitions(job.data[0], keep)
    return transitions_of(job.data, keep, platform=job.platform, statuses=config.statuses, seed=config.seed)


def _judged(job: CJob, config: OfflineConfig, found: Transitions, warnings: list[str]) -> Transitions:
    """What several networks are judged by: the validation runs, or what they learned from where there are none."""
    try:
        return tuples_of(job, config, "validation")
    except NoExamplesError:
        warnings.append(
            f"the validation part has no run (split.validation is {config.split.validation:g}), so the choice among "
            f"{config.attempts} networks uses their training runs"
        )
        return found


def run_c_job(job: CJob, on_progress: Callable[[offline.Progress], None] | None = None) -> Made:
    """Train, export, evaluate the exported file on the held-out runs, write its folder and the manifest."""
    config = job.config_read()
    if job.name is not None:
        check_name(job.name)
    if job.track:
        from osml_training.registry.tracking import check_uri  # noqa: PLC0415

        check_uri(job.track)
    started = time.monotonic()
    real = _about(job.data).provenance.kind == "real"
    runs = runs_in_file(job.data[0]) if job.from_file else runs_of(job.data, job.platform)
    split = split_for(runs, for_rates(for_data(config.split, real=real)))
    config = msgspec.structs.replace(config, split=split)
    found = tuples_of(job, config)
    platform = found.runs[0].platform
    if job.from_file and job.evaluate_on is None:
        _check_can_be_swept(platform, real=real)
    else:
        check_before(job.evaluate_on or job.data, config, platform)
    warnings: list[str] = []
    judged = _judged(job, config, found, warnings) if config.attempts > 1 else None
    read_s = time.monotonic() - started
    attempts = attempts_of(found, judged, config, on_progress)
    net = attempts[0].net
    seconds = sum(progress.seconds for one in attempts for progress in one.done)
    learned = sum(progress.tuples for one in attempts for progress in one.done)
    told: dict[str, Any] = {
        "statuses": len(found.states),
        "tuples": found.tuples,
        "learned_tuples": learned,
        "tuples_per_s": round(learned / max(seconds, 1e-9)),
        "read_s": round(read_s, 2),
        "fit_s": round(seconds, 2),
        "earned_by_seed": {str(one.seed): one.earned for one in attempts if one.earned is not None},
        "variants": len({key.service for key in found.runs if is_variant(key.service)}),
    }
    name = job.name or f"c-{config.variant}-{found.runs[0].platform}"
    first = describe(net, found, job.data, config, name=name, version=job.version)
    judged_on = job.evaluate_on or ((fresh_surfaces(platform, EVALUATION_SEED),) if job.from_file else job.data)

    def evaluated(folder: Path) -> Judged:
        document = evaluate(load_q_function(folder), judged_on, platform=platform)
        metrics = {key: document[key] for key in ("rows", "falls_refused")} | {"learning": told}
        return msgspec.structs.replace(first, metrics=metrics), document

    done = publish(partial(write_q_bundle, net), first, job.out, evaluated)
    warnings += done.warnings
    if job.track:
        from osml_training.registry.tracking import Curve, Point, track_curve  # noqa: PLC0415 - MLflow takes seconds

        curve = Curve([Point(progress.updates, {"loss": progress.loss}) for progress in attempts[0].done])
        warnings += track_curve(job.track, curve, done.metadata, done.folder)
    return Made(done.folder, done.document | {"learning": told}, warnings)


def _check_can_be_swept(platform: str, *, real: bool) -> None:
    """InputError before the training where there is nothing to evaluate it on: tuples alone are no surfaces."""
    from osml.simulator import catalogs  # noqa: PLC0415 - compiled code

    if real or platform not in catalogs.platform_names():
        raise InputError(
            f"--evaluate-on is missing, expected the data set of '{platform}' that the transitions are from: only "
            "virtual nodes of the catalog can be swept again"
        )


def describe(
    net: QNet,
    found: Transitions,
    data: Sequence[Path],
    config: OfflineConfig,
    *,
    name: str,
    version: str,
    parent: str | None = None,
) -> ModelMetadata:
    """What is to be said of a Model-C."""
    features: list[FeatureSpec] = []
    for feature in config.inputs:
        values = found.column(feature)
        known = values[np.isfinite(values)]
        low, high = np.percentile(known, (1, 99)) if len(known) else (0.0, 0.0)
        features.append(FeatureSpec(feature, unit_of(feature), rounded(low), rounded(high), net.masked))
    return ModelMetadata(
        name=name,
        version=version,
        kind="c",
        variant=config.variant,
        platforms=[found.runs[0].platform],
        services=sorted({key.service for key in found.runs if not is_variant(key.service)}),
        features=features,
        outputs=[OutputSpec(action, None) for action in ACTION_NAMES],
        margins={},
        simulated=_about(data).provenance.kind == "virtual",
        dataset_fingerprint=fingerprint(data),
        commit=commit(),
        seed=config.seed,
        command=command_line(),
        licence="Apache-2.0",
        parent=parent,
        training=msgspec.to_builtins(config),
    )


def _about(data: Sequence[Path]) -> FileDescription:
    file = data[0] if data[0].is_file() else trace_files(data[0])[0]
    return described(open_parquet(file).schema_arrow.metadata, str(file))


def fingerprint(data: Sequence[Path]) -> str:
    """One checksum over data sets, in their order, or over a file of tuples."""
    sums = [sha256(path) if path.is_file() else dataset_fingerprint(path) for path in data]
    return sums[0] if len(sums) == 1 else hashlib.sha256(" ".join(sums).encode()).hexdigest()
