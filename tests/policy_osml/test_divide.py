"""Parts of the osml policy: whole units, trades, and what a node has to divide."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from osml.allocation.apart import JOB_WAYS
from osml.domain import Partition, Region
from osml.policies.osml.divide import cut_down, fits, missing, spread_out
from osml.policies.osml.layout import cells_of
from osml.policies.osml.node import Cell, node_of
from tests.kit.fake_models import job, observe, service

NODE = node_of(observe(service("a"), service("b"), service("c")))
cells = st.builds(Cell, st.integers(1, 12), st.integers(1, 6))
three = st.fixed_dictionaries({"a": cells, "b": cells, "c": cells})


@given(three, st.sampled_from([["a"], ["a", "b"], ["a", "b", "c"]]))
def test_what_is_left_is_handed_out_whole_and_in_proportion(given_cells: dict[str, Cell], to: list[str]) -> None:
    found = spread_out(NODE, given_cells, to)
    assert sum(cell.cores for cell in found.values()) == 36
    assert sum(cell.ways for cell in found.values()) == 20
    for name, cell in given_cells.items():
        assert found[name].cores >= cell.cores
        assert name in to or found[name] == cell
    grown = [name for name in to if found[name].cores > given_cells[name].cores]
    has = [found[name].cores / given_cells[name].cores for name in grown]
    would = [(found[name].cores + 1) / given_cells[name].cores for name in to]
    assert max(has, default=0.0) <= min(would) + 1e-9  # nobody got a unit that would have served another better


@given(three, three)
def test_cells_are_cut_to_fit_and_nobody_below_its_least(wanted: dict[str, Cell], least: dict[str, Cell]) -> None:
    big = {name: Cell(cell.cores + 8, cell.ways + 4) for name, cell in wanted.items()}
    small = {
        name: Cell(min(cell.cores, big[name].cores), min(cell.ways, big[name].ways)) for name, cell in least.items()
    }
    found = cut_down(NODE, big, small)
    assert (found is None) == (not fits(NODE, small))
    if found is not None:
        assert fits(NODE, found)
        lack = missing(NODE, big)
        assert sum(c.cores for c in big.values()) - sum(c.cores for c in found.values()) == lack.cores
        assert all(found[n].cores >= small[n].cores and found[n].ways >= small[n].ways for n in found)


def test_cells_are_read_back_without_what_services_share_and_without_jobs() -> None:
    partition = Partition(
        [Region(["a"], 4, 3), Region(["a", "b"], 2, 0), Region(["b"], 5, 2), Region(["job"], 9, 9), Region(["c"], 3, 0)]
    )
    node = node_of(observe(service("a"), service("b"), service("c"), job()))
    assert cells_of(partition, node) == {}  # a and b share cores with each other, c has cores and no ways
    alone = Partition([one for one in partition.regions if len(one.owners) == 1])
    assert cells_of(alone, node) == {"a": Cell(4, 3), "b": Cell(5, 2)}
    plain = node_of(observe(service("a"), service("c"), platform=replace(observe().platform, ways=None)))
    assert cells_of(alone, plain) == {"a": Cell(4, 0), "c": Cell(3, 0)}
    assert cells_of(Partition([Region(["a"], 4, 0), Region(["a", "c"], 0, 20)]), plain) == {"a": Cell(4, 0)}
    assert cells_of(None, node) == {}


def test_what_stays_for_jobs_is_the_largest_of_their_minimums_and_a_few_ways() -> None:
    jobs = [replace(job("x"), min_cores=3), replace(job("y"), min_ways=5)]
    assert node_of(observe(service("a"), *jobs)).least_be == Cell(3, 5)
    assert node_of(observe(service("a"), job())).least_be == Cell(1, JOB_WAYS)
    assert node_of(observe(service("a"), replace(job(), max_ways=1))).least_be == Cell(1, 1)
    assert node_of(observe(service("a"))).for_lc == Cell(36, 20)


def test_limits_and_a_platform_that_change_between_two_intervals_are_seen_at_once() -> None:
    """What they say of a node is kept, so each of them has to be asked for."""
    seen = observe(service("a"), service("b"))
    assert node_of(seen).mosts["a"] == Cell(36, 20)
    limits = {"min_cores": 3, "max_cores": 30, "min_ways": 2, "max_ways": 9}
    for limit, value in limits.items():
        changed = replace(seen, services=[replace(seen.services[0], **{limit: value}), seen.services[1]])
        node = node_of(changed)
        found = {
            "min_cores": node.leasts["a"].cores,
            "max_cores": node.mosts["a"].cores,
            "min_ways": node.leasts["a"].ways,
            "max_ways": node.mosts["a"].ways,
        }
        assert found[limit] == value
        assert node_of(seen).mosts["a"] == Cell(36, 20)
    smaller = replace(seen, platform=replace(seen.platform, cores=10, cpus="0-9"))
    assert node_of(smaller).total == Cell(10, 20)
    groups = replace(seen, platform=replace(seen.platform, max_groups=2))
    assert node_of(seen).obstacle is None
    assert not node_of(groups).has_ways
    assert not node_of(replace(seen, platform=replace(seen.platform, ways=None))).has_ways
    assert node_of(seen).has_ways
