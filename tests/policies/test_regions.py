"""Holdings, clocks and partitions: what is written is read back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from osml.allocation.clocks import clocks_of
from osml.allocation.division import divide
from osml.allocation.limits import Scale, budgets
from osml.allocation.regions import owned_alone, partition_of, with_knob
from osml.decide.decide import RequestError, decide
from osml.domain import KnobRange, Knobs, MbaRange, Observation, Partition, Platform, Region, Service, partition_error

NAMES = ["a", "b", "c"]
PLATFORM = Platform(
    id="p",
    cores=24,
    cpus="0-23",
    ways=20,
    mba=MbaRange(10, 100, 10),
    frequency_ghz=2.2,
    frequency_mhz=KnobRange(1200, 3600, 100),
    memory_mib=KnobRange(1024, 60 * 1024 + 500, 1024),
    disk_iops=KnobRange(13, 256, 13),
    network_mbps=KnobRange(500, 10_000, 500),
)
LC = [Service(name=name, kind="lc", target_ms=1.0) for name in NAMES]
JOBS = [Service(name="x", kind="be"), Service(name="y", kind="be")]


class Before:
    wanted = None


def division_of(resource: str, *, all_share: bool = False, platform: Platform = PLATFORM):
    services = [*LC, *JOBS]
    everybody = tuple(service.name for service in services)
    observed = Observation("n", 0, 1.0, 1.0, platform, services)
    sharers = everybody if all_share else ("x", "y")
    return divide(observed, everybody if all_share else NAMES, lambda _: sharers, Before(), (resource,)), everybody


@given(
    st.sampled_from(["cores", "ways", "memory", "disk", "network"]),
    st.lists(st.tuples(st.sampled_from(["", *NAMES]), st.sampled_from(["", *NAMES])), max_size=40),
)
def test_what_services_own_is_read_back_from_the_partition(resource: str, moves: list[tuple[str, str]]) -> None:
    division, everybody = division_of(resource)
    for giver, taker in moves:
        division.move(resource, giver, taker)
    holding, partition = division.holdings[resource], division.partition()
    assert holding.legal
    assert owned_alone(partition, resource, NAMES, holding.scale) == holding.own
    assert sum(holding.own.values()) + holding.pool == holding.total
    if resource not in ("cores", "ways"):
        both = with_knob(
            partition_of([], {"cores": [(everybody, 24)], "ways": [(everybody, 20)]}, everybody), "memory_mib", {}
        )
        both = Partition(both.regions, knobs=partition.knobs)
        assert partition_error(both, PLATFORM, list(everybody)) is None


@given(st.lists(st.tuples(st.sampled_from(["", *NAMES]), st.sampled_from(["", *NAMES])), max_size=40))
def test_memory_bandwidth_is_read_back_from_throttles(moves: list[tuple[str, str]]) -> None:
    division, _ = division_of("mba", all_share=True)
    for giver, taker in moves:
        division.move("mba", giver, taker)
    holding, mba = division.holdings["mba"], division.partition().mba
    assert owned_alone(division.partition(), "mba", list(holding.own), holding.scale) == holding.own
    assert all(10 <= value <= 100 and value % 10 == 0 for value in mba.values())
    assert mba["x"] == 10 * holding.pool


@pytest.mark.parametrize(
    ("mba", "total", "step"),
    [
        (MbaRange(10, 100, 10), 10, 10),
        (MbaRange(5, 100, 5), 10, 10),
        (MbaRange(1, 100, 0), 10, 10),
        (MbaRange(1, 2048, 1, "eighth_gbps"), 9, 205),
        (MbaRange(0, 40_000, 1000, "mbps"), 10, 4000),
    ],
)
def test_memory_bandwidth_is_moved_in_about_ten_steps_of_the_hardware(mba: MbaRange, total: int, step: int) -> None:
    platform = Platform(id="p", cores=4, cpus="0-3", mba=mba)
    [budget] = budgets(Observation("n", 0, 1.0, 1.0, platform, LC), ("mba",))
    assert (budget.total, budget.scale, budget.floor) == (total, Scale(step, mba.max), 1)


def test_all_units_are_all_that_there_is() -> None:
    scale = Scale(13, 256)
    assert [scale.amount(units) for units in (1, 18, 19)] == [13, 234, 256]
    assert [scale.units(amount) for amount in (13, 234, 246, 256)] == [1, 18, 18, 19]


def test_a_node_that_can_not_divide_a_resource_leaves_it_alone() -> None:
    bare = Platform(id="bare", cores=24, cpus="0-23", ways=20)
    for resource in ("memory", "disk", "network", "mba"):
        division, _ = division_of(resource, platform=bare)
        assert division.holdings == {}
        assert division.partition() == Partition([])
    assert clocks_of(bare, NAMES, None) is None


def test_more_services_than_parts_of_a_knob_share_it_without_a_limit() -> None:
    narrow = Platform(id="p", cores=24, cpus="0-23", network_mbps=KnobRange(500, 2000, 500))
    division, _ = division_of("network", platform=narrow)
    assert division.partition().knobs == {}
    assert "5 parts of at least 1 don't fit in 4 network; all services share the network" in division.notes[0]
    assert division.infeasible() is None


@pytest.mark.parametrize("policy", ["parties", "heracles"])
def test_absurdly_fine_ranges_are_moved_in_coarser_steps(policy: str) -> None:
    fine = KnobRange(0, 2**62, 1)
    platform = Platform(
        id="p",
        cores=24,
        cpus="0-23",
        ways=20,
        frequency_ghz=1e9,
        frequency_mhz=fine,
        memory_mib=fine,
        disk_iops=fine,
        network_mbps=fine,
    )
    [budget] = budgets(Observation("n", 0, 1.0, 1.0, platform, LC), ("memory",))
    assert budget.total == 4096
    observed = Observation("n", 0, 1.0, 1.0, platform, [*LC, *JOBS], policy=policy)
    decision = decide(observed)
    newcomer = Service(name="new", kind="lc", target_ms=1.0)
    again = decide(
        replace(
            observed,
            seq=1,
            services=[*LC, newcomer, *JOBS],
            partition=decision.partition,
            policy_state=decision.policy_state,
        )
    )
    assert again.partition.cores_of("new") > 0


def test_a_range_upside_down_is_refused_by_name() -> None:
    platform = Platform(id="p", cores=24, cpus="0-23", disk_iops=KnobRange(20, 10, 1))
    with pytest.raises(RequestError, match=r"platform\.disk_iops: min 20 is above max 10"):
        decide(Observation("n", 0, 1.0, 1.0, platform, LC))


def test_clocks_start_at_the_nominal_one_and_end_in_turbo() -> None:
    clocks = clocks_of(PLATFORM, NAMES, None)
    assert clocks is not None
    assert clocks.ladder == (*range(1200, 2300, 100), None)
    assert set(clocks.limits().values()) == {2200}
    up = clocks.moved("a", 1)
    assert up is not None
    assert up.mhz("a") is None
    assert up.moved("a", 1) is None
    assert clocks.moved("a", -11) is None
    assert clocks.moved("unknown", -1) is None


def test_clocks_of_another_policy_are_not_taken_over_at_the_start() -> None:
    services = [*LC, *JOBS]
    foreign = Partition([Region([s.name for s in services], 24, 20)], knobs={"a": Knobs(frequency_mhz=1200)})
    observed = Observation("n", 0, 1.0, 1.0, PLATFORM, services, partition=foreign)
    division = divide(observed, NAMES, lambda _: ("x", "y"), Before(), ("frequency",))
    assert division.clocks is not None
    assert division.clocks.mhz("a") == 2200


def test_clocks_are_read_back_and_newcomers_start_at_the_nominal_one() -> None:
    before = Partition([Region(["a", "b"], 4, 4)], knobs={"a": Knobs(frequency_mhz=1850)})
    clocks = clocks_of(PLATFORM, NAMES, before)
    assert clocks is not None
    assert clocks.limits() == {"a": 1800, "b": None, "c": 2200}


def test_a_nominal_clock_between_two_steps_is_a_rung_of_its_own() -> None:
    odd = Platform(id="p", cores=4, cpus="0-3", frequency_ghz=2.25, frequency_mhz=KnobRange(2000, 3000, 100))
    clocks = clocks_of(odd, ["a"], None)
    assert clocks is not None
    assert clocks.ladder == (2000, 2100, 2200, 2250, None)


def test_a_knob_without_a_limit_is_not_written() -> None:
    partition = with_knob(Partition([]), "frequency_mhz", {"a": 1800, "b": None})
    assert partition.knobs == {"a": Knobs(frequency_mhz=1800)}
    assert with_knob(partition, "frequency_mhz", {"a": None}).knobs == {}
