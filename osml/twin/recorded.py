"""What was in force in a record, as a policy: so that a twin runs along the record as it was."""

from __future__ import annotations

from msgspec import Struct

from osml.allocation.policy import Plan
from osml.domain import Assignment, Observation, Partition, Platform, Reason, partition_error
from osml.policies.unmanaged import shared_by_all
from osml.records import Record, only_watched
from osml.twin.machine import modelled_partition


class RecordedState(Struct, frozen=True):
    """How many decisions of the record are behind."""

    at: int


class Recorded:
    """What was in force in a record, as a policy. Where the record has nothing that fits, all share everything.

    What a twin does not model is left out of it.
    """

    name = "recorded"
    version = 1
    whole_node = True
    State = RecordedState

    def __init__(self, record: Record) -> None:
        self._partitions = [None if one is None else modelled_partition(one) for one in _in_force(record)]

    def initial(self, observation: Observation, seed: int) -> RecordedState:
        """None is behind."""
        return RecordedState(0)

    def decide(self, observation: Observation, state: RecordedState) -> tuple[Plan, RecordedState]:
        """The partition that was in force after this interval of the record."""
        names = [service.name for service in observation.services]
        found = self._partitions[min(state.at, len(self._partitions) - 1)]
        if found is None or partition_error(found, observation.platform, names) is not None:
            found = shared_by_all(observation)[0]
        return Plan(found, [Reason(text="recorded: as in the record")]), RecordedState(state.at + 1)

    def unfit(self, platform: Platform, names: list[str]) -> int:
        """Number of partitions that these services cannot have on this platform: all share all in their place."""
        return sum(one is not None and partition_error(one, platform, names) is not None for one in self._partitions)


def _in_force(record: Record) -> list[Partition | None]:
    """What was in force after each interval, as the agent reports it with the next one; None where nothing was set.

    A decision may have been refused or undone, and without one the agent holds what it has. Where it does not know what
    is in force, as after others came or went, what it said last goes on, as long as the assignments are those of then:
    a fallback may have released them. After the last interval there is only what was decided on it.
    """
    found: list[Partition | None] = []
    held: Partition | None = None
    with_it: dict[str, Assignment] = {}
    for line in record.lines:
        seen = line.observation
        now = {one.service: one for one in seen.assignments}
        if only_watched(seen):
            held = None
        elif seen.partition is not None:
            held, with_it = seen.partition, now
        elif any(now[name] != with_it[name] for name in now.keys() & with_it.keys()):
            held = None
        found.append(held)
    last = record.lines[-1]
    decided = None if only_watched(last.observation) or last.decision is None else last.decision.partition
    return [*found[1:], held if decided is None else decided]
