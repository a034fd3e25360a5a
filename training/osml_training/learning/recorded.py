"""Experiences of real nodes as tuples of Model-C: one for each LC service of each decision that was carried out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from osml.datasets.schema import TRACE_COLUMNS
from osml.datasets.surfaces import SURELY
from osml.domain import Experience, Observation, Partition, Service
from osml.layout.domains import partition_in
from osml.placement.part import seen_in
from osml.placement.sites import Site, sites_of
from osml.predictors import feature_row
from osml.predictors.actions import REACH, action_index, legal_actions
from osml_training.dqn.rewards import Reward, costs_of, entropy_gain, intolerable, latency_gain
from osml_training.dqn.transitions import Tuples

Floats32 = NDArray[np.float32]
BLOCK_S = 60.0
"""Intervals of one node this close together are alike: they are never split nor resampled apart."""

_COLUMNS = {column.name: column for column in TRACE_COLUMNS}
_RANGES = {"latency_ms": (0.0, 1e7), "latency_over_target": (0.0, 1e7)} | {
    name: (column.low or 0.0, column.high) for name, column in _COLUMNS.items() if column.high is not None
}
"""What is plausible on any machine, by feature."""


class Recorded(NamedTuple):
    """Tuples in the order in which they were received.

    `legal_before` (rows, 49) are the actions that were legal; `before_met` and `after_met` (rows,) whether the target
    was met; `run` (rows,) numbers the runs of each node's agent; `minute` (rows,) is that of its clock.
    `left_out` counts why what was in the store is not here.
    """

    tuples: Tuples
    legal_before: NDArray[np.int8]
    before_met: NDArray[np.bool_]
    after_met: NDArray[np.bool_]
    run: NDArray[np.int64]
    minute: NDArray[np.int64]
    left_out: dict[str, int]

    @property
    def size(self) -> int:
        """Rows."""
        return len(self.run)

    def blocks(self, minutes: int = 1) -> NDArray[np.int64]:
        """(rows,) the number of the block of so many minutes of one node, from 0 on.

        Its services share machine, load and decisions: what happens to one of them happens to the others, too.
        """
        keys = np.stack([self.run, self.minute // minutes], axis=1)
        return np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)

    def part(self, rows: slice | NDArray[np.bool_]) -> Recorded:
        """Some of the rows."""
        tuples = Tuples._make(values[rows] for values in self.tuples)
        legal, before, after = self.legal_before[rows], self.before_met[rows], self.after_met[rows]
        return Recorded(tuples, legal, before, after, self.run[rows], self.minute[rows], self.left_out)

    def split(self, held_out: float) -> tuple[Recorded, Recorded]:
        """The oldest rows, and the newest share `held_out` without those of minutes that the oldest have a part of."""
        cut, blocks = round(self.size * (1 - held_out)), self.blocks()
        return self.part(slice(None, cut)), self.part(slice(cut, None)).part(~np.isin(blocks[cut:], blocks[:cut]))


def recorded(experiences: Iterable[Experience], names: Sequence[str], reward: Reward) -> Recorded:
    """The tuples of experiences of one platform, with the inputs `names`.

    Left out is what teaches nothing or nothing true: decisions that were not carried out, latencies that are missing
    (but a service that is asked much and answers nothing any more has fallen, and its Q_i is 1, unless the agent could
    not read its source), latencies that were measured before the decision, moves by more than 3 cores or ways (what
    came of them is not what comes of one of the 49 actions), numbers that no machine has.
    """
    rows: list[_Row] = []
    left_out: Counter[str] = Counter()
    numbers: dict[tuple[str, int], int] = {}
    runs = _Runs()
    for experience in experiences:
        run = runs.of(experience.before)
        why = _unusable(experience)
        if why is not None:
            left_out[why] += 1
            continue
        parts = _as_decided(experience)
        if isinstance(parts, str):
            left_out[parts] += 1
            continue
        for part in parts:
            for service in part.before.services:
                if service.kind != "lc":
                    continue
                row = _row(part, service, names, reward)
                if isinstance(row, str):
                    left_out[row] += 1
                    continue
                number = numbers.setdefault((experience.before.node, run), len(numbers))
                rows.append(row._replace(run=number, minute=int(experience.before.time_s // BLOCK_S)))
    return _stacked(rows, len(names), dict(left_out))


class _Runs:
    """Numbers the runs of each node's agent: its clock begins anew with every start."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, float]] = {}

    def of(self, observation: Observation) -> int:
        """The number of the run; late deliveries of the same run may be a minute old."""
        run, time_s = self._last.get(observation.node, (0, observation.time_s))
        if observation.time_s < time_s - BLOCK_S:
            run, time_s = run + 1, observation.time_s
        self._last[observation.node] = run, max(time_s, observation.time_s)
        return run


class _Row(NamedTuple):
    before: Floats32
    action: int
    reward: float
    after: Floats32
    legal_after: NDArray[np.int8]
    legal_before: NDArray[np.int8]
    before_met: bool
    after_met: bool
    run: int = -1
    minute: int = -1


def _stacked(rows: list[_Row], inputs: int, left_out: dict[str, int]) -> Recorded:
    def stack(name: str, kind: Any, *shape: int) -> NDArray[Any]:
        values: list[Any] = [getattr(row, name) for row in rows]
        return np.asarray(values, kind).reshape(len(rows), *shape)

    tuples = Tuples(
        stack("before", np.float32, inputs),
        stack("action", np.int64),
        stack("reward", np.float32),
        stack("after", np.float32, inputs),
        stack("legal_after", np.int8, 49),
    )
    return Recorded(
        tuples,
        stack("legal_before", np.int8, 49),
        stack("before_met", np.bool_),
        stack("after_met", np.bool_),
        stack("run", np.int64),
        stack("minute", np.int64),
        left_out,
    )


def _unusable(experience: Experience) -> str | None:
    """Why a whole experience teaches nothing; None where it does."""
    before, after, decision = experience.before, experience.after, experience.decision
    platform = before.platform
    if after.outcome is None or after.outcome.status not in ("applied", "unchanged"):
        return "decision was not carried out"
    if before.partition is None or platform.ways is None or platform.core_quantum != 1:
        return "cores and ways before it are not known as whole numbers"
    if after.partition != decision.partition:
        return "allocation after it is not the decided one"
    if after.platform != platform:
        return "platform changed"
    return None


def _as_decided(experience: Experience) -> list[Experience] | str:
    """The experience as the policy saw and decided it: one of each cache domain where regions name them.

    A sentence where there is no such one.
    """
    old, new = experience.before.partition, experience.decision.partition
    if old is None or not (old.by_domain or new.by_domain):
        return [experience]
    if not (old.by_domain and new.by_domain):
        return "regions were of the node and became those of cache domains, or the reverse"
    if not experience.after.services:
        return "service vanished"
    sites = sites_of(experience.before.platform)
    if not sites.keys() >= new.by_domain.keys():
        return "cache domains of its regions are not known"
    return [_in_domain(experience, sites[domain], len(new.by_domain)) for domain in sorted(new.by_domain)]


def _in_domain(experience: Experience, site: Site, n_domains: int) -> Experience:
    decided = partition_in(experience.decision.partition, site.domain)
    names = decided.reach().keys()
    before, after = (
        seen_in(site, [one for one in seen.services if one.name in names], seen, n_domains)
        for seen in (experience.before, experience.after)
    )
    return replace(experience, before=before, decision=replace(experience.decision, partition=decided), after=after)


def _row(experience: Experience, service: Service, names: Sequence[str], reward: Reward) -> _Row | str:
    """The tuple of one service, or why there is none."""
    before, after = experience.before, experience.after
    then = next((found for found in after.services if found.name == service.name), None)
    if then is None or then.kind != "lc":
        return "service vanished"
    unread = then.latency is None and f"latency.{service.name}" in after.missing
    starved = _starved(service, then, after.interval_s) and not unread
    if service.latency_ms is None or (then.latency_ms is None and not starved):
        return "latency is missing"
    if _was_before(then, after.interval_s):
        return "latency is from before the decision"
    if (service.target_ms, service.percentile) != (then.target_ms, then.percentile) or service.target_ms is None:
        return "target changed"
    old, new = before.partition, experience.decision.partition
    if old is None or not any(service.name in region.owners for region in old.regions):
        return "service is new"
    moved = (
        new.cores_of(service.name) - old.cores_of(service.name),
        new.ways_of(service.name) - old.ways_of(service.name),
    )
    if max(abs(moved[0]), abs(moved[1])) > REACH:
        return f"moved by more than {REACH}"
    action = action_index(*moved)
    legal_after, legal_before = _legal(after, new, then), _legal(before, old, service)
    if not (legal_after.any() and legal_before.any()):
        return "regions sum up to more than the machine has"
    states = feature_row(before, service.name, names), feature_row(after, service.name, names)
    for state in states:
        odd = implausible(state, names)
        if odd is not None:
            return f"{odd} is beyond what a machine has"
    then_ms = np.inf if then.latency_ms is None else then.latency_ms
    ratio = np.array([service.latency_ms, then_ms], np.float32) / np.float32(service.target_ms)
    q_i = intolerable(ratio)
    if reward.kind == "latency":
        means = [None if s.latency is None else s.latency.mean_ms for s in (service, then)]
        if None in means:
            return "mean latency is missing"
        gain = latency_gain(*(np.array([mean], np.float32) for mean in means))
    else:
        gain = entropy_gain(q_i[:1], q_i[1:], reward.cliff)
    costs = costs_of(before.platform.cores, before.platform.ways or 1, reward)
    return _Row(
        states[0],
        action,
        float(gain[0] - costs[action]),
        states[1],
        legal_after,
        legal_before,
        bool(ratio[0] <= 1),
        bool(ratio[1] <= 1),
    )


def _starved(before: Service, after: Service, interval_s: float) -> bool:
    """Whether nobody was answered although many asked, as in `dqn.transitions`: a fall, not a gap in the data."""
    rate = None if before.latency is None else before.latency.requests_per_s
    return after.latency_ms is None and rate is not None and rate * interval_s >= SURELY


def _was_before(after: Service, interval_s: float) -> bool:
    """Whether its newest sample is older than the decision: an agent sends the last latency of a slow source again."""
    age_s = None if after.latency is None else after.latency.age_s
    return age_s is not None and age_s >= interval_s


def implausible(state: Floats32, names: Sequence[str]) -> str | None:
    """The first feature that no machine can have; None where there is none. NaN, not measured, is fine."""
    for name, value in zip(names, state.tolist(), strict=True):
        low, high = _RANGES.get(name, (0.0, 1e12))
        if value < low or value > high:
            return name
    return None


def _legal(observation: Observation, partition: Partition, service: Service) -> NDArray[np.int8]:
    """(49,) what the service may do: take what no LC service owns, give all but one core and way."""
    lc = {found.name for found in observation.services if found.kind == "lc"}
    owned = [region for region in partition.regions if lc & set(region.owners)]
    platform = observation.platform
    free = platform.cores - sum(r.cores for r in owned), (platform.ways or 0) - sum(r.ways for r in owned)
    return legal_actions(partition.cores_of(service.name), partition.ways_of(service.name), *free)
