"""`manifest.json`: which models a folder ships, and the checksums of their files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

import osml
from osml.base.failure import InputError
from osml.base.json_file import MissingFileError, read_json
from osml.domain.cpu_names import short_name
from osml.predictors.metadata import ANY_PLATFORM, KINDS

MANIFEST = "manifest.json"
MANIFEST_SCHEMA = "osml/models/v1"


class ManifestEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model: its folder below the manifest and the sha256 of each of its files."""

    name: str
    version: str
    kind: Literal["a", "a2", "b", "b2", "c", "c2"]
    variant: str
    platform: str
    sha256: dict[str, str]
    dataset_fingerprint: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All models of a folder."""

    models: list[ManifestEntry] = []
    schema: Literal["osml/models/v1"] = MANIFEST_SCHEMA


def models_folder() -> Path:
    """Where the shipped models are: $OSML_MODELS, else beside the package."""
    told = os.environ.get("OSML_MODELS")
    if told:
        return Path(told)
    package = Path(osml.__file__).parent
    inside = package / "models"
    return inside if inside.is_dir() else package.parent / "models"


def is_plain_name(name: str) -> bool:
    """Whether a name is that of a file or folder in this very place."""
    return name not in ("", ".", "..") and "/" not in name and "\\" not in name


def load_manifest(folder: Path) -> Manifest:
    """The manifest of a folder; empty where the folder has none. InputError where it is broken."""
    file = folder / MANIFEST
    try:
        found = read_json(file, Manifest)
    except MissingFileError:
        return Manifest()
    for entry in found.models:
        for part in (entry.name, *entry.sha256):
            if not is_plain_name(part):
                raise InputError(f"{file}: '{part}' is not a plain name of a file or folder")
    return found


def matching(entries: Iterable[ManifestEntry], kind: str, platform: str) -> ManifestEntry | None:
    """The first entry of a kind for a platform: of its id, else of its CPU's name, else of any platform."""
    listed = [entry for entry in entries if entry.kind == kind]
    for wanted in (platform, short_name(platform), ANY_PLATFORM):
        for entry in listed:
            if wanted in (entry.platform, short_name(entry.platform)):
                return entry
    return None


def find_model(folder: Path, kind: str, platform: str) -> Path:
    """Folder of the model of a kind for a platform, its files checked against the manifest.

    `platform` is the id that a node has: a name of the catalog, or its CPU's own name (`cpu_names`). For a platform
    without a model of its own: the one that learned from many machines. InputError where there is none, or where a file
    is not the one that was shipped.
    """
    if kind not in KINDS:
        raise InputError(f"model is '{kind}', expected one of {', '.join(KINDS)}")
    entries = load_manifest(folder).models
    entry = matching(entries, kind, platform)
    if entry is not None:
        verify_entry(folder, entry)
        return folder / entry.name
    known = sorted({entry.platform for entry in entries if entry.kind == kind})
    others = f"there are some for {', '.join(known)}" if known else "set OSML_MODELS to a folder that has one"
    raise InputError(f"no model {kind} for platform '{platform}' in {folder}; {others}")


def verify_entry(folder: Path, entry: ManifestEntry) -> None:
    """InputError where a file of a model is missing or has another checksum than the manifest's."""
    for name, wanted in entry.sha256.items():
        file = folder / entry.name / name
        try:
            found = hashlib.sha256(file.read_bytes()).hexdigest()
        except OSError as error:
            raise InputError(f"{file} can't be read ({error.strerror}), but the manifest lists it") from None
        if found != wanted:
            raise InputError(f"{file} has sha256 {found[:12]}..., the manifest says {wanted[:12]}...; pull it again")
