"""Writing in a folder of models: one writer at a time, and what is written is whole and on the disk."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from osml.base.failure import Failure, InputError

HISTORY = "promotions"
"""Folder of the models' folder: the lock, and the records of promotions (`learning.exchange`)."""


@contextmanager
def locked(models: Path) -> Generator[None]:
    """One writer at a time in a folder. Raises InputError, Failure where it can't be written."""
    if not models.is_dir():
        raise InputError(f"{models} is not a folder of models")
    try:
        (models / HISTORY).mkdir(exist_ok=True)
        lock = (models / HISTORY / "lock").open("w")
    except OSError as error:
        raise unwritable(models, error) from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def in_one_sentence(what: Path) -> Generator[None]:
    """Failure for what the file system refuses."""
    try:
        yield
    except OSError as error:
        raise unwritable(what, error) from None


def unwritable(what: Path, error: OSError) -> Failure:
    """What to raise for a file or folder that can't be written."""
    return Failure(f"{what} can't be written ({error.strerror or error}), so no model can be exchanged")


def write_through(file: Path, content: bytes) -> None:
    """Write a file at once and onto the disk. Raises Failure."""
    partial = file.with_name(f".{file.name}.new")
    with in_one_sentence(file):
        with partial.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(file)
    try:
        sync(file.parent)
    except OSError as error:
        raise Failure(f"{file} is written, but a power failure may lose it ({error.strerror})") from None


def sync(path: Path) -> None:
    """A file, or the names in a folder, onto the disk. Raises OSError."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
