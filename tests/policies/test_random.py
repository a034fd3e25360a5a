"""The random policy: legal, seeded, uniform; and the draw of cuts behind it against brute force."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from osml.allocation.compositions import Cut, draw_cuts
from osml.domain import Service
from tests.kit.toy_node import Tenant, ToyNode, demo_tenants


def all_cuts(cut: Cut) -> list[tuple[int, ...]]:
    ranges = [range(low, high + 1) for low, high in zip(cut.least, cut.most, strict=True)]
    return [units for units in product(*ranges) if sum(units) == cut.total]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=4),
    st.integers(0, 14),
    st.integers(0, 100),
)
def test_drawn_cuts_are_legal_and_none_is_drawn_where_none_exists(
    bounds: list[tuple[int, int]], total: int, seed: int
) -> None:
    cut = Cut([str(i) for i in range(len(bounds))], total, [b[0] for b in bounds], [b[0] + b[1] for b in bounds])
    legal = set(all_cuts(cut))
    if not legal:
        with pytest.raises(ValueError, match="can't be cut"):
            draw_cuts(cut, 1, np.random.default_rng(seed))
        return
    assert {tuple(row) for row in draw_cuts(cut, 50, np.random.default_rng(seed)).tolist()} <= legal


@pytest.mark.parametrize(
    "cut",
    [Cut(["a", "b", "c"], 9, [1, 1, 1], [9, 9, 9]), Cut(["a", "b", "c"], 10, [1, 2, 0], [4, 6, 7])],
)
def test_every_legal_cut_is_drawn_equally_often(cut: Cut) -> None:
    legal = all_cuts(cut)
    drawn = Counter(tuple(row) for row in draw_cuts(cut, 400 * len(legal), np.random.default_rng(5)).tolist())
    assert set(drawn) == set(legal)
    assert chisquare([drawn[units] for units in legal]).pvalue > 1e-3


def test_a_large_machine_with_many_parts_is_cut_too() -> None:
    cut = Cut([str(i) for i in range(64)], 20_000, [1] * 64, [20_000] * 64)
    units = draw_cuts(cut, 200, np.random.default_rng(1))
    assert (units.sum(axis=1) == 20_000).all()
    assert units.min() >= 1
    assert units.mean(axis=0).std() < 40  # equal parts on average: 312, the error of a mean of 200 draws is about 22


@pytest.mark.parametrize("short_by", [0, 1, 3])
def test_limits_that_leave_hardly_a_choice_are_kept(short_by: int) -> None:
    cut = Cut([str(i) for i in range(64)], 64 * 9 - short_by, [1] * 64, [9] * 64)
    units = draw_cuts(cut, 500, np.random.default_rng(1))
    assert (units.sum(axis=1) == cut.total).all()
    assert units.max() <= 9
    assert len({tuple(row) for row in units.tolist()}) > 30 * min(short_by, 2)


def test_all_units_are_used_and_every_interval_brings_another_partition() -> None:
    node = ToyNode(demo_tenants(), policy="random")
    node.run(20)
    partitions = [decision.partition for decision in node.history]
    assert all(p.cores == 36 and p.ways == 20 for p in partitions)
    assert len({str(p) for p in partitions}) == 20
    assert {tuple(r.owners) for p in partitions for r in p.regions} == {
        ("moses",),
        ("img-dnn",),
        ("xapian",),
        ("stream",),
    }


def test_another_seed_draws_other_partitions_and_a_negative_one_is_a_seed_too() -> None:
    def partitions(seed: int) -> list[str]:
        node = ToyNode(demo_tenants(), policy="random", seed=seed)
        node.run(5)
        return [str(decision.partition) for decision in node.history]

    assert partitions(2) == partitions(2)
    assert partitions(2) != partitions(3)
    assert partitions(-2) != partitions(2)


def test_measurements_don_t_matter() -> None:
    node = ToyNode(demo_tenants(), policy="random")
    blind = ToyNode(demo_tenants(), policy="random")
    for tenant in blind.tenants:
        tenant.measured = False
    node.run(5)
    blind.run(5)
    assert [d.partition for d in node.history] == [d.partition for d in blind.history]


def test_the_best_effort_jobs_share_one_part_up_to_their_limit_and_services_keep_theirs() -> None:
    node = ToyNode([Tenant("a", 1.0)], policy="random")
    services = [
        Service("a", "lc", target_ms=10.0, min_cores=4, max_cores=6),
        Service("x", "be", max_cores=8, min_ways=3),
        Service("y", "be"),
    ]
    for _ in range(30):
        partition = node.step(services=services).partition
        assert 4 <= partition.cores_of("a") <= 6
        assert partition.cores_of("x") == partition.cores_of("y") == 8
        assert partition.ways_of("x") >= 3
