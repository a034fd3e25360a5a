"""The load generator `osml-loadgen` as a child: one process for all services, outside of the managed cgroups."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from osml.base.agent_binary import BUILD
from osml.base.failure import Failure, MachineError
from osml.lab.trials.live import enter

BUILT = BUILD / "loadgen/osml-loadgen"
MARK_WITHIN_S = 10.0
POLL_S = 0.02


def find_generator(given: Path | None) -> Path:
    """The given path, else this checkout's release build, else the one on PATH. Raises MachineError without any."""
    if given is not None:
        if not given.is_file():
            raise MachineError(f"--loadgen {given} is not a file, expected the osml-loadgen binary")
        return given
    if BUILT.is_file():
        return BUILT
    installed = shutil.which("osml-loadgen")
    if installed is None:
        raise MachineError("no osml-loadgen in the build folder or on PATH: build it with `make agent`")
    return Path(installed)


class Generator:
    """A running generator, steered by lines on its standard input; its marks come back as JSON lines."""

    def __init__(self, binary: Path, specs: list[str], seed: int, log: Path, groups: list[Path]) -> None:
        command = [str(binary), "--seed", str(seed)]
        for spec in specs:
            command += ["--service", spec]
        self._marks = log.with_suffix(".marks.jsonl")
        self._log = log
        # Marks go to a file, not to a pipe: a pipe that nobody reads in time would stop the generator.
        with log.open("wb") as errors, self._marks.open("wb") as marks:
            self._process = subprocess.Popen(
                enter.command(command, groups),
                stdin=subprocess.PIPE,
                stdout=marks,
                stderr=errors,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def check(self) -> None:
        """Raise Failure, with its last words, when it has ended."""
        if self._process.poll() is not None:
            words = self._log.read_text(errors="replace").strip()
            raise Failure(f"osml-loadgen ended with exit code {self._process.returncode}: {words or 'no output'}")

    def set_rates(self, rates: dict[str, float]) -> None:
        """From now on, in requests per second."""
        for name, rate in rates.items():
            self._say(f"rate {name} {rate:g}")

    def mark(self, label: str) -> dict[str, Any]:
        """End a phase: what was measured since the last mark (osml-loadgen's keys)."""
        before = self._marks.stat().st_size  # only new lines: a mark of many services is long
        self._say(f"mark {label}")
        deadline = time.monotonic() + MARK_WITHIN_S
        while time.monotonic() < deadline:
            for line in self._marks.read_bytes()[before:].splitlines(keepends=True):
                if line.endswith(b"\n") and (found := json.loads(line))["mark"] == label:
                    return found
            self.check()
            time.sleep(POLL_S)
        raise Failure(f"osml-loadgen did not answer within {MARK_WITHIN_S:g} s")

    def stop(self) -> None:
        """The end of its standard input ends it; SIGKILL where it does not."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _say(self, line: str) -> None:
        if self._process.stdin is None:
            return
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            self.check()
            raise Failure("osml-loadgen closed its standard input") from None
