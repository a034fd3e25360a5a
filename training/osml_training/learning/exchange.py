"""Puts a model into the place of another in a folder of models, so that it can be taken back byte for byte.

A server that watches the folder sees the old manifest or the new one, never something between. In its folder
`promotions`: `0001.json`, a record, and `0001.manifest.json`, the manifest before it.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import msgspec

from osml.base.failure import Failure, InputError
from osml.base.json_file import read_json
from osml.predictors import Manifest, ManifestEntry, load_manifest
from osml.predictors.manifest import MANIFEST, verify_entry
from osml.predictors.metadata import ONNX
from osml_training.export.model_folder import HISTORY, in_one_sentence, sync, unwritable, write_through


class Promotion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a promotion did. `before` and `after` are the sha256 of the manifest.

    `replaced_sha256` and `sha256` are those of the ONNX files, of who was replaced and of who is there now.
    `registered` is the model's name in MLflow at `uri` (without its password), `version` its version there,
    `champion_before` the version that had the alias; None where there was no MLflow, or no champion in it. `store` is
    where it learned from, without its password.
    """

    name: str
    kind: str
    platform: str
    replaced: str
    before: str
    after: str
    reasons: list[str] = []
    replaced_sha256: str = ""
    sha256: str = ""
    uri: str | None = None
    registered: str | None = None
    version: str | None = None
    champion_before: str | None = None
    store: str | None = None


def place(folder: Path, target: Path) -> None:
    """Copy a model's folder to where it stays: all of it or nothing. Raises Failure."""
    partial = target.with_name(f".{target.name}.new")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(folder, partial)
        partial.rename(target)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise unwritable(target, error) from None


def check_champion(models: Path, judged: ManifestEntry) -> None:
    """Raise Failure where the model that a candidate was judged against is gone, or another one has its name."""
    now = next((found for found in load_manifest(models).models if found.name == judged.name), None)
    if now is None:
        raise Failure(
            f"'{judged.name}' is no longer in {models / MANIFEST}: another process replaced it; run the command again"
        )
    if now != judged:
        raise Failure(
            f"'{judged.name}' in {models / MANIFEST} changed during the test of the candidate "
            f"(sha256 {_short(now)}, before {_short(judged)}); run the command again"
        )


def exchange(models: Path, entry: ManifestEntry, judged: ManifestEntry, promotion: Promotion) -> Promotion:
    """Put `entry` where the model is that it replaces; call it under `locked`. Returns the completed record.

    In its very place: of several of one kind the first decides. `judged` is the champion that the candidate was judged
    against. Raises Failure where that is gone, or is another one of the same name by now.
    """
    file = models / MANIFEST
    check_champion(models, judged)
    with in_one_sentence(file):
        before = file.read_bytes()
    listed = load_manifest(models).models
    if entry.sha256.get(ONNX) == judged.sha256.get(ONNX):
        raise Failure(f"'{entry.name}' is identical to '{judged.name}', so it was not promoted")
    manifest = Manifest([entry if found.name == judged.name else found for found in listed])
    after = msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
    done = msgspec.structs.replace(
        promotion,
        replaced=judged.name,
        before=_sum(before),
        after=_sum(after),
        replaced_sha256=judged.sha256.get(ONNX, ""),
        sha256=entry.sha256.get(ONNX, ""),
    )
    number = _last(models) + 1
    history = models / HISTORY
    for part in (*(models / entry.name / name for name in entry.sha256), models / entry.name):
        with in_one_sentence(part):
            sync(part)  # a manifest that outlives a power cut must not list files that do not
    write_through(history / f"{number:04}.manifest.json", before)
    write_through(history / f"{number:04}.json", msgspec.json.format(msgspec.json.encode(done), indent=1) + b"\n")
    write_through(file, after)
    return done


def last_promotion(models: Path, kind: str, platform: str | None) -> Promotion:
    """The newest record. InputError where there is none, or it is of another model: those are undone in order."""
    number = _last(models)
    if number == 0:
        raise InputError(f"{models} has no promotion to roll back")
    file = models / HISTORY / f"{number:04}.json"
    found = read_json(file, Promotion)
    if found.kind != kind or platform not in (None, found.platform):
        raise InputError(
            f"the last promotion was '{found.name}' (kind {found.kind}, platform {found.platform}), "
            f"expected kind {kind}{'' if platform is None else f', platform {platform}'}; roll it back first"
        )
    return found


def first_replaced(models: Path, kind: str, platform: str) -> ManifestEntry | None:
    """The manifest's line on the model that the first promotion of a kind and platform replaced; None without one."""
    for file in sorted((models / HISTORY).glob("[0-9][0-9][0-9][0-9].json")):
        found = read_json(file, Promotion)
        if (found.kind, found.platform) == (kind, platform):
            kept = read_json(file.with_name(f"{file.stem}.manifest.json"), Manifest).models
            return next((entry for entry in kept if entry.name == found.replaced), None)
    return None


def take_back(models: Path) -> None:
    """Restore the manifest before the last promotion, byte for byte; call it under `locked`.

    Where a crash left the manifest as it was before, only the record goes. Raises Failure where the manifest is neither
    that nor the one that the promotion wrote, which would undo somebody else's work; and where the files of the model
    that would decide again are not those that it was: no server would take it.
    """
    number = _last(models)
    record = models / HISTORY / f"{number:04}.json"
    kept = models / HISTORY / f"{number:04}.manifest.json"
    try:
        promotion = read_json(record, Promotion)
        before, now = kept.read_bytes(), _sum((models / MANIFEST).read_bytes())
    except (OSError, InputError) as error:
        raise Failure(f"promotion {number} of {models} can't be read ({error}): edit {MANIFEST} by hand") from None
    if now not in (promotion.before, promotion.after):
        raise Failure(f"{models / MANIFEST} changed after the promotion of '{promotion.name}'; edit it by hand")
    if _sum(before) != promotion.before:
        raise Failure(f"{kept} changed since it was saved; edit {models / MANIFEST} by hand")
    if now == promotion.after:
        _check_replaced(models, read_json(kept, Manifest), promotion)
        write_through(models / MANIFEST, before)
    with in_one_sentence(record):  # what is left of it is finished by the next rollback
        record.unlink()
        kept.unlink()


def _check_replaced(models: Path, manifest: Manifest, promotion: Promotion) -> None:
    for entry in manifest.models:
        if entry.name == promotion.replaced:
            try:
                verify_entry(models, entry)
            except InputError as error:
                raise Failure(f"'{promotion.name}' stays, because '{entry.name}' cannot replace it: {error}") from None


def _last(models: Path) -> int:
    """The number of the newest record, 0 without any."""
    numbers = [int(f.stem) for f in (models / HISTORY).glob("[0-9]*.json") if f.stem.isdecimal()]
    return max(numbers, default=0)


def _short(entry: ManifestEntry) -> str:
    return entry.sha256.get(ONNX, "")[:12] + "..."


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
