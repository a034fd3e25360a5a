"""`osml learn models rollback c` without its command line."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from osml.base.failure import Failure
from osml.base.masking import is_masked
from osml.predictors import Manifest, load_manifest
from osml_training.learning.champion_alias import champion_version, move_champion
from osml_training.learning.exchange import Promotion, last_promotion, locked, take_back
from osml_training.learning.rollbacks import note_rollback


def roll_back(models: Path, kind: str, platform: str | None, track: str | None = None) -> dict[str, Any]:
    """Take the last promotion back: the manifest as it was, byte for byte, and the alias where it was.

    `track` is MLflow's address, where the one of the promotion held a password, which is not kept. The model's folder
    stays, so that servers that still use it can read it. What was in the store until now is not learned from again: it
    would bring the same model back.
    """
    with locked(models):
        promotion = last_promotion(models, kind, platform)
        take_back(models)
        warnings: list[str] = []
        try:
            note_rollback(models, kind, promotion.platform, time.time())
        except Failure as failure:
            warnings.append(f"the next run may promote the same model again from this store ({failure})")
    if promotion.uri is not None and promotion.registered is not None:
        _move_alias_back(track or promotion.uri, promotion, warnings)
    manifest: Manifest = load_manifest(models)
    now = next((e.name for e in manifest.models if (e.kind, e.platform) == (kind, promotion.platform)), None)
    return {
        "taken_back": promotion.name,
        "champion": now,
        "platform": promotion.platform,
        "models": str(models),
        "manifest_sha256": promotion.before,
        "warnings": warnings,
    }


def _move_alias_back(uri: str, promotion: Promotion, warnings: list[str]) -> None:
    """Where it still is at the version that was promoted: somebody may have moved it since."""
    name = promotion.registered or ""
    if is_masked(uri):
        warnings.append(
            f"the alias champion did not move back: the password of {uri} is not stored; give it with --track"
        )
        return
    try:
        now = champion_version(uri, name)
        if now == promotion.version:
            move_champion(uri, name, promotion.champion_before)
        else:
            warnings.append(
                f"the alias champion of {name} is at version {now}, not at the rolled-back version "
                f"{promotion.version}, so it did not move"
            )
    except Failure as failure:
        warnings.append(f"the alias champion did not move back ({failure})")
