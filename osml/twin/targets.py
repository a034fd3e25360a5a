"""How often each service missed its target, over all lines of a record: what a twin leaves out is counted, too."""

from __future__ import annotations

from collections import Counter

import msgspec

from osml.records import Record
from osml.twin.stolen import robbed_intervals


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Intervals in which a service was there, was measured, and missed; `robbed` of the missed were robbed of CPU time.

    Measured are those with a latency and a target. A twin is fitted to a part of them only.
    """

    intervals: int
    measured: int
    missed: int
    robbed: int = 0

    @property
    def share(self) -> float | None:
        """Share of the measured intervals in which it missed; None where none was measured."""
        return self.missed / self.measured if self.measured else None


def targets_of(record: Record) -> dict[str, Target]:
    """The counts of every service that has a target somewhere in the record."""
    there, measured, missed, taken = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    robbed = robbed_intervals(record)
    for at, line in enumerate(record.lines):
        for service in line.observation.services:
            if service.kind != "lc" or service.target_ms is None:
                continue
            there[service.name] += 1
            slack = service.slack
            if slack is None:
                continue
            measured[service.name] += 1
            if slack < 0:
                missed[service.name] += 1
                taken[service.name] += at in robbed
    return {name: Target(there[name], measured[name], missed[name], taken[name]) for name in sorted(there)}
