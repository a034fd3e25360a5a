"""The decisions of a record, by what became of them: applied, only supposed, or refused by the machine."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection

import msgspec

from osml.domain import NOT_DONE, Decision, Observation, Partition, Platform, usable_domains
from osml.records import Line, only_watched


class _Open(msgspec.Struct, frozen=True):
    """A decision that no later line has spoken of yet. `targeted`: names of the services that had a target so far."""

    observation: Observation
    decision: Decision
    targeted: frozenset[str]


class Decided:
    """Sums over decisions: those that were applied, or those of a dry run."""

    def __init__(self) -> None:
        self.cells: defaultdict[str, Counter[tuple[float, int | None]]] = defaultdict(Counter)
        self.count = self.changes = self.infeasible = 0
        self.policies: Counter[str] = Counter()
        self.not_applied: Counter[str] = Counter()
        self.free_cpus: list[float] = []
        self.free_ways: list[int] = []
        self.node_ways: int | None = None
        self._before: Partition | None = None

    def refused(self, decision: Decision, status: str) -> None:
        """See a decision that gave nothing to anybody."""
        self.policies[decision.policy] += 1
        self.not_applied[status] += 1

    def see(self, now: Observation, decision: Decision, targeted: Collection[str]) -> None:
        """See a decision that was in force."""
        partition, platform = decision.partition, now.platform
        self.changes += partition != (self._before if self.count else now.partition)
        self._before = partition
        self.count += 1
        self.infeasible += decision.infeasible is not None
        self.policies[decision.policy] += 1
        for name in {service.name for service in now.services}.intersection(targeted):  # who is away has no cell
            cpus = round(platform.core_quantum * partition.cores_of(name), 6)
            self.cells[name][cpus, None if platform.ways is None else partition.ways_of(name)] += 1
        own = [region for region in partition.regions if set(region.owners).issubset(targeted)]
        self.free_cpus.append(platform.core_quantum * (platform.cores - sum(region.cores for region in own)))
        if platform.ways is not None:
            self.node_ways = _ways_of(platform, partition)
            self.free_ways.append(self.node_ways - sum(region.ways for region in own))


class Decisions:
    """All decisions of a record. What became of one is in the next observation, so each waits for that."""

    def __init__(self) -> None:
        self.applied, self.supposed = Decided(), Decided()
        self._open: _Open | None = None

    def see(self, line: Line, targeted: Collection[str], *, again: bool) -> None:
        """See the next line. With `again` it is the first of another run, which knows nothing of earlier decisions."""
        self._close(None if again else line.observation)
        if line.decision is not None:
            self._open = _Open(line.observation, line.decision, frozenset(targeted))

    def end(self) -> None:
        """See that there is no further line. Nothing speaks against the last decision, so it counts as applied."""
        self._close(None)

    @property
    def answered(self) -> int:
        """Intervals with a decision."""
        return sum(kind.count + kind.not_applied.total() for kind in (self.applied, self.supposed))

    def _close(self, after: Observation | None) -> None:
        one, self._open = self._open, None
        if one is None:
            return
        kind = self.supposed if only_watched(one.observation) else self.applied
        outcome = None if after is None else after.outcome
        if outcome is not None and outcome.seq == one.decision.seq and outcome.status in NOT_DONE:
            kind.refused(one.decision, outcome.status)
        else:
            kind.see(one.observation, one.decision, one.targeted)


def _ways_of(platform: Platform, partition: Partition) -> int:
    """Ways of all caches that the partition divides: of each domain where regions name one."""
    return (platform.ways or 0) * (len(usable_domains(platform)) if partition.by_domain else 1)
