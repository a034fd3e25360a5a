"""Finished runs of a long study in one file of JSON lines: a study that was stopped goes on with what is missing."""

from __future__ import annotations

import json
import os
from collections.abc import Hashable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from osml.base.failure import InputError
from osml.base.sole_use import take_for_this_process


class KeptRuns:
    """The first line holds the settings of the study, each further line a key and what was found.

    A line is on the disk when `add` returns. Half a last line of a killed process is cut off. Raises InputError where
    the file holds runs of other settings or cannot be read or written, or another process writes in it.
    """

    def __init__(self, file: Path, settings: dict[str, Any]) -> None:
        self._path = file
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._file = file.open("a+b")
        except OSError as error:
            raise InputError(f"{file} can't be written ({error.strerror}): choose another file") from None
        self.found: dict[Hashable, Any] = {}
        try:
            take_for_this_process(self._file, str(file), "run: wait for its end")
            self._read(json.loads(json.dumps(settings)))
        except BaseException:
            self._file.close()
            raise

    def _read(self, settings: dict[str, Any]) -> None:
        self._file.seek(0)
        *lines, cut = self._file.read().split(b"\n")
        if cut:
            self._file.truncate(sum(len(line) + 1 for line in lines))
        if not lines:
            self._write({"settings": settings})
            return
        try:
            before = dict(json.loads(lines[0])["settings"])
            self.found = {_hashable(run["key"]): run["found"] for run in map(json.loads, lines[1:])}
        except (ValueError, LookupError, TypeError) as error:
            raise InputError(f"{self._path} is no file of finished runs ({error!r}): choose another file") from None
        other = [key for key in sorted({*before, *settings}) if before.get(key) != settings.get(key)]
        if other:
            raise InputError(
                f"{self._path} has runs with other settings ({', '.join(other)}): choose another file, or the same "
                "settings and code"
            )

    def add(self, key: Hashable, found: Any) -> None:
        """Keep what was found under a key: a number, a text, or a tuple of these."""
        self._write({"key": key, "found": found})
        self.found[key] = found

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _hashable(key: Any) -> Hashable:
    return tuple(key) if isinstance(key, list) else key  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
