from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osml.domain import Assignment, MbaRange, Partition, Platform, Region, Service, partition_error
from osml.domain.cpulist import is_contiguous, parse_cpulist
from osml.layout import LayoutError, assign, lay_out


def platform(cores: int, ways: int | None = 8, *, smt: bool = False, **more: object) -> Platform:
    siblings = [[i, i + cores // 2] for i in range(cores // 2)] if smt else []
    return Platform(id="p", cores=cores, cpus=f"0-{cores - 1}", ways=ways, siblings=siblings, **more)


def services(*names: str) -> list[Service]:
    return [Service(name=name, kind="lc", target_ms=10) for name in names]


def regions(*parts: tuple[str, int, int]) -> Partition:
    return Partition([Region(owners.split("+"), cores, ways) for owners, cores, ways in parts])


def cpus_of(assignments: list[Assignment]) -> dict[str, set[int]]:
    return {a.service: set(parse_cpulist(a.cpus or "")) for a in assignments}


def masks_of(assignments: list[Assignment]) -> dict[str, int]:
    return {a.service: int(a.way_mask or "0", 16) for a in assignments}


@st.composite
def small_partitions(draw: st.DrawFn, max_cores: int = 6, max_ways: int = 6, star: bool = True) -> tuple:
    names = ["a", "b", "c", "d"][: draw(st.integers(1, 4))]
    cores = draw(st.sampled_from([c for c in (4, 6, 8, 12) if len(names) <= c <= max_cores]))
    ways = draw(st.integers(len(names), max_ways))
    owner_sets = [[name] for name in names] + ([names] if star and len(names) > 1 else [])
    counts = []
    for total in (cores, ways):
        cuts = sorted(draw(st.lists(st.integers(0, total), min_size=len(owner_sets), max_size=len(owner_sets))))
        counts.append([high - low for low, high in zip([0, *cuts], cuts, strict=False)])
    partition = Partition([Region(list(o), c, w) for o, c, w in zip(owner_sets, *counts, strict=True)])
    smt = draw(st.booleans())
    node = platform(cores, ways, smt=smt)
    return partition, node, services(*names)


def legal(case: tuple) -> bool:
    partition, node, tenants = case
    return partition_error(partition, node, [s.name for s in tenants]) is None


@given(
    small_partitions(max_cores=12, max_ways=12).filter(legal), small_partitions(max_cores=12, max_ways=12).filter(legal)
)
def test_counts_are_exact_masks_contiguous_and_a_second_run_changes_nothing(case: tuple, earlier: tuple) -> None:
    partition, node, tenants = case
    previous = assign(*earlier)
    result = lay_out(partition, node, tenants, previous)
    cpus, masks = cpus_of(result.assignments), masks_of(result.assignments)
    for service in tenants:
        assert len(cpus[service.name]) == partition.cores_of(service.name) >= 1
        assert cpus[service.name] <= set(range(node.cores))
        assert is_contiguous(masks[service.name])
        assert masks[service.name].bit_count() >= partition.ways_of(service.name)
        assert masks[service.name] < 1 << (node.ways or 0)
    for region in partition.regions:
        if not region.shared:
            continue
        common = set.intersection(*(cpus[owner] for owner in region.owners))
        assert len(common) == region.cores
    used: dict[int, set[str]] = {}
    for name, ids in cpus.items():
        for cpu in ids:
            used.setdefault(cpu, set()).add(name)
    owner_sets = [set(region.owners) for region in partition.regions if region.cores]
    assert all(names in owner_sets for names in used.values())
    assert lay_out(partition, node, tenants, previous) == result
    assert assign(partition, node, tenants, result.assignments) == result.assignments


@given(small_partitions(max_cores=12, max_ways=12).filter(legal))
def test_two_isolated_owners_beside_a_shared_block_get_exactly_their_ways(case: tuple) -> None:
    partition, node, tenants = case
    isolated = [r for r in partition.regions if not r.shared and r.ways]
    shared = [r for r in partition.regions if r.shared and r.ways]
    result = lay_out(partition, node, tenants)
    masks = masks_of(result.assignments)
    if len(isolated) <= 2 or not shared:
        assert result.notes == []
        assert all(masks[s.name].bit_count() == partition.ways_of(s.name) for s in tenants)
        for region in isolated:
            others = [mask for name, mask in masks.items() if name not in region.owners]
            owner = masks[region.owners[0]]
            assert (owner & ~sum_of(others)).bit_count() >= region.ways
    else:
        assert len(result.notes) == len(isolated) - 2
        outside = [s.name for s in tenants if partition.ways_of(s.name) == shared[0].ways]
        assert all(masks[name].bit_count() == shared[0].ways for name in outside)


def sum_of(masks: list[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


def cpu_cost(layout: dict[str, set[int]], before: dict[str, set[int]], pairs: list[list[int]]) -> tuple[int, int, int]:
    users = lambda cpu: frozenset(name for name, ids in layout.items() if cpu in ids)  # noqa: E731
    kinds = [[users(cpu) for cpu in pair] for pair in pairs]
    split = sum(1 for a, b in kinds if a != b and a and b)
    halves = sum(1 for a, b in kinds if a != b and not (a and b))
    return split, halves, sum(len(layout[name] ^ before.get(name, set())) for name in layout)


@settings(max_examples=60, deadline=None)
@given(small_partitions().filter(legal), small_partitions().filter(legal))
def test_cpus_split_no_more_cores_and_move_no_more_than_the_best_of_all_layouts(case: tuple, earlier: tuple) -> None:
    partition, node, tenants = case
    previous = assign(*earlier)
    before = {name: ids & set(range(node.cores)) for name, ids in cpus_of(previous).items()}
    filled = [i for i, r in enumerate(partition.regions) for _ in range(r.cores)]
    filled += [-1] * (node.cores - len(filled))
    costs = []
    for order in set(permutations(filled)):
        layout = {
            s.name: {c for c, i in enumerate(order) if i >= 0 and s.name in partition.regions[i].owners}
            for s in tenants
        }
        costs.append(cpu_cost(layout, before, node.siblings))
    assert cpu_cost(cpus_of(assign(partition, node, tenants, previous)), before, node.siblings) == min(costs)


def way_cost(masks: dict[str, int], before: dict[str, int], partition: Partition) -> tuple[int, int]:
    reached = sum(mask.bit_count() - partition.ways_of(name) for name, mask in masks.items())
    return reached, sum((mask & ~before.get(name, 0)).bit_count() for name, mask in masks.items())


@settings(max_examples=60, deadline=None)
@given(small_partitions().filter(legal), small_partitions().filter(legal))
def test_ways_reach_through_and_move_no_more_than_the_best_of_all_layouts(case: tuple, earlier: tuple) -> None:
    partition, node, tenants = case
    previous = assign(*earlier)
    before = masks_of(previous)
    ways = node.ways or 0
    blocks = [r for r in partition.regions if r.ways]
    idle = ways - partition.ways
    costs = []
    for order in permutations(range(len(blocks))):
        for gaps in product(range(idle + 1), repeat=len(blocks)):
            if sum(gaps) > idle:
                continue
            at, masks = 0, {}
            for gap, index in zip(gaps, order, strict=True):
                at += gap
                for owner in blocks[index].owners:
                    masks[owner] = masks.get(owner, 0) | ((1 << blocks[index].ways) - 1) << at
                at += blocks[index].ways
            hulls = {name: (1 << mask.bit_length()) - (mask & -mask) for name, mask in masks.items()}
            costs.append(way_cost(hulls, before, partition))
    assert way_cost(masks_of(assign(partition, node, tenants, previous)), before, partition) == min(costs)


def test_siblings_stay_together_where_the_counts_allow() -> None:
    node = platform(36, 20, smt=True)
    cpus = cpus_of(assign(regions(("a", 10, 5), ("b", 6, 5), ("c", 20, 10)), node, services("a", "b", "c")))
    for ids in cpus.values():
        assert {(cpu + 18) % 36 for cpu in ids} == ids


def test_one_core_that_changes_sides_moves_one_cpu() -> None:
    node = platform(36, 20, smt=True)
    tenants = services("a", "b", "c")
    first = assign(regions(("a", 10, 5), ("b", 6, 5), ("c", 20, 10)), node, tenants)
    second = assign(regions(("a", 11, 5), ("b", 6, 5), ("c", 19, 10)), node, tenants, first)
    before, after = cpus_of(first), cpus_of(second)
    assert before["a"] < after["a"]
    assert before["b"] == after["b"]
    assert after["c"] < before["c"]


def test_a_third_isolated_owner_reaches_through_and_the_best_effort_job_never_does() -> None:
    parts = regions(("a", 1, 5), ("b", 1, 3), ("c", 1, 2), ("a+b+c+d", 1, 10))
    result = lay_out(parts, platform(4, 20), services("a", "b", "c", "d"))
    masks = masks_of(result.assignments)
    assert masks["d"].bit_count() == 10
    assert {name: mask.bit_count() for name, mask in masks.items()} == {"a": 17, "b": 13, "c": 12, "d": 10}
    assert [(note.service, "also covers 2 way(s)" in note.text) for note in result.notes] == [("a", True)]


def test_sparse_masks_need_no_reaching_through() -> None:
    parts = regions(("a", 1, 5), ("b", 1, 3), ("c", 1, 2), ("a+b+c+d", 1, 10))
    result = lay_out(parts, platform(4, 20, sparse_masks=True), services("a", "b", "c", "d"))
    assert result.notes == []
    masks = masks_of(result.assignments)
    assert {name: mask.bit_count() for name, mask in masks.items()} == {"a": 15, "b": 13, "c": 12, "d": 10}


def test_without_cache_partitioning_there_is_no_mask_and_without_throttle_no_mba() -> None:
    [a, b] = assign(regions(("a", 2, 0), ("b", 2, 0)), platform(4, None), services("a", "b"))
    assert (a.cpus, a.way_mask, a.mba, a.cpu_quota) == ("0-1", None, None, None)
    assert b.cpus == "2-3"


def test_quota_slices_give_quota_and_weight_and_no_cpus() -> None:
    node = Platform(id="q", cores=20, cpus="0-1", core_quantum=0.1)
    parts = regions(("a", 6, 0), ("b", 2, 0), ("a+b+c", 12, 0))
    a, b, c = assign(parts, node, services("a", "b", "c"))
    assert [x.cpu_quota for x in (a, b, c)] == [1.8, 1.4, 1.2]
    assert [x.cpu_weight for x in (a, b, c)] == [150, 90, 60]
    assert a.cpus is None


def test_throttle_values_are_rounded_to_what_the_hardware_holds() -> None:
    node = platform(4, 4, mba=MbaRange(min=10, max=100, step=10))
    parts = Partition([Region(["a"], 2, 2), Region(["b"], 2, 2)], mba={"a": 55, "b": 4})
    a, b = assign(parts, node, services("a", "b"))
    assert (a.mba, b.mba) == (60, 10)


def test_an_illegal_partition_is_refused_in_one_sentence() -> None:
    with pytest.raises(LayoutError, match="cores: the regions sum up to 9, the platform has 4"):
        assign(regions(("a", 9, 2)), platform(4, 4), services("a"))
    with pytest.raises(LayoutError, match="reaches 0 ways"):
        assign(regions(("a", 2, 0)), platform(4, 4), services("a"))


def test_an_odd_number_of_cpus_and_mixed_cores_lose_no_cpu() -> None:
    node = Platform(id="hybrid", cores=7, cpus="0-6", siblings=[[0, 1], [2, 3]])
    cpus = cpus_of(assign(regions(("a", 3, 0), ("b", 3, 0), ("c", 1, 0)), node, services("a", "b", "c")))
    assert sorted(cpu for ids in cpus.values() for cpu in ids) == list(range(7))


@pytest.mark.parametrize("count", [20, 60])
def test_many_services_are_laid_out_without_a_search(count: int) -> None:
    names = [f"s{i:02}" for i in range(count)]
    parts = Partition([*(Region([name], 1, 1) for name in names), Region(names, 4, 4)])
    node = platform(count + 4, count + 4)
    result = lay_out(parts, node, services(*names))
    assert all(is_contiguous(mask) for mask in masks_of(result.assignments).values())
    assert assign(parts, node, services(*names), result.assignments) == result.assignments
