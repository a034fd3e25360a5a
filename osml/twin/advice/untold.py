"""Services of which a twin can't say why they are slow: never measured, or only in intervals that were left out."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from osml.twin.advice.blame import MISSES
from osml.twin.document import Twin
from osml.twin.targets import Target

_MOSTLY, _NEARLY = 0.5, 0.95


@dataclass(frozen=True)
class Untold:
    """A service with a target that no scene of the twin shows. `record` is None where nobody counted its targets, and
    `counted` says whether its requests were counted.
    """

    name: str
    record: Target | None
    counted: bool = True

    @property
    def words(self) -> list[str]:
        """What is to be said of it; nothing where it was measured and meets its target."""
        share = None if self.record is None else self.record.share
        if self.record is None:
            return [f"{self.name} has no latency in the intervals that the twin was fitted to; fit the twin again."]
        if share is None:
            return [f"{self.name} was never measured, so whether it meets its target can't be told."]
        if share < MISSES:
            return []
        why = "this record" if self.counted else "a record without a count of its requests"
        return [misses(self.name, share, self.record), f"What {self.name} suffers from can't be told from {why}."]


def untold_of(twin: Twin, told: AbstractSet[str]) -> tuple[Untold, ...]:
    """The services with a target that are not among those of which something can be told."""
    if twin.targets is not None:
        return tuple(
            Untold(name, counts, bool(twin.rates.get(name)))
            for name, counts in twin.targets.items()
            if name not in told
        )
    return tuple(
        Untold(one.name, None)
        for one in twin.tenants
        if one.kind == "lc" and one.target_ms is not None and one.name not in told
    )


def misses(name: str, share: float, record: Target | None) -> str:
    """In which share of which intervals a service misses its target."""
    rare = record is not None and record.measured < _NEARLY * record.intervals
    of = f"the {record.measured:,} intervals in which it was measured" if record and rare else "the intervals"
    return f"{name} misses its target in {share:.0%} of {of}."


def aside(name: str, record: Target | None) -> tuple[list[str], bool | None]:
    """What is to be said of who misses its target only outside of what the twin was fitted to; whether a lever helps.

    False: most of it is the hypervisor's. None: it can't be told.
    """
    said = [f"{name} meets its target in nearly all intervals that the twin was fitted to."]
    if record is not None and record.missed and record.robbed > _MOSTLY * record.missed:
        share = record.robbed / record.missed
        said.append(f"In {share:.0%} of those that it misses the hypervisor took CPU time.")
        return said, False
    said.append("It misses it where allocations changed or the record has gaps, or too seldom: why can't be told.")
    return said, None
