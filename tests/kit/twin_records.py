"""Small records of virtual nodes, for tests of twins."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from osml.lab.twins.hidden import hidden, record_of
from osml.records import Record


@cache
def watched(seconds: int = 120, seed: int = 3) -> Record:
    """A node with three services and a job whose agent only watches, under the condition `real`."""
    return record_of(hidden("real", seed, beside_job=True, seconds=seconds), seconds)


@cache
def services_alone(seconds: int = 120, seed: int = 3) -> Record:
    """Three services without a job, watched."""
    return record_of(hidden("real", seed, beside_job=False, seconds=seconds), seconds)


@cache
def managed(seconds: int = 120, seed: int = 3) -> Record:
    """The same node under a policy that moves allocations."""
    return record_of(hidden("real", seed, beside_job=True, seconds=seconds), seconds, "parties")


def write(record: Record, file: Path) -> Path:
    """A record as the agent writes it."""
    file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in record.lines))
    return file
