"""All processes that a program started, wherever they went: found by a mark in their environment."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

MARK = "OSML_PROFILE_RUN"
"""Environment variable that every process of a run inherits; its value belongs to one run."""

_ROUNDS = 100
"""Looks for processes that were forked while others were ended, at most."""


@dataclass(frozen=True)
class Run:
    """A value of the mark, and the sessions that the run started. A program may overwrite its environment (nginx)."""

    value: str
    sessions: set[int] = field(default_factory=set[int])


def members(run: Run) -> Iterator[int]:
    """Process ids of a run. Processes that this user may not look at are left out."""
    wanted = f"{MARK}={run.value}".encode()
    for directory in Path("/proc").iterdir():
        if not directory.name.isdecimal() or int(directory.name) == os.getpid():
            continue
        with contextlib.suppress(OSError, IndexError):
            session = int(_stat(directory)[3])
            if session in run.sessions or wanted in (directory / "environ").read_bytes().split(b"\0"):
                yield int(directory.name)


def _stat(directory: Path) -> list[str]:
    """Fields of `stat` from the state on: proc(5). The name before may hold anything."""
    return (directory / "stat").read_text().rpartition(")")[2].split()


def cpu_seconds(run: Run) -> float:
    """CPU time of the living threads of a run, to the nanosecond: a tick of `stat` is longer than many requests."""
    total = 0
    for pid in members(run):
        for task in _tasks(pid):
            with contextlib.suppress(OSError, ValueError, IndexError):
                total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def ticks(run: Run) -> tuple[int, int]:
    """Ticks of CPU time of the living processes of a run, outside of the kernel and in it."""
    user = kernel = 0
    for pid in members(run):
        with contextlib.suppress(OSError, IndexError):
            fields = _stat(Path("/proc") / str(pid))
            user, kernel = user + int(fields[11]), kernel + int(fields[12])  # utime, stime: proc(5)
    return user, kernel


def _tasks(pid: int) -> list[Path]:
    try:
        return list((Path("/proc") / str(pid) / "task").iterdir())
    except OSError:
        return []


def end_all(run: Run) -> int:
    """SIGKILL to every process of a run that is left; how many there were. The run has no session any more then."""
    ended: set[int] = set()
    for _ in range(_ROUNDS):
        left = set(members(run)) - ended  # one may have forked while the others were listed
        if not left:
            break
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        ended |= left
    run.sessions.clear()  # their numbers may be others' next
    return len(ended)
