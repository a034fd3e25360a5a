"""What a policy would have decided on recorded observations, interval by interval: open loop.

The policy is answered with what its own decisions would have set, as in a dry run of the agent: the observation's
partition is its own last one. Latencies and counters stay those of the record, whatever the policy would have changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from osml.decide.decide import decide
from osml.domain import Decision, Observation, Outcome, Partition, Platform
from osml.records import Record

CANNOT_SHOW = (
    "latencies under these decisions: nothing was applied, so a policy that moves step by step may go further than it "
    "would have had to, or never learn that it has gone far enough",
)
"""What an open-loop replay cannot show, one sentence each."""


@dataclass(frozen=True)
class Replayed:
    """One interval: what the policy decided on it, and what the record did (None: the server did not answer)."""

    seq: int
    time_s: float
    decided: Partition
    recorded: Partition | None
    platform: Platform
    infeasible: bool


def replayed(record: Record, policy: str, seed: int = 0) -> Iterator[Replayed]:
    """Decisions of a policy on every interval. The same record and seed give the same decisions.

    Raises RequestError for an unknown policy or an observation that makes no sense.
    """
    last: Decision | None = None
    present: list[str] = []
    for at, line in enumerate(record.lines):
        seen = line.observation
        names = sorted(service.name for service in seen.services)
        same = names == present and at not in record.gaps
        last = decide(_answered(seen, policy, last, same), seed=seed)
        present = names
        yield Replayed(
            seen.seq, seen.time_s, last.partition, None if line.decision is None else line.decision.partition,
            seen.platform, last.infeasible is not None,
        )  # fmt: skip


def _answered(seen: Observation, policy: str, last: Decision | None, same: bool) -> Observation:
    """The observation as it would have reached the policy; its partition is unknown after others came or went."""
    known = last if same else None
    return replace(
        seen,
        policy=policy,
        policy_state=None if last is None else last.policy_state,
        partition=None if known is None else known.partition,
        assignments=[] if known is None else known.assignments,
        outcome=None if known is None else Outcome(known.seq, "dry_run"),
    )


def shares_of(partition: Partition, platform: Platform, names: list[str]) -> dict[str, dict[str, float | int | None]]:
    """CPUs and ways that each service can reach."""
    return {
        name: {
            "cpus": round(partition.cores_of(name) * platform.core_quantum, 6),
            "ways": None if platform.ways is None else partition.ways_of(name),
        }
        for name in names
    }
