"""Keeps so many copies of a command running: `python -m osml.lab.trials.live.jobs.repeat COPIES -- COMMAND...`.

For programs that end: a compiler, a compressor. Their output is dropped.
"""

from __future__ import annotations

import os
import subprocess
import sys


def command(copies: int, program: list[str]) -> list[str]:
    """The command line that keeps `copies` of `program` running."""
    return [sys.executable, "-m", "osml.lab.trials.live.jobs.repeat", str(copies), "--", *program]


def main(arguments: list[str]) -> None:
    """Does not return; ends with exit code 1 where the program fails."""
    copies, program = int(arguments[0]), arguments[2:]
    # Kept until it is waited for here: subprocess waits for those that nobody keeps whenever another one is started.
    running = [subprocess.Popen(program, stdout=subprocess.DEVNULL) for _ in range(copies)]
    while True:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        for at, copy in enumerate(running):
            code = copy.poll()
            if code:
                sys.exit(f"{program[0]} ended with exit code {code}")
            if code == 0:
                running[at] = subprocess.Popen(program, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main(sys.argv[1:])
