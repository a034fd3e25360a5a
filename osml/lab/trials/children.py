"""Child processes of a trial: logs to files, ready checks, and none left behind however the trial ends."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from osml.base.failure import Failure

OSML = (sys.executable, "-m", "osml")  # the `osml` of this interpreter; it need not be on PATH
STOP_GRACE_S = 10.0
LOG_TAIL = 5
PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST_PORT = 10_000  # below are the usual ports of services


class Child:
    """One child process in a process group of its own."""

    def __init__(self, name: str, command: Sequence[str], log: Path, env: dict[str, str] | None = None) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as stream:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                start_new_session=True,  # a Ctrl-C of the terminal reaches the trial alone, which then stops in order
            )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """True until the process has ended."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def log_tail(self, lines: int = LOG_TAIL) -> str:
        """Last lines of what the process said."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return " | ".join(text.strip().splitlines()[-lines:])

    def check(self) -> None:
        """Raise Failure, with its last words, when the process has ended."""
        if not self.running:
            raise Failure(f"{self.name} ended with exit code {self.exit_code}: {self.log_tail() or 'no output'}")

    def last_words(self, lines: int = LOG_TAIL) -> str:
        """The end of its log, and what the kernel says of the process: one that is stuck may say nothing."""
        return f"{self.log_tail(lines) or 'nothing'} ({self._whereabouts()})"

    def _whereabouts(self) -> str:
        directory = Path("/proc") / str(self.pid)
        try:
            words = (directory / "cmdline").read_bytes().decode(errors="replace").split("\0")
            fields = (directory / "stat").read_text().rpartition(")")[2].split()  # the name may hold anything
            waits = (directory / "wchan").read_text()
        except OSError:
            return f"process {self.pid} has ended"
        used_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime, stime: proc(5)
        waiting = f", waiting in {waits}" if waits not in ("", "0") else ""
        return f"process {self.pid} ({' '.join(words[:3]).strip()}), state {fields[0]}, {used_s:.2f} s of CPU{waiting}"

    def kill(self) -> None:
        """SIGKILL to the whole group, for tests of sudden death."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """SIGTERM, then SIGKILL to the whole group after `grace_s`."""
        if self.running:
            # The leader alone first: it stops its own children in order.
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # the group is gone


class Children:
    """Owner of a trial's children: stops them in reverse order of their start."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._logs.mkdir(parents=True, exist_ok=True)
        self._children: list[Child] = []

    def start(self, name: str, command: Sequence[str], env: dict[str, str] | None = None) -> Child:
        """Start a child whose output goes to `<logs>/<name>.log`."""
        try:
            child = Child(name, command, self._logs / f"{name}.log", env)
        except OSError as error:
            what = error.filename or command[0]
            raise Failure(f"{name} can't be started: {what}: {error.strerror}") from None
        self._children.append(child)
        return child

    def stop(self, child: Child) -> None:
        """Stop one child before the others."""
        child.stop()
        self._children.remove(child)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in reversed(self._children):
            child.stop()
        self._children.clear()


def wait_until(ready: Callable[[], bool], what: str, children: Sequence[Child], timeout_s: float = 30.0) -> None:
    """Poll until `ready()`; Failure when a child ends before or the time runs out."""
    deadline = time.monotonic() + timeout_s
    while not ready():
        for child in children:
            child.check()
        if time.monotonic() > deadline:
            last = "; ".join(f"{child.name}: {child.last_words()}" for child in children)
            raise Failure(f"{what} was not ready within {timeout_s:g} s; last output: {last}")
        time.sleep(0.05)


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on now.

    Where there are such ports, it lies below those that the kernel gives by itself: between this answer and its use,
    neither an outgoing connection nor a listener on port 0 can take it.
    """
    try:
        lowest_of_kernel = int(PORT_RANGE.read_text().split()[0])
    except OSError:
        lowest_of_kernel = 0
    for _ in range(100 if lowest_of_kernel > LOWEST_PORT else 0):
        with contextlib.suppress(OSError):  # somebody listens there
            return _bind(LOWEST_PORT + secrets.randbelow(lowest_of_kernel - LOWEST_PORT))
    return _bind(0)


def _bind(port: int) -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", port))
        return int(probe.getsockname()[1])


class Interrupted(Failure):
    """The trial was stopped by SIGINT or SIGTERM."""

    exit_code = 130


def interrupt_on_signals() -> None:
    """Turn SIGTERM and SIGINT into Interrupted, so that every `with` block ends in order. Main thread only."""
    if threading.current_thread() is not threading.main_thread():
        return

    def raise_interrupted(number: int, frame: FrameType | None) -> None:
        del frame
        # A second signal must not break the clean-up that the first one started.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Interrupted(f"stopped by {signal.Signals(number).name}; all started processes are stopped")

    signal.signal(signal.SIGINT, raise_interrupted)
    signal.signal(signal.SIGTERM, raise_interrupted)
