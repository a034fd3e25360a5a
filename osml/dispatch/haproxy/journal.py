"""What the servers were like before the first change, on disk: so that it survives a controller that is killed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from osml.base.failure import InputError, MachineError
from osml.base.json_file import NO_JSON


class Original(msgspec.Struct, frozen=True):
    """One server before the first change. open: not draining. limit: maxconn, null for none."""

    open: bool
    limit: int | None


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    backend: str
    servers: dict[str, Original]


class Journal:
    """A locked file that exists while servers may be changed. A second controller of the backend is refused."""

    def __init__(self, path: Path, backend: str) -> None:
        self.path = path
        self._backend = backend
        try:
            self._file = path.open("a+b")
        except OSError as error:
            raise MachineError(
                f"{path}, the file with the servers' original state, can't be written: {error.strerror}; choose "
                "another one with --state-file"
            ) from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise MachineError(f"another `osml run dispatch` controls this backend (lock on {path})") from None

    def read(self) -> Mapping[str, Original]:
        """What a killed controller left; empty where the last one ended in order."""
        self._file.seek(0)
        text = self._file.read()
        if not text.strip():
            return {}
        try:
            document = msgspec.json.decode(text, type=_Document)
        except NO_JSON as error:
            raise InputError(f"{self.path} is not a state file of osml ({error}): remove it") from None
        if document.backend != self._backend:
            raise InputError(f"{self.path} is of backend '{document.backend}', not '{self._backend}': choose another")
        return document.servers

    def write(self, servers: Mapping[str, Original]) -> None:
        """Remember them, on disk before anything is changed."""
        text = msgspec.json.encode(_Document(self._backend, dict(servers)))
        self._file.seek(0)
        self._file.truncate()
        self._file.write(text + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def clear(self) -> None:
        """Everything is restored: nothing to remember."""
        self._file.seek(0)
        self._file.truncate()
        self._file.flush()

    def close(self) -> None:
        """Let go of the lock. The empty file stays, or a second controller could lock one that is gone."""
        self._file.close()
