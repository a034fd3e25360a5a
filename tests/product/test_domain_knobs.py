"""Frequency, memory, disk, network and priorities on their way from a partition to a node."""

from pathlib import Path

import msgspec
import pytest

from osml.domain import (
    Assignment,
    Decision,
    KnobRange,
    Knobs,
    Observation,
    Partition,
    Platform,
    Region,
    Service,
    partition_error,
)
from osml.layout import LayoutError, assign
from osml.simulator import catalogs
from osml.simulator.closed_loop import grant_of
from osml.simulator.node_platform import LEVERS, REALTIME, domain_platform

MODEL = catalogs.platform("e5-2699v4")
PLATFORM = domain_platform(MODEL, levers=frozenset(LEVERS))
SERVICES = [Service(name="a", kind="lc", target_ms=1.0), Service(name="b", kind="be")]


def partition(**knobs: Knobs) -> Partition:
    return Partition([Region(["a"], 2, 4), Region(["b"], 3, 5)], knobs=knobs)


def why_not(platform: Platform = PLATFORM, **knobs: Knobs) -> str:
    return partition_error(partition(**knobs), platform, ["a", "b"]) or "legal"


def test_knobs_reach_the_assignment_and_the_node() -> None:
    knobs = Knobs(1800, 2048, 64, 1500, 10, 0.5)
    first, second = assign(partition(a=knobs), PLATFORM, SERVICES)
    assert (first.knobs, second.knobs) == (knobs, None)
    grant = grant_of(first, MODEL)
    assert (grant.frequency_ghz, grant.memory_gib, grant.disk_iops, grant.network_gbps) == (1.8, 2.0, 64, 1.5)
    assert (grant.priority, grant.slice_ms) == (10, 0.5)
    assert grant_of(second, MODEL).frequency_ghz is None


@pytest.mark.parametrize(
    ("knobs", "text"),
    [
        (Knobs(frequency_mhz=1100), "frequency_mhz of 'a' is 1100, expected 1200 to 3600"),
        (Knobs(memory_mib=10**6), "memory_mib of 'a' is 1000000, expected 1024 to 122880"),
        (Knobs(network_mbps=400), "network_mbps of 'a' is 400, expected 500 to 10000"),
    ],
)
def test_a_knob_outside_its_range_is_illegal(knobs: Knobs, text: str) -> None:
    assert why_not(a=knobs) == text


def test_what_is_divided_adds_up_to_the_platform_at_most() -> None:
    half = Knobs(memory_mib=61_440)
    assert why_not(a=half, b=half) == "legal"
    assert "sum up to 122881" in why_not(a=half, b=Knobs(memory_mib=61_441))
    turbo = Knobs(frequency_mhz=3600)
    assert why_not(a=turbo, b=turbo) == "legal"


def test_a_platform_without_a_knob_refuses_it() -> None:
    plain = domain_platform(MODEL, levers=REALTIME)
    assert "can't set it" in why_not(plain, a=Knobs(frequency_mhz=1800))
    assert why_not(plain, a=Knobs(realtime_priority=1)) == "legal"
    bare = msgspec.structs.replace(plain, realtime=False)
    assert "no real-time scheduling" in why_not(bare, a=Knobs(realtime_priority=1))
    assert "not a service" in why_not(c=Knobs())
    with pytest.raises(LayoutError, match="can't set it"):
        assign(partition(a=Knobs(disk_iops=13)), plain, SERVICES)


GOLDEN = Path(__file__).parents[2] / "actuator/tests/golden"


def test_what_the_agent_reads_and_writes_of_knobs_is_what_the_domain_means() -> None:
    knobs = Knobs(memory_mib=4096, disk_iops=2000, realtime_priority=10, slice_ms=100, frequency_mhz=1800)
    seen = msgspec.json.decode((GOLDEN / "observation.json").read_bytes(), type=Observation)
    assert seen.platform.frequency_mhz == KnobRange(1200, 3600, 100)
    assert seen.platform.memory_mib == KnobRange(1024, 235929, 1024)
    assert seen.platform.disk_iops == KnobRange(500, 10000, 500)
    assert seen.platform.realtime
    assert seen.partition is not None
    assert seen.partition.knobs == {"moses": knobs}
    assert seen.assignments[0].knobs == knobs
    sent = msgspec.json.decode((GOLDEN / "decision.json").read_bytes(), type=Decision)
    assert sent.partition.knobs == {"moses": knobs}
    assert [one.knobs for one in sent.assignments] == [knobs, None]


def test_the_wire_has_only_the_knobs_that_are_set() -> None:
    text = msgspec.json.encode(Assignment(service="a", knobs=Knobs(memory_mib=1024)))
    assert msgspec.json.decode(text)["knobs"] == {"memory_mib": 1024}
    assert msgspec.json.decode(text, type=Assignment).knobs == Knobs(memory_mib=1024)
    old = b'{"node": "n", "seq": 1, "policy": "even", "partition": {"regions": []}, "assignments": [{"service": "a"}]}'
    assert msgspec.json.decode(old, type=Decision).assignments[0].knobs is None


def test_steps_of_the_knobs_divide_the_node_into_units() -> None:
    for limits in (PLATFORM.frequency_mhz, PLATFORM.memory_mib, PLATFORM.disk_iops, PLATFORM.network_mbps):
        assert isinstance(limits, KnobRange)
        assert limits.min <= limits.step * 12 <= limits.max
