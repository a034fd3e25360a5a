"""A policy on a twin in closed loop: on the machine of the record, with its loads, and as recorded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace as replaced

import numpy as np
import pytest
from msgspec.structs import replace

from osml.allocation.policy import Plan
from osml.base.failure import InputError
from osml.domain import Decision, KnobRange, Knobs, Latency, Observation, Outcome, Partition, Platform, Region, Service
from osml.policies.unmanaged import Unmanaged, UnmanagedState
from osml.records import Line, Record
from osml.simulator.load_traces import loads_at
from osml.twin.closed import loads_along, outcomes_under, run_along
from osml.twin.closed_replay import consequences
from osml.twin.commands.whatif import under_policy
from osml.twin.ensemble import Ensemble
from osml.twin.fit import drawn
from osml.twin.make import made
from osml.twin.recorded import Recorded, RecordedState
from osml.twin.scenes import rate_of, scenes_of
from osml.twin.whatif import chosen_scenes, outcomes_of
from osml.twin.world import LONGEST_MS
from tests.kit.twin_records import managed, watched

NAMES = ["service-1", "service-2", "service-3", "job-1"]


def _ensemble(record: Record, members: int = 2) -> Ensemble:
    """Members that nobody fitted: good enough for what is in force on them."""
    return drawn(record, scenes_of(record), {}, members, np.random.default_rng(0))


def _applied(platform: Platform, partitions: Sequence[Partition]) -> Record:
    """A record of this machine in which an agent applied these, each from the interval after its decision on."""
    lines: list[Line] = []
    before: Partition | None = None
    for line, partition in zip(watched().lines, partitions, strict=False):
        seen = replace(line.observation, platform=platform, partition=before, missing={})
        lines.append(Line(seen, Decision(seen.node, seen.seq, "hand", partition, [])))
        before = partition
    return Record(lines)


def _apart(cores: int, ways: int, knobs: dict[str, Knobs] | None = None) -> Partition:
    """So many units more for the first service than for each other."""
    counts = {name: 2 * cores if name == NAMES[0] else cores for name in NAMES}
    return Partition([Region([name], count, ways) for name, count in counts.items()], knobs=knobs or {})


PLATFORM = watched().lines[0].observation.platform


@pytest.mark.parametrize(
    ("platform", "cores", "ways", "knobs"),
    [
        pytest.param(replace(PLATFORM, ways=None, way_mib=None), 6, 0, {}, id="no CAT"),
        pytest.param(replace(PLATFORM, cores=360, core_quantum=0.1), 60, 4, {}, id="tenths of a CPU"),
        pytest.param(
            replace(PLATFORM, frequency_mhz=KnobRange(1200, 2300, 100)), 6, 4,
            {"job-1": Knobs(frequency_mhz=1500)}, id="clock",
        ),
    ],
)  # fmt: skip
def test_what_was_in_force_is_replayed_on_the_machine_of_the_record(
    platform: Platform, cores: int, ways: int, knobs: dict[str, Knobs]
) -> None:
    decided = [_apart(cores, ways, knobs)] * 12 + [_apart(cores - 1, ways, knobs)] * 12
    record = _applied(platform, decided)
    recorded = Recorded(record)
    run = run_along(_ensemble(record), record, recorded, members=1)
    assert run.partitions == decided
    assert recorded.unfit(platform, NAMES) == 0


def test_a_partition_that_does_not_fit_is_counted() -> None:
    without_job = Partition([Region([name], 10, 5) for name in NAMES[:3]])
    record = _applied(PLATFORM, [_apart(6, 4)] * 12 + [without_job] * 8)
    assert Recorded(record).unfit(PLATFORM, NAMES) == 8


def test_a_decision_that_was_not_applied_was_not_in_force() -> None:
    """For three intervals the server does not answer, and one decision is refused: the agent keeps what it has."""
    first, second = _apart(6, 4), _apart(5, 4)
    lines = _applied(PLATFORM, [first] * 10 + [second] * 10).lines
    for at in (4, 5, 6):
        lines[at] = Line(lines[at].observation, None)
    for at in range(11, 20):  # the decision on interval 10 is refused
        outcome = Outcome(at - 1, "refused") if at == 11 else None
        lines[at] = Line(replace(lines[at].observation, partition=first, outcome=outcome), lines[at].decision)
    lines[15] = Line(replace(lines[15].observation, partition=None), lines[15].decision)  # somebody came or went
    record = Record(lines)
    run = run_along(_ensemble(record), record, Recorded(record), members=1)
    assert run.partitions == [first] * 19 + [second]  # what comes of the last decision nobody knows


def test_a_record_that_was_only_watched_has_everything_shared() -> None:
    record = watched().part(0, 20)
    run = run_along(_ensemble(record), record, Recorded(record), members=1)
    assert {len(one.regions) for one in run.partitions} == {1}
    assert Recorded(record).unfit(PLATFORM, NAMES) == 0


def test_loads_change_with_the_intervals_of_the_record() -> None:
    """1.0003 added to itself is not its multiple."""
    record, interval_s, rates = watched(), 1.0003, {"service-1": 1e6}
    trace = loads_along(record, rates, interval_s)["service-1"]
    assert not isinstance(trace, float)
    time_s = expected = 0.0
    for line in record.lines:
        rate = rate_of(line.observation.services[0])
        expected = expected if rate is None else rate / rates["service-1"]
        assert loads_at(trace, time_s) == expected
        time_s += interval_s


def test_a_policy_sees_the_ways_and_units_of_the_record_s_machine() -> None:
    platform = replace(PLATFORM, cores=360, core_quantum=0.1, ways=None, way_mib=None)
    record = _applied(platform, [_apart(60, 0)] * 24)
    [first, *_] = run_along(_ensemble(record), record, "even", members=1).partitions
    assert first.ways == 0
    assert first.cores == 360


def test_what_was_decided_on_an_interval_stands_beside_it() -> None:
    record = managed(60)
    run = run_along(_ensemble(record), record, Recorded(record), members=1)
    assert run.partitions == [line.decision.partition for line in record.lines if line.decision]


class Broken(Recorded):
    """A policy with a defect."""

    def decide(self, observation: Observation, state: RecordedState) -> tuple[Plan, RecordedState]:
        raise ZeroDivisionError("a defect of the policy")


def test_a_policy_that_fails_is_not_shown_as_if_it_had_decided() -> None:
    record = managed(60)
    with pytest.raises(ZeroDivisionError, match="a defect of the policy"):
        run_along(_ensemble(record), record, Broken(record), members=1)


def test_a_service_that_nobody_asks_has_no_latency() -> None:
    """An idle service took a minute in every interval, which hid what the policy does to it when it is busy."""
    lines: list[Line] = []
    for at, line in enumerate(managed(60).lines):
        services = [
            replace(one, latency=Latency(requests_per_s=0.0))
            if one.name == "service-3" or (one.name == "service-2" and at < 30)
            else one
            for one in line.observation.services
        ]
        lines.append(Line(replace(line.observation, services=services), line.decision))
    record = Record(lines)
    found = consequences(made(managed(60), seed=1, members=16), record, "even", members=2)
    never = found.overall()["services"]["service-3"]
    assert set(never.values()) == {None}
    assert set(found.row(10)["services"]["service-2"].values()) == {None}
    assert found.row(40)["services"]["service-2"]["recorded_ms"] < LONGEST_MS
    assert found.overall()["services"]["service-2"]["policy_ms"] < LONGEST_MS


def _limited(record: Record, **limits: int) -> Record:
    """The record of a node whose operator limits the first service."""
    lines: list[Line] = []
    for line in record.lines:
        first, *others = line.observation.services
        services = [replace(first, **limits), *others]
        lines.append(Line(replace(line.observation, services=services), line.decision))
    return Record(lines)


def test_a_policy_keeps_to_the_limits_of_the_operator() -> None:
    record = _limited(managed(60), max_cores=3, max_ways=2)
    ensemble = _ensemble(record)
    partitions = run_along(ensemble, record, "even", members=1).partitions
    assert {(one.cores_of("service-1"), one.ways_of("service-1")) for one in partitions} == {(3, 2)}
    kept = Watching()
    outcomes_under(ensemble, chosen_scenes(scenes_of(record))[:1], kept, members=1)
    assert {(seen.services[0].max_cores, seen.services[0].max_ways) for seen in kept.seen} == {(3, 2)}


def test_a_service_without_a_target_is_named_before_a_policy_runs() -> None:
    lines = [
        Line(replace(seen, services=[replace(one, target_ms=None) for one in seen.services]), line.decision)
        for line in watched().lines
        for seen in [line.observation]
    ]
    record = Record(lines)
    ensemble = _ensemble(record)
    with pytest.raises(InputError, match="service 'service-1' has no target_ms, without which no policy"):
        outcomes_under(ensemble, chosen_scenes(scenes_of(record))[:1], "unmanaged", members=1)
    with pytest.raises(InputError, match="service 'service-1' has no target_ms"):
        run_along(ensemble, record, "unmanaged", members=1)


class Watching(Unmanaged):
    """Unmanaged, and keeps what it saw."""

    def __init__(self) -> None:
        self.seen: list[Observation] = []

    def decide(self, observation: Observation, state: UnmanagedState) -> tuple[Plan, UnmanagedState]:
        self.seen.append(observation)
        return super().decide(observation, state)


def test_a_target_for_the_mean_is_compared_with_means() -> None:
    """The tail of a service is far above its mean: compared with it, every policy made it slower."""
    lines = [
        Line(replace(seen, services=[replace(one, percentile="mean") for one in seen.services]), line.decision)
        for line in watched().lines
        for seen in [line.observation]
    ]
    twin = made(Record(lines), seed=1, members=16)
    for one in under_policy(twin.ensemble, chosen_scenes(twin.scenes)[:1], "unmanaged", members=2):
        assert one.ratio == pytest.approx(1.0, abs=0.05), one


def test_a_service_keeps_the_limit_of_its_own_under_a_policy() -> None:
    """Unmanaged is what the agent watched: nothing changes for anybody, also not for who can't bear its load."""
    twin = made(watched(), seed=1, members=16)
    scenes = chosen_scenes(twin.scenes)[:1]
    busy = math.exp(scenes[0].seen["service-1"]["cpu"].log)
    limited = replaced(twin.ensemble, quotas={"service-1": 1.15 * busy})
    found = under_policy(limited, scenes, "unmanaged", members=2)
    assert {one.name for one in found} == set(NAMES)
    for one in found:
        assert one.ratio == pytest.approx(1.0, abs=0.05), one
    assert outcomes_of(limited, scenes, members=1)[0][0]["service-1"] > 1000.0  # its queue grows


def test_what_the_agent_gave_back_while_the_server_was_silent_is_not_in_force() -> None:
    """Its fallback released the allocation: from then on all share all, until a decision is applied again."""
    record = managed()
    lines = list(record.lines)
    every = lines[0].observation.platform.cpus
    for at in range(20, 40):
        seen = lines[at].observation
        free = [replace(one, cpus=every, way_mask=None) for one in seen.assignments]
        lines[at] = Line(replace(seen, partition=None, assignments=free), None)
    found = Recorded(Record(lines))._partitions
    assert found[10] is not None
    assert found[20:38] == [None] * 18
    assert found[45] is not None


def test_levers_that_do_nothing_on_a_twin_are_not_there() -> None:
    memory = KnobRange(1024, 65536, 1024)
    platform = replace(PLATFORM, memory_mib=memory, disk_iops=KnobRange(100, 1000, 100))
    decided = _apart(6, 4, {"job-1": Knobs(memory_mib=2048, frequency_mhz=None)})
    record = _applied(platform, [decided] * 12)
    recorded = Recorded(record)
    assert recorded.unfit(platform, NAMES) == 0
    run = run_along(_ensemble(record), record, recorded, members=1)
    assert run.partitions == [_apart(6, 4)] * 12
    under = run_along(_ensemble(record), record, "parties", members=1)
    assert all(one.memory_mib is None for partition in under.partitions for one in partition.knobs.values())
    found = consequences(made(record, members=16, seed=0), record, "unmanaged", members=2)
    assert any("memory_mib, disk_iops: these levers do nothing" in text for text in found.cannot_show)


def test_a_service_whose_requests_nobody_counts_is_named() -> None:
    lines: list[Line] = []
    for line in managed(60).lines:
        services = [_uncounted(one) if one.name == "service-2" else one for one in line.observation.services]
        lines.append(Line(replace(line.observation, services=services), line.decision))
    found = consequences(made(managed(60), seed=1, members=16), Record(lines), "even", members=2)
    assert "service-2: its requests are not counted, so it has no load there" in found.cannot_show


def _uncounted(service: Service) -> Service:
    latency = service.latency
    return service if latency is None else replace(service, latency=replace(latency, requests_per_s=None))


def test_a_policy_is_judged_by_the_targets_of_the_record() -> None:
    """Those of the twin are as old as its own record."""
    twin = made(managed(60), seed=1, members=16)
    lines: list[Line] = []
    for line in managed(60).lines:
        seen = line.observation
        services = [replace(one, target_ms=one.target_ms and one.target_ms / 50) for one in seen.services]
        lines.append(Line(replace(seen, services=services), line.decision))
    before, strict = (consequences(twin, record, "even", members=2) for record in (managed(60), Record(lines)))
    assert np.nanmean(strict.policy_e_s) > np.nanmean(before.policy_e_s) + 0.2
    assert np.nanmean(strict.recorded_e_s) > np.nanmean(before.recorded_e_s) + 0.2


def test_a_replay_has_the_usual_interval_of_the_record() -> None:
    """A record may begin with a turn that came late."""
    lines = list(managed(60).lines)
    lines[0] = Line(replace(lines[0].observation, interval_s=30.0), lines[0].decision)
    record, kept = Record(lines), Watching()
    run_along(_ensemble(record), record, kept, members=1)
    assert {seen.interval_s for seen in kept.seen} == {1.0}
