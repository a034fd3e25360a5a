"""`dataset.json`: what a data set says of itself."""

from __future__ import annotations

from pathlib import Path

import msgspec

from osml.base.failure import InputError
from osml.base.json_file import read_json
from osml.base.whole_file import whole_file
from osml.datasets.description import LICENCE, Fingerprint, Provenance
from osml.datasets.programs import current_program
from osml.datasets.schema import TRACES_SCHEMA
from osml.datasets.store import DATASET


class DatasetDescription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`dataset.json` of a data set; `created` is a date (UTC), `contributor` a name or pseudonym of one's choice."""

    name: str
    provenance: Provenance
    platforms: list[Fingerprint]
    schema: str = TRACES_SCHEMA
    licence: str = LICENCE
    created: str | None = None
    contributor: str | None = None
    description: str = ""


def same_collection(folder: Path, wanted: DatasetDescription) -> DatasetDescription:
    """`wanted` with what the folder's dataset.json says besides: other platforms, who contributed, when, ....

    Raises InputError where the folder holds data of another kind, of another program or under another licence.
    """
    if not (folder / DATASET).exists():
        return wanted
    known = read_description(folder)
    for what, before, now in (
        ("kind", known.provenance.kind, wanted.provenance.kind),
        ("program", current_program(known.provenance.program), current_program(wanted.provenance.program)),
        ("licence", known.licence, wanted.licence),
    ):
        if before != now:
            raise InputError(
                f"'{folder}' contains another collection ({what}: {before}, now {now}): use another folder"
            )
    platforms = {platform.id: platform for platform in (*known.platforms, *wanted.platforms)}
    return msgspec.structs.replace(known, platforms=list(platforms.values()))


def write_description(folder: Path, about: DatasetDescription) -> None:
    """Write dataset.json."""
    with whole_file(folder / DATASET) as partial:
        partial.write_bytes(msgspec.json.format(msgspec.json.encode(about), indent=1) + b"\n")


def read_description(folder: Path) -> DatasetDescription:
    """`dataset.json` of a folder; InputError where it is missing or wrong."""
    return read_json(folder / DATASET, DatasetDescription, "a folder of `osml learn data`")
