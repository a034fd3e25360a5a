"""A package of `osml learn data contribute`: unpacked without trust, and its content in a few words."""

from __future__ import annotations

import re
import shutil
import tarfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from osml.base.failure import InputError
from osml.datasets.dataset import read_description
from osml.datasets.store import LABELS, keys_of, read_whole, trace_files

MAX_FILES = 10_000
EXPECTED = "expected a package of `osml learn data contribute`"
PART = r"[A-Za-z0-9_][A-Za-z0-9_.=@~-]{0,127}"
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


@contextmanager
def members_of(package: Path) -> Generator[Iterator[tuple[tarfile.TarInfo, IO[bytes]]]]:
    """The files of a package with their content, in order. InputError for anything but plain files, each once.

    What `tarfile` raises for a header that is none is an InputError, too, also within the block of the caller.
    """
    try:
        with tarfile.open(package, "r:") as archive:
            yield _plain_files(archive)
    except (tarfile.TarError, EOFError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"the package is not a valid tar file ({' '.join(str(error).split())[:200]})") from None


def _plain_files(archive: tarfile.TarFile) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    seen: set[str] = set()
    for member in archive:
        if not member.isreg() or member.sparse is not None or member.size < 0:
            raise InputError(f"'{member.name[:200]}' is not a regular file of a data set, {EXPECTED}")
        if member.name in seen or len(seen) >= MAX_FILES:
            raise InputError(f"'{member.name[:200]}' is a duplicate, or beyond {MAX_FILES} files, {EXPECTED}")
        seen.add(member.name)
        content = archive.extractfile(member)
        if content is None:
            raise InputError(f"'{member.name[:200]}' is empty, {EXPECTED}")
        with content:
            yield member, content


def unpack(package: Path, folder: Path) -> None:
    """Write the files of a package into an empty folder. InputError for anything but plain files with plain names.

    All members together are no longer than the package: so none is sparse, and nothing grows.
    """
    left = package.stat().st_size
    with members_of(package) as members:
        for member, content in members:
            left -= member.size
            if not NAME.match(member.name):
                raise InputError(f"'{member.name[:200]}' is not a regular file of a data set, {EXPECTED}")
            if left < 0:
                raise InputError(f"'{member.name[:200]}' is too long for the package, {EXPECTED}")
            target = folder / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:  # owner, mode and time of the package are ignored
                shutil.copyfileobj(content, file)
    if not (folder / "dataset.json").exists():
        raise InputError(f"the package has no dataset.json, {EXPECTED}")
