"""`sweep.jsonl` of a data set: each finished cell in a line, on the disk before the next one begins."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Literal

import msgspec

from osml.base.failure import InputError
from osml.base.json_file import NO_JSON
from osml.datasets.store import SWEEP
from osml.domain import Observation

CellState = Literal["met", "missed", "silent", "unsafe", "refused"]


class Condition(msgspec.Struct, frozen=True, omit_defaults=True):
    """What stays the same over a surface.

    `load`: requests per second of the generator (None: the load is what comes). `mba`: the memory-bandwidth throttle of
    the service, in the platform's unit (None: none).
    """

    load: float | None = None
    mba: int | None = None


class Swept(msgspec.Struct, frozen=True):
    """What a sweep is about; a file holds one."""

    service: str
    platform: str
    cores: int
    core_quantum: float
    ways: int | None
    target_ms: float
    percentile: str
    neighbours: list[str]


class FinishedCell(msgspec.Struct, frozen=True, omit_defaults=True):
    """A cell (core units, ways; from 1), under `condition`, at `offered_per_s`, and the intervals measured in it.

    `latency_ms` is that of a cell that was `met` or `missed`, at the target's percentile. In a `silent` one nothing was
    answered: its intervals are those of the silence, without a latency. `why` says what ended a cell before its time.
    """

    cell: tuple[int, int]
    state: CellState
    condition: Condition
    offered_per_s: float | None
    latency_ms: float | None = None
    why: str = ""
    intervals: list[Observation] = []


class Measured(msgspec.Struct, frozen=True):
    """What came of a cell: this latency."""

    ms: float
    why: str = ""


class Silent(msgspec.Struct, frozen=True):
    """What came of a cell: no answer."""

    why: str = "no answer"


class Unsafe(msgspec.Struct, frozen=True):
    """A protected neighbour missed its target."""

    why: str


class Refused(msgspec.Struct, frozen=True):
    """The agent did not apply it."""

    why: str


Result = Measured | Silent | Unsafe | Refused


def told_of(result: Result, target_ms: float) -> tuple[CellState, float | None, str]:
    """How the journal says what came of a cell: state, latency, why."""
    match result:
        case Measured(ms, why):
            return "met" if ms <= target_ms else "missed", ms, why
        case Silent(why):
            return "silent", None, why
        case Unsafe(why):
            return "unsafe", None, why
        case Refused(why):
            return "refused", None, why


class _Header(msgspec.Struct, frozen=True):
    sweep: Swept
    id: str  # tells the runs of this sweep from those of another machine of the same kind


def read(folder: Path) -> tuple[Swept, list[FinishedCell]] | None:
    """What a folder has of a sweep; None where there is none. A last line without its end does not count.

    Raises InputError where the file is something else.
    """
    file = folder / SWEEP
    if not file.exists():
        return None
    content = file.read_bytes()
    lines = content[: content.rfind(b"\n") + 1].splitlines()
    try:
        if not lines:
            return None
        about = msgspec.json.decode(lines[0], type=_Header).sweep
        return about, [msgspec.json.decode(line, type=FinishedCell) for line in lines[1:]]
    except NO_JSON as error:
        raise InputError(f"{file} is not the journal of a sweep ({error}): use another folder") from None


def of_this_sweep(folder: Path, about: Swept) -> list[FinishedCell] | None:
    """The finished cells of a folder; None where it has no sweep. InputError where it has the sweep of something else.

    It writes nothing.
    """
    found = read(folder)
    if found is None:
        return None
    before, cells = found
    differs = [name for name in Swept.__struct_fields__ if getattr(before, name) != getattr(about, name)]
    if differs:
        raise InputError(
            f"{folder / SWEEP} is a sweep with {differs[0]} {getattr(before, differs[0])!r}, now it is "
            f"{getattr(about, differs[0])!r}: use another folder"
        )
    return cells


class Journal:
    """The file, open for more cells."""

    def __init__(self, folder: Path, about: Swept) -> None:
        """Raises InputError where the folder has the sweep of something else."""
        found = of_this_sweep(folder, about)
        self.cells: list[FinishedCell] = found or []
        file = folder / SWEEP
        folder.mkdir(parents=True, exist_ok=True)
        if found is not None:
            content = file.read_bytes()
            os.truncate(file, content.rfind(b"\n") + 1)
        self._file = file.open("ab")
        if found is None:
            os.truncate(file, 0)
            self._append(_Header(about, secrets.token_hex(6)))

    def add(self, cell: FinishedCell) -> None:
        """Keep a cell."""
        self.cells.append(cell)
        self._append(cell)

    def _append(self, line: msgspec.Struct) -> None:
        self._file.write(msgspec.json.encode(line) + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """No more cells."""
        self._file.close()
