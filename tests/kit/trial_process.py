"""Commands that start a live trial, as processes of their own, and what they leave on the machine."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from osml.base.agent_binary import find_agent
from osml.base.failure import Failure
from osml.lab.trials.live import machine
from osml.lab.trials.live.cgroups import CONTROL_NAME, ROOT_NAME, find_hierarchies
from osml.lab.trials.live.generator import find_generator

_MARKER = "OSML_TRIAL_TEST"


def skip_where_no_trial_can_run() -> None:
    """Skip, with the reason."""
    try:
        machine.require_root()
        machine.require_trial_programs()
        find_agent(None)
        find_generator(None)
    except Failure as reason:
        pytest.skip(str(reason))


class TrialProcess:
    """A command of osml; every process that it starts carries a marker in its environment."""

    def __init__(self, folder: Path, arguments: Sequence[str]) -> None:
        self._marker = uuid.uuid4().hex
        self.log = folder / f"{self._marker}.log"
        command = [sys.executable, "-c", "from osml.cli.main import main; main()", *arguments]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                env={**os.environ, _MARKER: self._marker},
            )  # fmt: skip

    def processes(self) -> list[str]:
        """Command lines of what is still alive."""
        found: list[str] = []
        for directory in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"{_MARKER}={self._marker}".encode() in (directory / "environ").read_bytes():
                    found.append((directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        return found

    def end(self, timeout_s: float) -> tuple[int, str]:
        """Exit code and standard output."""
        output, _ = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, output.decode()


def groups() -> list[Path]:
    """Cgroups of trials that are there now."""
    roots = find_hierarchies(Path("/proc/mounts").read_text()).roots
    return [root / name for root in roots for name in (ROOT_NAME, CONTROL_NAME) if (root / name).exists()]


def wait_for(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Whether the condition holds within so many seconds."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.1)
    return condition()
