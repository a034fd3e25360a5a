"""A server process on a CPU of its own, and the CPU time of all that it started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

READY_S = 120.0
PROC = Path("/proc")


@contextlib.contextmanager
def two_cores() -> Generator[tuple[int, int]]:
    """The CPU of the servers, and that of whom asks, where this process stays. The same if there is one only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))  # `make bench` gives it one only
    known = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {known[-1]})
    try:
        yield known[0], known[-1]
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def started(
    command: Sequence[str],
    port: int,
    cpu: int,
    home: Path,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Generator[Running]:
    """A command that serves on a port, on one CPU; all its processes end with the block.

    `home` is an empty folder for what it prints, `environment` is added to ours, and `folder` is where it starts.
    """
    with (home / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            ["taskset", "-c", str(cpu), *command],
            cwd=folder,
            env=os.environ | dict(environment or {}),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        yield Running(process, port, home / "output.txt")
    finally:
        _end(process)


class Running:
    """A server that was started."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, output: Path) -> None:
        self.process, self.port, self._output = process, port, output

    def told(self) -> str:
        """The end of what it printed, for the message of an error."""
        return self._output.read_text("utf-8", errors="replace")[-1500:]

    def cpu_s(self) -> float:
        """CPU time so far of the process and all that it started and that still run."""
        return sum(_cpu_s(pid) for pid in family(self.process.pid))


def _cpu_s(pid: int) -> float:
    """Of all its threads, those that ended too. The ticks of /proc are too coarse for a short sample."""
    with contextlib.suppress(OSError):
        return time.clock_gettime((~pid << 3) | 2)  # the clock of clock_getcpuclockid(3), which Python does not have
    return 0.0


def family(pid: int) -> set[int]:
    """A process and all that descend from it."""
    running = (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())
    parents = {one: fields[1] for one in running if (fields := _stat(one))}
    found, new = {pid}, {pid}
    while new:
        new = {child for child, parent in parents.items() if int(parent) in new} - found
        found |= new
    return found


def _stat(pid: int) -> list[str]:
    """Of /proc/PID/stat what follows the program's name, which may have blanks; nothing where the process has ended."""
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
    return []


def _born(pid: int) -> str:
    """When the process began: another one that gets its number later began at another time."""
    return next(iter(_stat(pid)[19:]), "")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end; what is still there after that is killed."""
    born = {pid: _born(pid) for pid in family(process.pid) - {process.pid}}
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(15)
    for pid, when in born.items():
        if when and _born(pid) == when:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    process.kill()
    process.wait(15)
