"""What the servers were like before the first change, on disk: so that it survives a controller that is killed.

Each state is a line, and the last whole one counts: a controller that is killed as it writes leaves the one before.
"""

from __future__ import annotations

import errno
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


class Process(msgspec.Struct, frozen=True):
    """One HAProxy process. since: `time.monotonic()` seconds of its start, since a container may give a PID again."""

    pid: str = ""
    since: float = 0.0

    def is_another(self, process: Process) -> bool:
        """Whether this is not `process`. HAProxy tells whole seconds."""
        return self.pid != process.pid or abs(self.since - process.since) > SAME_START_S


SAME_START_S = 3.0


class Left(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a killed controller left: servers as they were before the first change, in the HAProxy that it changed."""

    backend: str
    servers: dict[str, Original]
    haproxy: Process | None = None


_BEGIN = b'{"backend":'


class Journal:
    """A locked file that exists while servers may be changed. A second controller of the backend is refused."""

    def __init__(self, path: Path, backend: str) -> None:
        self.path = path
        self._backend = backend
        try:
            self._file = path.open("a+b", buffering=0)
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

    def read(self) -> Left | None:
        """What a killed controller left; None where the last one ended in order, or before its first change.

        Raises InputError for a file that is not osml's, or of another backend.
        """
        self._file.seek(0)
        lines = self._file.read().splitlines()
        for line in reversed(lines):
            try:
                left = msgspec.json.decode(line, type=Left)
            except msgspec.ValidationError as error:
                raise self._not_ours(error) from None
            except NO_JSON:  # it was cut off, perhaps several writes ago
                continue
            if left.backend != self._backend:
                raise InputError(f"{self.path} is of backend '{left.backend}', not '{self._backend}': choose another")
            return left
        for line in lines:
            if not _BEGIN.startswith(line[: len(_BEGIN)]):
                raise self._not_ours("no line is a state")
        return None

    def _not_ours(self, why: object) -> InputError:
        return InputError(f"{self.path} is not a state file of osml ({why}): remove it")

    def write(self, servers: Mapping[str, Original], haproxy: Process) -> None:
        """Remember them, on disk before anything is changed. Raises MachineError where that fails; the old state stays.

        A line that was cut off before is ended first.
        """
        end = self._file.seek(0, os.SEEK_END)
        text = msgspec.json.encode(Left(self._backend, dict(servers), haproxy))
        try:
            if self._file.write(b"\n" + text + b"\n") != len(text) + 2:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(end)
            raise MachineError(
                f"{self.path}, the file with the servers' original state, can't be written: {error.strerror}; no "
                "server is changed without it"
            ) from None

    def clear(self) -> None:
        """Everything is restored: nothing to remember."""
        self._file.truncate(0)

    def close(self) -> None:
        """Let go of the lock. The empty file stays, or a second controller could lock one that is gone."""
        self._file.close()
