"""A record of the agent (`osml-agent run --record FILE`): one JSON line an interval, what was observed and decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import msgspec

from osml.base.failure import InputError
from osml.base.json_file import NO_JSON
from osml.domain import DRY_RUN, Decision, Observation

_LATE = 1.5
"""An interval that is so many times longer than it says is a gap."""


class Line(msgspec.Struct, frozen=True):
    """A line of a record; the server did not answer where `decision` is null."""

    observation: Observation
    decision: Decision | None


def read(file: Path) -> Iterator[Line | Exception]:
    """The whole lines of a file, or why one is no line of a record: a power cut may leave half a line in the middle.

    A last one that is still being written does not count. InputError where the file can't be read.
    """
    decoder = msgspec.json.Decoder(Line)
    try:
        with file.open("rb") as stream:
            for text in stream:
                if not text.endswith(b"\n"):  # still being written
                    return
                try:
                    found: Line | Exception = decoder.decode(text)
                except NO_JSON as error:
                    found = error
                yield found
    except OSError as error:
        raise InputError(f"{file} can't be read: {error.strerror}") from None


def only_watched(observation: Observation) -> bool:
    """Whether the agent applied nothing in this interval: then its allocations were not in force."""
    return DRY_RUN in observation.missing


@dataclass(frozen=True)
class Record:
    """The lines of one machine in order of time, without those that are no line of a record.

    `gaps` are the places in `lines` before which something is missing, `garbage` counts lines that were skipped.
    """

    lines: list[Line]
    gaps: frozenset[int] = frozenset()
    garbage: int = 0

    @property
    def node(self) -> str:
        """Name of the machine."""
        return self.lines[0].observation.node

    @property
    def dry_run(self) -> bool:
        """Whether the agent only watched all the time: then no allocation of the record was ever in force."""
        return all(only_watched(line.observation) for line in self.lines)

    def part(self, first: int, last: int) -> Record:
        """The lines from `first` up to `last`, which is not in it."""
        gaps = frozenset(at - first for at in self.gaps if first < at < last)
        return Record(self.lines[first:last], gaps, 0)


def gather(files: Sequence[Path]) -> Record:
    """Records of one machine, one after the other, as a whole. Lines that are garbage are counted and left out.

    Raises InputError where a file can't be read, no line is left, or the lines are of two machines.
    """
    lines: list[Line] = []
    garbage = 0
    gaps: set[int] = set()
    for file in files:
        before = len(lines)
        for line in read(file):
            if isinstance(line, Line):
                lines.append(line)
            else:
                garbage += 1
        if 0 < before < len(lines):
            gaps.add(before)
    named = ", ".join(str(file) for file in files)
    if not lines:
        skipped = f", and {garbage} lines are not of a record" if garbage else ""
        raise InputError(f"{named}: no whole line{skipped}; expected a record of `osml-agent run --record`")
    for number, line in enumerate(lines, start=1):  # of the whole lines, over all files
        check_same_machine(lines[0].observation, line.observation, f"{named}: line {number}")
    gaps |= gaps_in([line.observation for line in lines])
    return Record(lines, frozenset(gaps), garbage)


def gaps_in(observations: Sequence[Observation]) -> set[int]:
    """The places before which intervals are missing, or the agent was restarted."""
    return {at for at, (one, two) in enumerate(pairwise(observations), start=1) if _apart(one, two)}


def check_same_machine(first: Observation, seen: Observation, where: str) -> None:
    """InputError where an observation, which is at `where`, is not of the machine of an earlier one."""
    if seen.node != first.node:
        raise InputError(
            f"{where} is of node '{seen.node}', those before of '{first.node}'; give records of one machine"
        )
    if (seen.platform.cpus, seen.platform.ways) != (first.platform.cpus, first.platform.ways):
        raise InputError(
            f"{where} has CPUs {seen.platform.cpus} and {seen.platform.ways} ways, those before "
            f"{first.platform.cpus} and {first.platform.ways}; give records of one machine"
        )


def _apart(one: Observation, two: Observation) -> bool:
    """Whether intervals are missing between two observations, or the agent was restarted."""
    passed = two.time_s - one.time_s
    return two.seq <= one.seq or not 0.0 < passed <= _LATE * max(one.interval_s, two.interval_s)
