"""A process that answers one question: `python -m osml_serving.blame.worker FOLDER` of twins.

It reads observations of one node, a line each, and writes one line: an Answer.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from pathlib import Path

import msgspec

from osml.base.failure import Failure
from osml.decide.outlook import load_outlook
from osml.domain import Observation
from osml_serving.blame.answer import Answer

NICENESS = 15  # after everything else
MEMORY = 2 * 2**30  # bytes of addresses; the libraries take most of them


def answered(folder: Path, lines: list[bytes]) -> Answer:
    """The blame of the node's twin, or why there is none."""
    try:
        observations = [msgspec.json.decode(line, type=Observation) for line in lines]
        return Answer(load_outlook("twin", folder).blame(observations))
    except Failure as failure:
        return Answer(fault=str(failure))


def main() -> None:
    """Keep standard output for the answer: what a library prints goes to the log."""
    with contextlib.suppress(OSError):  # a sandbox may forbid it
        os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        out.write(msgspec.json.encode(answered(Path(sys.argv[1]), sys.stdin.buffer.readlines())) + b"\n")


if __name__ == "__main__":
    main()
