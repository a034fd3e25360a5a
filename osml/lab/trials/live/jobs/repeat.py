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
    for _ in range(copies):
        subprocess.Popen(program, stdout=subprocess.DEVNULL)
    while True:
        code = os.waitstatus_to_exitcode(os.wait()[1])
        if code != 0:
            sys.exit(f"{program[0]} ended with exit code {code}")
        subprocess.Popen(program, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main(sys.argv[1:])
