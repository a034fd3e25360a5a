"""`osml learn train c --online` without its command line."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch's own annotations have gaps.
from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from typing import Any

from osml.base.failure import Failure, InputError
from osml.experiences.address import open_engine, store_url, told
from osml.experiences.outcome import StoreError
from osml.experiences.store import Store
from osml.predictors import ANY_PLATFORM, ManifestEntry, ModelMetadata, find_model, load_manifest
from osml.predictors.manifest import verify_entry
from osml.predictors.metadata import ONNX
from osml.simulator import catalogs
from osml_training.dqn.qnet import QNet
from osml_training.dqn.transitions import Tuples, sample_tuples
from osml_training.learning.candidates import candidates_of
from osml_training.learning.champion import load_champion, read_offline
from osml_training.learning.compare_candidates import (
    HeldOut,
    Verdict,
    Virtual,
    choose,
    judge,
    on_held_out,
    on_virtual_node,
)
from osml_training.learning.config import LearningConfig, gamma_of, reward_of
from osml_training.learning.exchange import first_replaced
from osml_training.learning.promotion import Judged, LearnJob, OnProgress, hand_over
from osml_training.learning.recorded import Recorded, recorded
from osml_training.learning.rollbacks import taken_back_at

OFFLINE_TUPLES = 200_000


def learn(job: LearnJob, on_progress: OnProgress = lambda _what: None) -> dict[str, Any]:
    """Read, learn, judge; promote where the verdict says so. Returns the document of `--json`.

    Raises InputError for a store or models that are not there, Failure where a step fails; nothing is promoted then.
    """
    config = job.config.checked()
    entry = _champion(job)
    if entry.platform != ANY_PLATFORM:  # from here on the name that the model has for the platform
        job = replace(job, platform=entry.platform)
    _check_virtual(job.platform)
    home = job.models / entry.name
    champion, metadata = load_champion(home)
    verify_entry(job.models, entry)  # once more: what was loaded is what the manifest lists
    offline = None if job.offline is None else read_offline(job.offline, job.platform)
    on_progress("reading experiences")
    found, read = _read(job, metadata)
    document: dict[str, Any] = {
        "platform": job.platform, "store": read["store"], "experiences": read["experiences"],
        "tuples": found.size, "left_out": found.left_out, "champion": metadata.name, "candidate": None,
        "better": False, "promoted": False,
    }  # fmt: skip
    train, held = found.split(config.held_out)
    lack = _lack(found, held, config)
    if lack is not None:
        others = f"; the store has only experiences of {', '.join(read['others'][:9])}" if read["others"] else ""
        return document | {"reasons": [lack + others]}
    on_progress("learning")
    from_file = None
    if offline is not None:
        from_file = sample_tuples(offline, OFFLINE_TUPLES, reward_of(metadata), _rng(config))
    candidates = candidates_of(champion, metadata, train.tuples, from_file, config)
    on_progress("choosing a candidate")
    chosen = candidates[choose([found.net for found in candidates], champion, job.platform, config)]
    on_progress("judging")
    held_out = on_held_out(chosen.net, champion, held, gamma_of(metadata))
    warnings: list[str] = []
    fingerprint, first = _fingerprint(train.tuples, from_file), _first(job, entry, warnings)
    virtual = on_virtual_node(chosen.net, champion, job.platform, config, fingerprint, first)
    verdict = judge(held_out, virtual, config)
    told_of = _metrics(held_out, virtual, verdict, train.size)
    learned = {"learning_rate": chosen.learning_rate, "blend": chosen.blend}
    offline_tuples = 0 if from_file is None else len(from_file.action)
    told_of |= learned | {"fingerprint": fingerprint, "offline_tuples": offline_tuples}
    document |= learned
    document |= {
        "better": verdict.promote,
        "reasons": verdict.reasons,
        "held_out": told_of["held_out"],
        "virtual_node": told_of["virtual_node"],
    }
    judged = Judged(entry, metadata, chosen.net, verdict, told_of, chosen.losses)
    return document | hand_over(job, judged, warnings, on_progress)


def _check_virtual(platform: str) -> None:
    """InputError where candidates can't be judged: that takes the virtual node of the platform."""
    try:
        catalogs.platform(platform)
    except catalogs.CatalogError as error:
        raise InputError(f"a candidate is judged on the virtual node of its platform: {error}") from None


def _champion(job: LearnJob) -> ManifestEntry:
    """The manifest's line on the champion, its files checked. Raises InputError."""
    name = find_model(job.models, "c", job.platform).name
    listed = load_manifest(job.models).models
    return next(entry for entry in listed if entry.name == name)


def _first(job: LearnJob, champion: ManifestEntry, warnings: list[str]) -> QNet | None:
    """The champion before the first promotion; None where that is the champion, or is not what it was any more."""
    first = first_replaced(job.models, "c", job.platform)
    if first is None or first.sha256.get(ONNX) == champion.sha256.get(ONNX):
        return None
    try:
        verify_entry(job.models, first)
        return load_champion(job.models / first.name)[0]  # of an older version it may have other inputs
    except InputError as error:
        warnings.append(f"the candidate was not compared with the first champion ({error})")
        return None


def _fingerprint(recorded: Tuples, offline: Tuples | None) -> str:
    """One checksum over what was learned from."""
    total = hashlib.sha256()
    for part in (*recorded, *(offline or ())):
        total.update(part.tobytes())
    return total.hexdigest()


def _rng(config: LearningConfig) -> Any:
    import numpy as np  # noqa: PLC0415

    return np.random.default_rng([config.seed, 5])


def _read(job: LearnJob, champion: ModelMetadata) -> tuple[Recorded, dict[str, Any]]:
    url = store_url(job.store)
    if url is None:
        raise InputError("--store is 'none', expected the experience store of the server")
    rollback, address = taken_back_at(job.models, "c", job.platform), told(url)
    store = Store(open_engine(url, writes=False))
    count = old = 0
    damaged: list[int] = []

    def experiences(newest: int) -> Any:
        nonlocal count, old
        for stored in store.read(job.platform, job.config.limit, damaged=damaged.append):
            count += 1
            if rollback.is_before(stored, address, newest):
                old += 1
            else:
                yield stored.experience

    others: list[str] = []
    try:
        found = recorded(experiences(store.newest_id(job.platform)), champion.inputs, reward_of(champion))
        if not count:
            others = store.platforms()
    except StoreError as error:
        raise Failure(f"the experience store {told(url)} can't be read: {error}") from None
    finally:
        store.close()
    more = {"received before the last rollback": old, "rows of the store that can't be read": len(damaged)}
    found = found._replace(left_out=found.left_out | {why: number for why, number in more.items() if number})
    return found, {"store": told(url), "experiences": count, "others": others}


def _lack(found: Recorded, held: Recorded, config: LearningConfig) -> str | None:
    """What is missing for learning anything; None where there is enough."""
    if found.size < config.least:
        dropped = ", ".join(f"{count} {why}" for why, count in found.left_out.items()) or "no experience was left out"
        return f"{found.size} usable tuples, expected at least {config.least} ({dropped})"
    blocks = len(set(held.blocks().tolist()))
    if blocks < config.least_blocks:
        return f"{blocks} blocks of one minute of a node are held out, expected at least {config.least_blocks}"
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
