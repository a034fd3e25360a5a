"""A judged candidate takes the place of the champion, or stays out of it."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch's own annotations have gaps.
from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from osml.base.failure import Failure
from osml.base.masking import masked
from osml.experiences.address import store_url, told
from osml.predictors import ManifestEntry, ModelMetadata, load_manifest
from osml.predictors.model_check import open_checked
from osml_training.dqn.export import write_q_bundle
from osml_training.dqn.qnet import QNet
from osml_training.export.bundle import entry_of
from osml_training.export.commit import commit
from osml_training.export.made import command_line
from osml_training.export.model_folder import locked
from osml_training.learning.candidates import Losses
from osml_training.learning.champion_alias import champion_version, move_champion, register
from osml_training.learning.compare_candidates import Verdict
from osml_training.learning.config import LearningConfig
from osml_training.learning.exchange import Promotion, check_champion, exchange, place
from osml_training.registry.tracking import absolute, registered_name

OnProgress = Callable[[str], None]


@dataclass(frozen=True)
class LearnJob:
    """One run. `track` is MLflow's address, None without it; `offline` a file of `osml learn data transitions`.

    A dry run reads, learns and judges, and writes nothing anywhere.
    """

    store: str
    platform: str
    models: Path
    config: LearningConfig = field(default_factory=LearningConfig)
    track: str | None = None
    offline: Path | None = None
    dry_run: bool = False


class Judged(NamedTuple):
    """A candidate with what is known of it; `champion` is the manifest's line on whom it was judged against."""

    champion: ManifestEntry
    champion_metadata: ModelMetadata
    candidate: QNet
    verdict: Verdict
    metrics: dict[str, Any]
    losses: Losses


def hand_over(job: LearnJob, judged: Judged, warnings: list[str], on_progress: OnProgress) -> dict[str, Any]:
    """Export the candidate and check the file as a server does; promote it, or keep it out of the models."""
    old, verdict, metrics = judged.champion_metadata, judged.verdict, judged.metrics
    with tempfile.TemporaryDirectory() as scratch, contextlib.nullcontext() if job.dry_run else locked(job.models):
        name, version = _next(job.models, old)
        metadata = msgspec.structs.replace(
            old,
            name=name,
            version=version,
            parent=old.name,
            command=command_line(),
            commit=commit(),
            seed=job.config.seed,
            dataset_fingerprint=metrics["fingerprint"],
            metrics={"rows": [], "online": metrics},
        )
        folder = write_q_bundle(judged.candidate, metadata, Path(scratch) / name)
        open_checked(folder.parent, entry_of(folder, metadata))
        told_of: dict[str, Any] = {"candidate": name, "version": version, "warnings": warnings}
        if job.dry_run:
            return told_of
        url = store_url(job.store)
        store = None if url is None else told(url)
        promotion = Promotion(name, "c", job.platform, old.name, "", "", verdict.reasons, store=store)
        if job.track is not None:
            on_progress("storing in MLflow")
            promotion = _register(job.track, promotion, metadata, judged.losses, folder, warnings)
        if not verdict.promote:
            return told_of
        check_champion(job.models, judged.champion)
        entry = entry_of(folder, metadata)
        place(folder, job.models / name)
        try:
            done = exchange(job.models, entry, judged.champion, promotion)
        except BaseException:
            # Where the manifest can't be read, it may name the folder, which stays. What went wrong first is raised.
            with contextlib.suppress(Failure, OSError):
                if entry not in load_manifest(job.models).models:
                    shutil.rmtree(job.models / name, ignore_errors=True)
            raise
        if job.track is not None and done.registered is not None:
            try:
                move_champion(job.track, done.registered, done.version)
            except Failure as failure:
                warnings.append(f"the alias champion did not move ({failure})")
    return told_of | {"promoted": True, "folder": str(job.models / name)}


def _register(
    uri: str,
    promotion: Promotion,
    metadata: ModelMetadata,
    losses: Losses,
    folder: Path,
    warnings: list[str],
) -> Promotion:
    try:
        before = champion_version(uri, registered_name(metadata))
        version = register(uri, metadata, losses, folder)
    except Failure as failure:
        warnings.append(f"the run is not stored in MLflow ({failure})")
        return promotion
    return msgspec.structs.replace(
        promotion,
        uri=masked(absolute(uri)),
        registered=registered_name(metadata),
        version=version,
        champion_before=before,
    )


def _next(models: Path, champion: ModelMetadata) -> tuple[str, str]:
    """Name and version of a candidate: those after the champion's that no folder has yet."""
    number = int(champion.version) + 1 if champion.version.isdigit() else 2
    while (models / f"c-online-{champion.platforms[0]}-{number}").exists():
        number += 1
    return f"c-online-{champion.platforms[0]}-{number}", str(number)
