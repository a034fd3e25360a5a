"""A model takes its place in a folder of models when it was proved and judged, and not before."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from osml.base.failure import InputError
from osml.predictors import Manifest, ManifestEntry, ModelMetadata, load_manifest
from osml.predictors.manifest import MANIFEST, is_plain_name, matching, verify_entry
from osml_training.export.bundle import entry_of
from osml_training.export.model_folder import HISTORY, in_one_sentence, locked, sync, write_through

Write = Callable[[ModelMetadata, Path], object]
"""Writes the folder of a model with these metadata, and raises where it is not as it should be."""

Judged = tuple[ModelMetadata, dict[str, Any]]
"""The metadata with their metrics, and the whole evaluation."""


class Published(NamedTuple):
    """A model in its place, its evaluation, and what should be looked at."""

    folder: Path
    metadata: ModelMetadata
    document: dict[str, Any]
    warnings: list[str]


def publish(
    write: Write,
    metadata: ModelMetadata,
    models: Path,
    evaluate: Callable[[Path], Judged] | None = None,
    *,
    first: bool = False,
) -> Published:
    """Write a model beside its place, evaluate it there, then exchange its folder and its line in the manifest.

    `evaluate` gets the folder; it is then written again with the metrics. `first` is that of `add_to_manifest`.
    Whatever is raised until the end: folder and manifest stay as they were. Raises InputError for an impossible name.
    """
    check_name(metadata.name)
    target = models / metadata.name
    draft = models / f".{metadata.name}.{os.getpid()}.new"
    document: dict[str, Any] = {}
    models.mkdir(parents=True, exist_ok=True)
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        write(metadata, draft)
        if evaluate is not None:
            metadata, document = evaluate(draft)
            write(metadata, draft)
        entry = entry_of(draft, metadata)
        for part in (*(draft / name for name in entry.sha256), draft):
            with in_one_sentence(part):
                sync(part)  # a manifest that outlives a power cut must not list files that do not
        with locked(models):
            before = load_manifest(models).models
            _exchange(draft, target, entry, first=first)
            now = load_manifest(models).models
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Published(target, metadata, document, _told(before, now, entry) + _without_margins(metadata))


def check_name(name: str) -> None:
    """InputError where a folder of models can have no model of that name."""
    if not is_plain_name(name) or name.startswith(".") or name in (HISTORY, MANIFEST) or not name.isprintable():
        raise InputError(f"the name of the model is {name[:80]!r}, expected a plain name of a folder, such as own-1")


def _exchange(draft: Path, target: Path, entry: ManifestEntry, *, first: bool) -> None:
    """Folder and manifest, or neither; call it under `locked`."""
    models, aside = target.parent, _aside(target)
    with in_one_sentence(target):
        _mend(models, target)
        there = target.exists()
        try:
            if there:
                target.rename(aside)
            draft.rename(target)
            enter(models, entry, first=first)
        except BaseException:
            if entry not in load_manifest(models).models or not target.exists():
                if not there or aside.exists():
                    shutil.rmtree(target, ignore_errors=True)
                if aside.exists():
                    aside.rename(target)
            raise
        shutil.rmtree(aside, ignore_errors=True)


def _aside(target: Path) -> Path:
    return target.with_name(f".{target.name}.old")


def _mend(models: Path, target: Path) -> None:
    """Finish what a kill or a power cut left of an exchange: what the manifest means is in its place again."""
    listed = {entry.name: entry for entry in load_manifest(models).models}
    for place in {target, *(models / name for name in listed)}:
        aside, entry = _aside(place), listed.get(place.name)
        if not aside.exists():
            continue
        if not place.exists() or (entry is not None and not _is(place, entry) and _is(aside, entry)):
            shutil.rmtree(place, ignore_errors=True)
            aside.rename(place)
        shutil.rmtree(aside, ignore_errors=True)


def _is(folder: Path, entry: ManifestEntry) -> bool:
    """Whether the files of a folder are those that the manifest lists for a model."""
    try:
        verify_entry(folder.parent, msgspec.structs.replace(entry, name=folder.name))
    except InputError:
        return False
    return True


def add_to_manifest(models: Path, entry: ManifestEntry, *, first: bool = False) -> None:
    """Enter a model whose folder is there already; nobody else writes meanwhile. Raises as `locked` does."""
    with locked(models):
        enter(models, entry, first=first)


def enter(models: Path, entry: ManifestEntry, *, first: bool = False) -> None:
    """Write the manifest with this entry; call it under `locked`.

    In the place of one of the same name, unless it shall be `first`. Any other goes before all of its kind: of several
    for a platform the first decides (`osml.predictors.find_model`), and that is the one that was added last.
    """
    listed = load_manifest(models).models
    names = [found.name for found in listed]
    if entry.name in names and not first:
        listed[names.index(entry.name)] = entry
    else:
        listed = [found for found in listed if found.name != entry.name]
        kinds = [found.kind for found in listed]
        listed.insert(kinds.index(entry.kind) if entry.kind in kinds else len(kinds), entry)
    write_through(models / MANIFEST, msgspec.json.format(msgspec.json.encode(Manifest(listed)), indent=1) + b"\n")


def _told(before: list[ManifestEntry], now: list[ManifestEntry], entry: ManifestEntry) -> list[str]:
    """Who decides for the platform of an entry, where that is another model than before, or not the entry.

    Also what was lost, where the former model of that name had learned from another machine.
    """
    old, new = (matching(listed, entry.kind, entry.platform) for listed in (before, now))
    if new is not None and new.name != entry.name:
        return [f"'{new.name}' stays in use for platform {entry.platform}: it is listed before '{entry.name}'"]
    if old is not None and old.name != entry.name:
        of = "" if old.platform == entry.platform else f" (platform {old.platform})"
        return [f"'{entry.name}' is in use for platform {entry.platform} now, in the place of '{old.name}'{of}"]
    gone = next((one for one in before if one.name == entry.name and one.platform != entry.platform), None)
    if gone is not None:
        return [f"'{entry.name}' of platform {gone.platform} is gone: this model has its name; use another --name"]
    return []


def _without_margins(metadata: ModelMetadata) -> list[str]:
    """A warning where a model is of no use to services outside of its training."""
    if metadata.kind not in ("a", "a2") or metadata.margins_unseen:
        return []
    known = ", ".join(metadata.services)
    return [
        f"'{metadata.name}' has no margins for services outside of its training, so only {known} are asked of it; the "
        "model of platform any, or the formula, is for all others: sweep more services"
    ]
