"""JSON from outside: whatever is wrong with it is one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from osml.base.failure import InputError

_T = TypeVar("_T")

NO_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What `msgspec.json.decode` raises: other JSON than expected, bytes that are no UTF-8, a deep nesting."""


class MissingFileError(InputError):
    """There is no such file."""


def from_json(content: bytes, kind: type[_T], where: str) -> _T:
    """What these bytes say, as `kind`. Raises InputError, which begins with `where`, for anything else."""
    try:
        return msgspec.json.decode(content, type=kind)
    except NO_JSON as error:
        raise InputError(f"{where}: {error}") from None


def read_json(file: Path, kind: type[_T], expected: str = "") -> _T:
    """What a file says, as `kind`. Raises InputError, which names the file.

    MissingFileError where there is none. `expected` completes what is said of one that can't be read.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        failure = MissingFileError if isinstance(error, FileNotFoundError) else InputError
        hint = f", expected {expected}" if expected else ""
        raise failure(f"{file} can't be read ({error.strerror}){hint}") from None
    return from_json(content, kind, str(file))
