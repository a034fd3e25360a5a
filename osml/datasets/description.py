"""What travels with every file: the machine's fingerprint, where the data come from, under which licence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec

from osml import __version__
from osml.base.failure import InputError
from osml.base.json_file import NO_JSON

LICENCE = "CDLA-Permissive-2.0"
"""Default licence of data (SPDX id)."""

LICENCES = ("CDLA-Permissive-2.0", "CC-BY-4.0", "CC0-1.0", "Apache-2.0")
"""Licences that a contribution may have."""

SCHEMA_KEY, PROVENANCE_KEY, PLATFORM_KEY, LICENCE_KEY = (
    "osml.schema",
    "osml.provenance",
    "osml.platform",
    "osml.licence",
)
DESCRIBED = (SCHEMA_KEY, PROVENANCE_KEY, PLATFORM_KEY, LICENCE_KEY)
"""Keys of a file's metadata that `described` reads."""


_Text = Annotated[str, msgspec.Meta(max_length=256)]
_Cpus = Annotated[int, msgspec.Meta(ge=1, le=4096)]
_Ways = Annotated[int, msgspec.Meta(ge=1, le=64)]
_Size = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
"""Those of `schema.py`. Grids are as large as a description says, so whoever reads one must not believe all of it."""


class Fingerprint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A machine, as far as it matters for the numbers; None where it is not known. No name, no address, no serial."""

    id: _Text
    cpu_model: _Text | None = None
    stepping: int | None = None
    microcode: _Text | None = None
    kernel: _Text | None = None
    logical_cpus: _Cpus | None = None
    physical_cores: _Cpus | None = None
    smt: bool | None = None
    governor: _Text | None = None
    base_ghz: _Size | None = None
    turbo_ghz: _Size | None = None
    llc_mib: _Size | None = None
    llc_ways: _Ways | None = None  # that can be allocated; None where the cache can't be partitioned
    way_mib: _Size | None = None
    bandwidth_gbps: _Size | None = None  # peak of one socket
    memory_gib: _Size | None = None
    mba: bool | None = None
    hypervisor: _Text | None = None


def common(descriptions: Iterable[Fingerprint]) -> Fingerprint:
    """What the descriptions of machines with one id say together; None where two of them differ, or none says it."""
    told = list(descriptions)
    found: dict[str, Any] = {}
    for name in Fingerprint.__struct_fields__:
        values = {getattr(one, name) for one in told} - {None}
        found[name] = values.pop() if len(values) == 1 else None
    return Fingerprint(**found)


class Provenance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where rows come from. `settings` are those of the program, as JSON values."""

    kind: Literal["real", "virtual"]
    program: str
    version: str = __version__
    seed: int | None = None
    settings: dict[str, Any] = {}
    notes: list[str] = []


def metadata(schema: str, provenance: Provenance, platform: Fingerprint, licence: str = LICENCE) -> dict[str, str]:
    """Key-value metadata of a file. It has no date: the same sweep makes the same bytes."""
    return {
        SCHEMA_KEY: schema,
        PROVENANCE_KEY: msgspec.json.encode(provenance).decode(),
        PLATFORM_KEY: msgspec.json.encode(platform).decode(),
        LICENCE_KEY: licence,
    }


class FileDescription(msgspec.Struct, frozen=True):
    """What the metadata of a file say."""

    schema: str
    provenance: Provenance
    platform: Fingerprint
    licence: str


def described(found: dict[bytes, bytes] | None, where: str) -> FileDescription:
    """Read the metadata of a file; InputError names the key that is missing or wrong."""
    texts = {key.decode("utf-8", "replace"): value for key, value in (found or {}).items()}
    for key in DESCRIBED:
        if key not in texts:
            raise InputError(f"{where}: metadata key '{key}' is missing, expected a file of `osml learn data`")
    try:
        return FileDescription(
            texts[SCHEMA_KEY].decode(),
            msgspec.json.decode(texts[PROVENANCE_KEY], type=Provenance),
            msgspec.json.decode(texts[PLATFORM_KEY], type=Fingerprint),
            texts[LICENCE_KEY].decode(),
        )
    except NO_JSON as error:
        raise InputError(f"{where}: metadata can't be read ({error})") from None
