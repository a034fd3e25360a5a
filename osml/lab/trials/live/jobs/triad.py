"""A STREAM-like loop, a = b + 3 c over arrays of 64 MiB: `python -m osml.lab.trials.live.jobs.triad THREADS`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np

from osml.lab.trials.live.enter import die_with_parent
from osml.lab.trials.live.jobs.job import Job

ELEMENTS = 8 * 1024 * 1024


def _command(directory: Path, threads: int) -> list[str]:
    del directory
    return [sys.executable, "-m", "osml.lab.trials.live.jobs.triad", str(threads)]


JOB = Job("triad", sys.executable, "python3", _command, memory=True, user=None)


def _loop() -> None:
    b, c, a = np.ones(ELEMENTS), np.ones(ELEMENTS), np.empty(ELEMENTS)
    while True:
        np.multiply(c, 3.0, out=a)
        np.add(a, b, out=a)


if __name__ == "__main__":
    parent = os.getpid()
    for _ in range(int(sys.argv[1]) - 1):
        if os.fork() == 0:
            die_with_parent(signal.SIGKILL, parent)  # the kernel's promise to the parent is not inherited
            break
    _loop()
