"""What a run of a data set is: its name and surroundings, its number, the fold that it belongs to."""

from __future__ import annotations

import hashlib
from typing import NamedTuple


class RunKey(NamedTuple):
    """What a run is, to choose it or not."""

    platform: str
    service: str
    run: str
    load: float | None
    threads: int | None
    neighbours: int | None


def fold_of(run: str, folds: int, seed: int = 0) -> int:
    """A number from 0 to folds - 1 that is the same for all rows of a run, today and tomorrow."""
    digest = hashlib.blake2b(f"{seed}:{run}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % folds


def run_number(run: str) -> int:
    """A run as a number from 0 to 2^63 - 1, the same in every process: what `Examples.run` holds."""
    return int.from_bytes(hashlib.blake2b(run.encode(), digest_size=8).digest(), "big") >> 1
