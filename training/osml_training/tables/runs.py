"""What a run of a data set is: its name and surroundings, its number, the fold that it belongs to."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from osml.base.failure import InputError
from osml.datasets.store import read_groups


class RunKey(NamedTuple):
    """What a run is, to choose it or not.

    `rate` is in requests per second, and only told where nobody knows the `load`: the share of the maximum load.
    """

    platform: str
    service: str
    run: str
    load: float | None
    threads: int | None
    neighbours: int | None
    rate: float | None = None


class NoExamplesError(InputError):
    """A part of a data set in which there is nothing to learn from, or to judge by; nothing in it is wrong."""


def fold_of(run: str, folds: int, seed: int = 0) -> int:
    """A number from 0 to folds - 1 that is the same for all rows of a run, today and tomorrow."""
    digest = hashlib.blake2b(f"{seed}:{run}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % folds


def run_number(run: str) -> int:
    """A run as a number from 0 to 2^63 - 1, the same in every process: what `Examples.run` holds."""
    return int.from_bytes(hashlib.blake2b(run.encode(), digest_size=8).digest(), "big") >> 1


def rates_of(traces: Path) -> dict[str, float]:
    """Requests per second of the runs of a traces file, where they are known."""
    found: dict[str, float] = {}
    for _, table in read_groups(traces, ["run", "offered_per_s"]):
        for row in table.group_by("run").aggregate([("offered_per_s", "max")]).to_pylist():
            if row["offered_per_s_max"]:
                found[row["run"]] = max(found.get(row["run"], 0.0), row["offered_per_s_max"])
    return found
