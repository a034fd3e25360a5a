"""Writes a file that others read as a whole: they find the old content or the new one, never a part."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from osml.base.failure import InputError


@contextmanager
def whole_file(file: Path) -> Generator[Path]:
    """A temporary path that becomes `file` when all went well: nobody ever sees half a file. A full disk names it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(file)
    except OSError as error:
        if error.filename is None and error.errno is not None:  # what pyarrow says of a full disk
            error.filename = str(file)
        raise
    finally:
        partial.unlink(missing_ok=True)


def check_folder(file: Path) -> None:
    """Raise InputError where a file can't be written because of its place, before long work is lost."""
    if file.is_dir():
        raise InputError(f"{file} is a folder, expected a file to write; name a file in it")
    if not file.parent.is_dir():
        raise InputError(f"{file} can't be written: there is no folder {file.parent}; make it first")


def write_whole(file: Path, data: bytes) -> None:
    """Write a file in place of what is there; InputError where that is not possible, and then the old one stays."""
    check_folder(file)
    place = file.resolve()
    try:
        if place.exists() and not place.is_file():  # such as a pipe, which has no content to keep
            place.write_bytes(data)
            return
        with whole_file(place) as new:
            with new.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            if place.exists():
                shutil.copymode(place, new)
    except OSError as error:
        raise InputError(f"{file} can't be written: {error.strerror}") from None
