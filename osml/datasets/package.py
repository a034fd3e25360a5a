"""A package of `osml learn data contribute`: unpacked without trust, and its content in a few words."""

from __future__ import annotations

import re
import shutil
import tarfile
from pathlib import Path

import msgspec

from osml.base.failure import InputError
from osml.datasets.dataset import read_description
from osml.datasets.store import LABELS, keys_of, read_whole, trace_files

MAX_FILES = 10_000
EXPECTED = "expected a package of `osml learn data contribute`"
PART = r"[A-Za-z0-9_][A-Za-z0-9_.=-]{0,127}"
NAME = re.compile(
    rf"(dataset\.json|README\.md|checksums\.sha256|croissant\.json|(traces|labels[a-z-]*)/{PART}/{PART}/{PART}\.parquet)\Z"
)


class Content(msgspec.Struct, frozen=True):
    """What is in a data set. `outcomes` counts its labels; `kind` is real or virtual."""

    name: str
    kind: str
    licence: str
    contributor: str | None
    description: str
    platforms: list[str]
    services: list[str]
    outcomes: dict[str, int] = {}


def content_of(folder: Path) -> Content:
    """The content of an unpacked data set. InputError where it can't be read."""
    about = read_description(folder)
    keys = [keys_of(file) for file in trace_files(folder)]
    outcomes: dict[str, int] = {}
    for file in sorted((folder / LABELS).rglob("*.parquet")):
        for outcome in read_whole(file).column("outcome").to_pylist():
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
    return Content(
        about.name,
        about.provenance.kind,
        about.licence,
        about.contributor,
        about.description,
        sorted({key["platform"] for key in keys}),
        sorted({key["service"] for key in keys}),
        dict(sorted(outcomes.items())),
    )


def unpack(package: Path, folder: Path) -> None:
    """Write the files of a package into an empty folder. InputError for anything but plain files with plain names.

    All members together are no longer than the package: so none is sparse, and nothing grows.
    """
    left = package.stat().st_size
    seen: set[str] = set()
    try:
        with tarfile.open(package, "r:") as archive:
            for member in archive:
                left -= member.size
                if not member.isreg() or member.sparse is not None or not NAME.match(member.name):
                    raise InputError(f"'{member.name[:200]}' is not a regular file of a data set, {EXPECTED}")
                if left < 0 or len(seen) >= MAX_FILES or member.name in seen:
                    raise InputError(f"'{member.name[:200]}' is a duplicate, too long, or beyond {MAX_FILES} files")
                seen.add(member.name)
                target = folder / member.name
                target.parent.mkdir(parents=True, exist_ok=True)
                content = archive.extractfile(member)
                if content is None:
                    raise InputError(f"'{member.name[:200]}' is empty, {EXPECTED}")
                with content, target.open("xb") as file:  # owner, mode and time of the package are ignored
                    shutil.copyfileobj(content, file)
    except (tarfile.TarError, EOFError, UnicodeError) as error:
        raise InputError(f"the package is not a valid tar file ({error})") from None
    if "dataset.json" not in seen:
        raise InputError(f"the package has no dataset.json, {EXPECTED}")
