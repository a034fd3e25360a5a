"""`osml train c --online` and `osml models rollback c` without their command lines."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch's own annotations have gaps.
from __future__ import annotations

import hashlib
import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from osml_serving.experience_store.address import open_engine, store_url, told
from osml_serving.experience_store.outcome import StoreError
from osml_serving.experience_store.store import Store
from osml_serving.model_check import open_checked

from osml.failure import Failure, InputError
from osml.predictors import Manifest, ModelMetadata, find_model, load_manifest, read_metadata
from osml_training.dqn.export import load_qnet, write_q_bundle
from osml_training.dqn.qnet import QNet
from osml_training.dqn.transitions import Tuples, read_transitions, sample_tuples
from osml_training.export.bundle import commit, entry_of
from osml_training.jobs.training import command_line
from osml_training.learning.candidates import Losses, candidates_of
from osml_training.learning.champion_alias import champion_version, move_champion, register
from osml_training.learning.config import LearningConfig, gamma_of, reward_of
from osml_training.learning.exchange import (
    Promotion,
    exchange,
    first_replaced,
    last_promotion,
    locked,
    place,
    take_back,
)
from osml_training.learning.judgement import HeldOut, Verdict, Virtual, choose, judge, on_held_out, on_virtual_node
from osml_training.learning.recorded import Recorded, recorded
from osml_training.learning.rollbacks import note_rollback, taken_back_at
from osml_training.registry.tracking import registered_name

OFFLINE_TUPLES = 200_000
Heard = Callable[[str], None]


@dataclass(frozen=True)
class LearnJob:
    """One run. `track` is MLflow's address, None without it; `offline` a file of `osml data transitions`."""

    store: str
    platform: str
    models: Path
    config: LearningConfig = field(default_factory=LearningConfig)
    track: str | None = None
    offline: Path | None = None
    dry_run: bool = False


def learn(job: LearnJob, heard: Heard = lambda _what: None) -> dict[str, Any]:
    """Read, learn, judge; promote where the verdict says so. Returns the document of `--json`.

    Raises InputError for a store or models that are not there, Failure where a step fails; nothing is promoted then.
    """
    config = job.config.checked()
    home = find_model(job.models, "c", job.platform)
    champion, metadata = load_qnet(home).eval(), read_metadata(home)
    heard("reading experiences")
    found, read = _read(job, metadata)
    document: dict[str, Any] = {
        "platform": job.platform, "store": read["store"], "experiences": read["experiences"],
        "tuples": len(found.block), "left_out": found.left_out, "champion": metadata.name, "candidate": None,
        "better": False, "promoted": False,
    }  # fmt: skip
    train, held = found.split(config.held_out)
    lack = _lack(found, held, config)
    if lack is not None:
        return document | {"reasons": [lack]}
    heard("learning")
    offline = None
    if job.offline is not None:
        offline = sample_tuples(read_transitions(job.offline), OFFLINE_TUPLES, reward_of(metadata), _rng(config))
    candidates = candidates_of(champion, metadata, train.tuples, offline, config)
    heard("choosing a candidate")
    chosen = candidates[choose([found.net for found in candidates], champion, job.platform, config)]
    heard("judging")
    held_out = on_held_out(chosen.net, champion, held, gamma_of(metadata))
    virtual = on_virtual_node(chosen.net, champion, job.platform, config, _first(job, metadata))
    verdict = judge(held_out, virtual, config)
    told_of = _metrics(held_out, virtual, verdict, len(train.block))
    learned = {"learning_rate": chosen.learning_rate, "blend": chosen.blend}
    told_of |= learned | {"fingerprint": _fingerprint(train.tuples)}
    document |= learned
    document |= {
        "better": verdict.promote, "reasons": verdict.reasons, "held_out": told_of["held_out"],
        "virtual_node": told_of["virtual_node"],
    }  # fmt: skip
    return document | _hand_over(job, metadata, chosen.net, verdict, told_of, chosen.losses, heard)


def _first(job: LearnJob, champion: ModelMetadata) -> QNet | None:
    """The champion before the first promotion; None where it still is the champion, or its folder is gone."""
    name = first_replaced(job.models, "c", job.platform)
    if name is None or name == champion.name or not (job.models / name).is_dir():
        return None
    return load_qnet(job.models / name).eval()


def _fingerprint(tuples: Tuples) -> str:
    """One checksum over what was learned from."""
    total = hashlib.sha256()
    for part in tuples:
        total.update(part.tobytes())
    return total.hexdigest()


def _rng(config: LearningConfig) -> Any:
    import numpy as np  # noqa: PLC0415

    return np.random.default_rng([config.seed, 5])


def _read(job: LearnJob, champion: ModelMetadata) -> tuple[Recorded, dict[str, Any]]:
    url = store_url(job.store)
    if url is None:
        raise InputError("--store is 'none', expected the store that the server writes")
    store = Store(open_engine(url, writes=False))
    since_s = taken_back_at(job.models, "c", job.platform)
    count = old = 0

    def experiences() -> Any:
        nonlocal count, old
        for stored in store.read(job.platform, job.config.limit):
            count += 1
            if stored.received_s > since_s:
                yield stored.experience
            else:
                old += 1

    try:
        found = recorded(experiences(), champion.inputs, reward_of(champion))
    except StoreError as error:
        raise Failure(f"the experience store {told(url)} can't be read: {error}") from None
    finally:
        store.close()
    if old:
        left_out = found.left_out | {"received before the last rollback": old}
        found = found._replace(left_out=left_out)
    return found, {"store": told(url), "experiences": count}


def _lack(found: Recorded, held: Recorded, config: LearningConfig) -> str | None:
    """What is missing for learning anything; None where there is enough."""
    if len(found.block) < config.least:
        dropped = ", ".join(f"{count} {why}" for why, count in found.left_out.items()) or "nothing was left out"
        return f"{len(found.block)} usable tuples, expected at least {config.least} ({dropped})"
    blocks = len(set(held.block.tolist()))
    if blocks < config.least_blocks:
        return f"{blocks} minutes of services are held out, expected at least {config.least_blocks}"
    return None


def _metrics(held_out: HeldOut, virtual: Virtual, verdict: Verdict, learned: int) -> dict[str, Any]:
    """For the document, the metadata and MLflow. NaN, nothing to compare, is None."""

    def plain(estimate: Any) -> dict[str, Any]:
        return {key: None if math.isnan(value) else value for key, value in estimate._asdict().items()}

    return {
        "held_out": {
            "tuples": held_out.tuples, "champion_squared_error": held_out.champion_error,
            "squared_error_falls_by": plain(held_out.error),
            "repeated_falls": plain(held_out.falls), "neglect": plain(held_out.neglect),
        },
        "virtual_node": {
            "e_s_rises_by": plain(virtual.e_s), "e_s_rises_since_first_by": plain(virtual.e_s_since_first),
            "falls": plain(virtual.falls),
            "champion_e_s": virtual.champion_e_s, "candidate_e_s": virtual.candidate_e_s, "simulated": True,
        },
        "reasons": verdict.reasons, "promoted": verdict.promote, "learned_tuples": learned,
    }  # fmt: skip


def _hand_over(
    job: LearnJob, champion: ModelMetadata, candidate: QNet, verdict: Verdict, metrics: dict[str, Any],
    losses: Losses, heard: Heard,
) -> dict[str, Any]:  # fmt: skip
    """Export the candidate and check the file as a server does; promote it, or keep it out of the models."""
    warnings: list[str] = []
    with tempfile.TemporaryDirectory() as scratch, locked(job.models):
        name, version = _next(job.models, champion)
        metadata = msgspec.structs.replace(
            champion, name=name, version=version, parent=champion.name, command=command_line(), commit=commit(),
            seed=job.config.seed, dataset_fingerprint=metrics["fingerprint"], metrics={"rows": [], "online": metrics},
        )  # fmt: skip
        folder = write_q_bundle(candidate, metadata, Path(scratch) / name)
        open_checked(folder.parent, entry_of(folder, metadata))
        told_of: dict[str, Any] = {"candidate": name, "version": version, "warnings": warnings}
        promotion = Promotion(name, "c", job.platform, champion.name, "", "", verdict.reasons)
        if job.track is not None:
            heard("storing in MLflow")
            promotion = _register(job.track, promotion, metadata, losses, folder, warnings)
        if not verdict.promote or job.dry_run:
            return told_of
        place(folder, job.models / name)
        done = exchange(job.models, entry_of(job.models / name, metadata), promotion)
        if done.uri is not None and done.registered is not None:
            try:
                move_champion(done.uri, done.registered, done.version)
            except Failure as failure:
                warnings.append(f"the alias champion was not moved ({failure})")
    return told_of | {"promoted": True, "folder": str(job.models / name)}


def _register(
    uri: str, promotion: Promotion, metadata: ModelMetadata, losses: Losses, folder: Path,
    warnings: list[str],
) -> Promotion:  # fmt: skip
    try:
        before = champion_version(uri, metadata)
        version = register(uri, metadata, losses, folder)
    except Failure as failure:
        warnings.append(f"not stored in MLflow ({failure})")
        return promotion
    return msgspec.structs.replace(
        promotion, uri=uri, registered=registered_name(metadata), version=version, champion_before=before
    )


def _next(models: Path, champion: ModelMetadata) -> tuple[str, str]:
    """Name and version of a candidate: those after the champion's that no folder has yet."""
    number = int(champion.version) + 1 if champion.version.isdigit() else 2
    while (models / f"c-online-{champion.platforms[0]}-{number}").exists():
        number += 1
    return f"c-online-{champion.platforms[0]}-{number}", str(number)


def roll_back(models: Path, kind: str, platform: str | None) -> dict[str, Any]:
    """Take the last promotion back: the manifest as it was, byte for byte, and the alias where it was.

    The model's folder stays, so that servers that still use it can read it. What was in the store until now is not
    learned from again: it would bring the same model back.
    """
    with locked(models):
        promotion = last_promotion(models, kind, platform)
        take_back(models)
        warnings: list[str] = []
        try:
            note_rollback(models, kind, promotion.platform, time.time())
        except Failure as failure:
            warnings.append(f"the next run may learn the same from the same store ({failure})")
    if promotion.uri is not None and promotion.registered is not None:
        try:
            move_champion(promotion.uri, promotion.registered, promotion.champion_before)
        except Failure as failure:
            warnings.append(f"the alias champion was not moved back ({failure})")
    manifest: Manifest = load_manifest(models)
    now = next((e.name for e in manifest.models if (e.kind, e.platform) == (kind, promotion.platform)), None)
    return {
        "taken_back": promotion.name, "champion": now, "platform": promotion.platform, "models": str(models),
        "manifest_sha256": promotion.before, "warnings": warnings,
    }  # fmt: skip
