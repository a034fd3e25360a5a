"""What a hypervisor took: told from the load, left out of the fit, and said in the advice."""

from dataclasses import replace as replaced
from functools import cache

from msgspec.structs import replace

from osml.domain import Host
from osml.records import Line, Record
from osml.twin.advice.advise import advised, document
from osml.twin.make import made
from osml.twin.scenes import usable_intervals
from osml.twin.stolen import robbed_intervals, stolen_of
from tests.kit.twin_records import watched

COST = 3.0  # ms that a robbed interval costs each service


def with_steal(record: Record, usual: float, robbed: frozenset[int], share: float) -> Record:
    """The record on a machine whose hypervisor takes time, and where that costs every service COST."""
    lines: list[Line] = []
    for at, line in enumerate(record.lines):
        seen = line.observation
        taken = at in robbed
        services = [
            replace(one, latency=replace(one.latency, p99_ms=one.latency.p99_ms + COST))
            if taken and one.latency is not None and one.latency.p99_ms is not None
            else one
            for one in seen.services
        ]
        host = Host(steal=share if taken else usual)
        lines.append(replace(line, observation=replace(seen, services=services, host=host)))
    return replaced(record, lines=lines)


ROBBED = frozenset(range(30, 120, 4))


@cache
def plain() -> Record:
    return watched(160)


@cache
def robbed() -> Record:
    return with_steal(plain(), 0.02, ROBBED, 0.4)


def test_robbed_intervals_are_those_far_above_the_usual_share():
    assert robbed_intervals(robbed()) == ROBBED
    assert robbed_intervals(plain()) == frozenset(), "nobody counted"
    steady = with_steal(plain(), 0.4, frozenset(), 0.0)
    assert robbed_intervals(steady) == frozenset(), "what is always taken is how this machine is"


def test_they_are_not_what_the_services_are_judged_by():
    assert not set(usable_intervals(robbed())) & ROBBED
    assert set(usable_intervals(plain())) & ROBBED


def test_what_it_cost_is_found_at_the_same_load():
    found = stolen_of(robbed())
    assert found is not None
    assert (found.usual, found.mean_robbed, found.robbed) == (0.02, 0.4, round(len(ROBBED) / 160, 4))
    lc = [one for one in plain().lines[0].observation.services if one.kind == "lc"]
    p99 = {one.name for one in lc if one.percentile == "p99"}
    assert found.ms.keys() & p99
    for name in found.ms.keys() & p99:
        assert abs(found.ms[name] - COST) < 0.5 * COST
    assert stolen_of(plain()) is None


def test_the_advice_says_so_and_without_steal_time_says_that_it_cannot():
    twin = made(robbed(), seed=0, members=24)
    said = document(twin, advised(twin))
    assert any("the hypervisor took 40% of the CPU time" in text for text in said["answer"])
    assert said["hypervisor"]["robbed"] == round(len(ROBBED) / 160, 4)
    assert not any("steal" in text for text in said["unknown"])
    blind = made(plain(), seed=0, members=24)
    assert any("no steal time" in text for text in blind.unknown)
    assert document(blind, advised(blind))["hypervisor"] is None
