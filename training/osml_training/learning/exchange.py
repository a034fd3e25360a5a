"""Puts a model into the place of another in a folder of models, so that it can be taken back byte for byte.

A server that watches the folder sees the old manifest or the new one, never something between.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from osml.failure import Failure, InputError
from osml.predictors import Manifest, ManifestEntry, load_manifest
from osml.predictors.manifest import MANIFEST

HISTORY = "promotions"
"""Folder of the models' folder: `0001.json`, a record, and `0001.manifest.json`, the manifest before it."""


class Promotion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a promotion did. `before` and `after` are the sha256 of the manifest.

    `registered` is the model's name in MLflow at `uri`, `version` its version there, `champion_before` the version
    that had the alias; None where there was no MLflow, or no champion in it.
    """

    name: str
    kind: str
    platform: str
    replaced: str
    before: str
    after: str
    reasons: list[str] = []
    uri: str | None = None
    registered: str | None = None
    version: str | None = None
    champion_before: str | None = None


@contextmanager
def locked(models: Path) -> Generator[None]:
    """One promotion or rollback at a time in a folder. Raises InputError, Failure where it can't be written."""
    if not models.is_dir():
        raise InputError(f"{models} is no folder of models")
    try:
        (models / HISTORY).mkdir(exist_ok=True)
        lock = (models / HISTORY / "lock").open("w")
    except OSError as error:
        raise _unwritable(models, error) from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _unwritable(what: Path, error: OSError) -> Failure:
    return Failure(f"{what} can't be written ({error.strerror}), so no model can be exchanged")


def place(folder: Path, target: Path) -> None:
    """Copy a model's folder to where it stays: all of it or nothing. Raises Failure."""
    partial = target.with_name(f".{target.name}.new")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(folder, partial)
        partial.rename(target)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise _unwritable(target, error) from None


def exchange(models: Path, entry: ManifestEntry, promotion: Promotion) -> Promotion:
    """Put `entry` where the model is that it replaces; call it under `locked`. Returns the completed record.

    In its very place: of several of one kind the first decides. Raises Failure where that model is gone.
    """
    file = models / MANIFEST
    before = file.read_bytes()
    listed = load_manifest(models).models
    if promotion.replaced not in [found.name for found in listed]:
        raise Failure(f"'{promotion.replaced}' is no longer in {file}: somebody else exchanged it, learn again")
    manifest = Manifest([entry if found.name == promotion.replaced else found for found in listed])
    after = msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
    done = msgspec.structs.replace(promotion, before=_sum(before), after=_sum(after))
    number = _last(models) + 1
    history = models / HISTORY
    for part in (*(models / entry.name / name for name in entry.sha256), models / entry.name):
        _sync(part)  # a manifest that outlives a power cut must not list files that do not
    write_through(history / f"{number:04}.manifest.json", before)
    write_through(history / f"{number:04}.json", msgspec.json.format(msgspec.json.encode(done), indent=1) + b"\n")
    write_through(file, after)
    return done


def last_promotion(models: Path, kind: str, platform: str | None) -> Promotion:
    """The newest record. InputError where there is none, or it is of another model: those are undone in order."""
    number = _last(models)
    if number == 0:
        raise InputError(f"{models} has no promotion to take back")
    file = models / HISTORY / f"{number:04}.json"
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Promotion)
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(f"{file} can't be read ({error})") from None
    if found.kind != kind or platform not in (None, found.platform):
        raise InputError(
            f"the last promotion was of '{found.name}' (kind {found.kind}, platform {found.platform}), "
            f"expected kind {kind}{'' if platform is None else f', platform {platform}'}: take that back first"
        )
    return found


def first_replaced(models: Path, kind: str, platform: str) -> str | None:
    """The model that the first promotion of a kind and platform replaced; None without one."""
    for file in sorted((models / HISTORY).glob("[0-9][0-9][0-9][0-9].json")):
        try:
            found = msgspec.json.decode(file.read_bytes(), type=Promotion)
        except (OSError, msgspec.MsgspecError) as error:
            raise InputError(f"{file} can't be read ({error})") from None
        if (found.kind, found.platform) == (kind, platform):
            return found.replaced
    return None


def take_back(models: Path) -> None:
    """Restore the manifest before the last promotion, byte for byte; call it under `locked`.

    Where a crash left the manifest as it was before, only the record goes. Raises Failure where the manifest is neither
    that nor the one that the promotion wrote: that would undo somebody else's work.
    """
    number = _last(models)
    record = models / HISTORY / f"{number:04}.json"
    kept = models / HISTORY / f"{number:04}.manifest.json"
    promotion = msgspec.json.decode(record.read_bytes(), type=Promotion)
    before = kept.read_bytes()
    now = _sum((models / MANIFEST).read_bytes())
    if now not in (promotion.before, promotion.after):
        raise Failure(f"{models / MANIFEST} was changed after '{promotion.name}' was promoted: edit it by hand")
    if _sum(before) != promotion.before:
        raise Failure(f"{kept} is not the manifest that it was: edit {models / MANIFEST} by hand")
    if now == promotion.after:
        write_through(models / MANIFEST, before)
    record.unlink()
    kept.unlink()


def _last(models: Path) -> int:
    """The number of the newest record, 0 without any."""
    numbers = [int(f.stem) for f in (models / HISTORY).glob("[0-9]*.json") if f.stem.isdecimal()]
    return max(numbers, default=0)


def write_through(file: Path, content: bytes) -> None:
    """Write a file at once and onto the disk. Raises Failure."""
    partial = file.with_name(f".{file.name}.new")
    try:
        with partial.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(file)
    except OSError as error:
        raise _unwritable(file, error) from None
    _sync(file.parent)


def _sync(path: Path) -> None:
    """A file, or the names in a folder, onto the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
