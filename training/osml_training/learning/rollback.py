"""`osml learn models rollback c` without its command line."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from osml.base.failure import Failure, InputError
from osml.base.masking import is_masked
from osml.experiences.address import open_engine, store_url, told
from osml.experiences.outcome import StoreError
from osml.experiences.store import Store
from osml.predictors import Manifest, load_manifest
from osml_training.export.model_folder import locked
from osml_training.learning.champion_alias import champion_version, move_champion
from osml_training.learning.exchange import Promotion, last_promotion, take_back
from osml_training.learning.rollbacks import Rollback, note_rollback


def roll_back(
    models: Path, kind: str, platform: str | None, track: str | None = None, store: str | None = None
) -> dict[str, Any]:
    """Take the last promotion back: the manifest as it was, byte for byte, and the alias where it was.

    `track` is MLflow's address and `store` that of the experiences, where those of the promotion held a password: none
    is kept. The model's folder stays, so that servers that still use it can read it. What is in the store now is not
    learned from again: it would bring the same model back.
    """
    with locked(models):
        promotion = last_promotion(models, kind, platform)
        take_back(models)
        warnings: list[str] = []
        try:
            note_rollback(models, kind, promotion.platform, _now(promotion, store, warnings))
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


def _now(promotion: Promotion, store: str | None, warnings: list[str]) -> Rollback:
    """The newest experience of the store that was learned from; where it can't be asked, the time of this machine."""
    at_s, address = time.time(), store or promotion.store
    if address is None:
        return Rollback(at_s)  # the record of an older version
    try:
        if is_masked(address):
            raise InputError("its password is not stored; give it with --store")
        url = store_url(address)
        if url is None:
            raise InputError("--store is 'none', expected the experience store of the server")
        opened = Store(open_engine(url, writes=False))
        try:
            return Rollback(at_s, told(url), opened.newest_id(promotion.platform))
        finally:
            opened.close()
    except (Failure, StoreError) as failure:
        warnings.append(f"the clock of this machine says which experiences are older, not the store ({failure})")
        return Rollback(at_s)


def _move_alias_back(uri: str, promotion: Promotion, warnings: list[str]) -> None:
    """Where it still is at the version that was promoted: somebody may have moved it since."""
    name = promotion.registered or ""
    if is_masked(uri):
        warnings.append(
            f"the alias champion did not move back: the password of {uri} is not stored; give it with --track"
        )
        return
    try:
        now = champion_version(uri, name, create=False)
        if now == promotion.version:
            move_champion(uri, name, promotion.champion_before)
        else:
            warnings.append(
                f"the alias champion of {name} is at version {now}, not at the rolled-back version "
                f"{promotion.version}, so it did not move"
            )
    except Failure as failure:
        warnings.append(f"the alias champion did not move back ({failure})")
