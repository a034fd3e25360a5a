"""The oracle against brute force on small platforms, and the bounds that it prunes with."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from osml.base.failure import InputError
from osml.domain import Partition, Platform, Region, Service
from osml.domain.cpulist import parse_cpulist
from osml.layout import assign
from osml.simulator import catalogs
from osml.simulator import columns as c
from osml.simulator.mix import node_of, parse_mix
from osml.simulator.models import JobModel, PlatformModel, ServiceModel, on_platform
from osml.simulator.oracle import best_partition
from osml.simulator.oracle.bounds import Bounds
from osml.simulator.oracle.deadline import Deadline
from osml.simulator.oracle.demands import demands
from osml.simulator.oracle.enumerate import of_cost
from osml.simulator.oracle.environment import pair_off, times_of
from osml.simulator.oracle.partitions import Evaluator, Outcome
from osml.simulator.oracle.settled import SettledNode
from osml.simulator.oracle.stand_ins import shares_of_jobs
from osml.simulator.state import Grant, Node
from osml.simulator.steady import steady
from osml.simulator.surface import tail_ms

NAMES = ("moses", "img-dnn", "xapian", "silo", "specjbb", "masstree")


def small(cores: int, ways: int, smt: bool) -> PlatformModel:
    whole = catalogs.platform("e5-2697v4")
    bandwidth = whole.bandwidth_gbps * cores / whole.cpus
    return replace(
        whole,
        id="small",
        cpus=cores,
        physical_cores=cores // 2 if smt else cores,
        ways=ways,
        way_mib=whole.way_mib * whole.ways / ways,
        bandwidth_gbps=bandwidth,
    )


def fitted(name: str, platform: PlatformModel) -> ServiceModel:
    """A service with the load of so few cores, and a target that it can meet."""
    service = catalogs.service(name, "e5-2697v4")
    share = platform.cpus / 36
    return replace(
        service,
        platform=platform.id,
        threads=platform.cpus,
        max_load=service.max_load * share,
        target_ms=service.target_ms * 1.6,
    )


def jobs(platform: PlatformModel, *names: str) -> tuple[JobModel, ...]:
    return tuple(on_platform(catalogs.job(name), platform) for name in names)


def splits(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to give each part at least one, in lexicographic order."""
    return (split for split in itertools.product(range(1, total + 1), repeat=parts) if sum(split) <= total)


def brute_force(node: Node, loads: dict[str, float]) -> tuple[list[list[int]], Outcome]:
    """Every partition on the whole node; the definition of what is best, word by word."""
    n, platform, evaluate = len(node.services), node.platform, Evaluator(node, loads)
    feasible: list[tuple[tuple[int, float, list[list[int]]], Outcome]] = []
    others: list[tuple[tuple[float, int, list[list[int]]], Outcome]] = []
    with_jobs = 1 if node.jobs else 0
    for cores in splits(platform.cpus - with_jobs, n):
        for ways in splits(platform.ways - with_jobs, n):
            rest = [platform.cpus - sum(cores), platform.ways - sum(ways)]
            rows = [*map(list, zip(cores, ways, strict=True)), rest if node.jobs else [0, 0]]
            found = evaluate(np.array(rows))
            cost = sum(cores) * platform.ways + sum(ways) * platform.cpus
            if found.feasible:
                feasible.append(((cost, found.e_s, rows), found))
            if node.jobs or rest == [0, 0]:
                others.append(((found.e_s, cost, rows), found))
    key, found = min(feasible) if feasible else min(others)
    return key[2], found


CASES = [
    # cores, ways, hyperthreads, services with loads, jobs
    (4, 4, True, {"moses": 0.3, "img-dnn": 0.3}, ()),
    (4, 4, False, {"moses": 0.5, "xapian": 0.4}, ()),
    (5, 4, False, {"img-dnn": 0.2, "xapian": 0.2, "silo": 0.1}, ()),
    (6, 5, True, {"img-dnn": 0.3, "xapian": 0.3}, ("stream",)),
    (6, 4, True, {"moses": 0.2, "img-dnn": 0.2, "specjbb": 0.15}, ()),
    (6, 4, True, {"silo": 0.1, "img-dnn": 0.2}, ("blackscholes", "stream")),
    (4, 4, True, {"moses": 0.9, "img-dnn": 0.9}, ()),  # too much
    (4, 4, True, {"moses": 1.2, "xapian": 0.9}, ("stream",)),  # too much
    (5, 5, False, {"moses": 0.9, "xapian": 0.8, "img-dnn": 0.9}, ()),  # too much
    (8, 6, True, {"moses": 0.35, "xapian": 0.3}, ("streamcluster",)),
]


@pytest.mark.parametrize(("cores", "ways", "smt", "loads", "be"), CASES)
def test_same_answer_as_brute_force(
    cores: int, ways: int, smt: bool, loads: dict[str, float], be: tuple[str, ...]
) -> None:
    platform = small(cores, ways, smt)
    node = Node(platform, tuple(fitted(name, platform) for name in loads), jobs(platform, *be))
    wanted, outcome = brute_force(node, loads)
    answer = best_partition(node, loads)
    assert answer.outcome == outcome
    assert answer.partition.tolist() == wanted
    assert bool(answer.missing) is not outcome.feasible


def test_same_answer_as_brute_force_on_random_mixes() -> None:
    rng = np.random.default_rng(11)
    seen: set[bool] = set()
    for _ in range(40):
        platform = small(int(rng.integers(2, 4)) * 2, int(rng.integers(3, 6)), bool(rng.integers(2)))
        names = [str(name) for name in rng.choice(NAMES, int(rng.integers(2, 4)), replace=False)]
        be = jobs(platform, *rng.choice(["stream", "blackscholes", "kmeans"], int(rng.integers(0, 2)), replace=False))
        if len(names) + bool(be) > min(platform.cpus, platform.ways):
            continue
        loads = {name: float(rng.uniform(0.05, 0.5)) for name in names}
        node = Node(platform, tuple(fitted(name, platform) for name in names), be)
        wanted, outcome = brute_force(node, loads)
        answer = best_partition(node, loads)
        assert (answer.partition.tolist(), answer.outcome) == (wanted, outcome), (platform, loads, be)
        seen.add(outcome.feasible)
    assert seen == {True, False}  # both halves of the search were tried


def test_fewer_whole_nodes_than_partitions() -> None:
    platform = small(12, 10, True)
    loads = {"img-dnn": 0.25, "xapian": 0.2}
    node = Node(platform, tuple(fitted(name, platform) for name in loads))
    answer = best_partition(node, loads)
    assert answer.outcome.feasible
    assert answer.nodes < 300  # of 66 x 45 partitions


@pytest.mark.parametrize("name", ["e5-2697v4", "e5-2630v4", "gold-5220r"])
def test_bounds_never_leave_out_a_partition_that_meets_its_targets(name: str) -> None:
    # Whatever a partition reaches is taken as the targets, so it is feasible, and with the others' true share as their
    # most the bound is at its sharpest: each service must still be said to manage with what it has.
    rng, platform = np.random.default_rng(5), catalogs.platform(name)
    checked = 0
    for _ in range(40):
        services = [catalogs.service(str(s), name) for s in rng.choice(catalogs.service_names(), 3, replace=False)]
        be = jobs(platform, *rng.choice(catalogs.job_names(), int(rng.integers(0, 3)), replace=False))
        totals = (platform.cpus, platform.ways)
        cuts = [np.sort(rng.choice(np.arange(1, total), 3, replace=False)) for total in totals]
        partition = np.stack([np.diff([0, *cut, total]) for cut, total in zip(cuts, totals, strict=True)], 1)
        loads = {s.name: float(rng.uniform(0.2, 1.5) * partition[i, 0] / platform.cpus) for i, s in enumerate(services)}
        if not be:
            partition[3] = 0
        reached = Evaluator(Node(platform, tuple(services), be), loads)(partition).tails_ms
        if max(reached) > 5000.0:
            continue
        exact = tuple(replace(s, target_ms=tail) for s, tail in zip(services, reached, strict=True))
        bounds = Bounds(Node(platform, exact, be), loads)
        jobs_have = (int(partition[3, 0]), int(partition[3, 1])) if be else (0, platform.ways)
        for i in range(3):
            need = bounds.fewest_cores(i, partition[:3], *jobs_have)[partition[i, 1] - 1]
            assert 0 < need <= partition[i, 0], (services[i].name, loads, partition, be)
            assert bounds.tails_alone(i)[partition[i, 0] - 1, partition[i, 1] - 1] <= reached[i]
            checked += 1
    assert checked > 30


def test_a_whole_node_is_settled_as_layout_places_it() -> None:
    platform = catalogs.platform("e5-2697v4")
    services = tuple(catalogs.service(name, platform.id) for name in ("moses", "img-dnn"))
    be = jobs(platform, "stream", "blackscholes")
    node, loads = Node(platform, services, be), {"moses": 0.3, "img-dnn": 0.4}
    found = Evaluator(node, loads)(np.array([[11, 9], [13, 4], [12, 7]]))
    counted = Platform(id="x", cores=36, cpus="0-35", siblings=platform.siblings, ways=20)
    regions = [
        Region(owners=["moses"], cores=11, ways=9),
        Region(owners=["img-dnn"], cores=13, ways=4),
        Region(owners=["stream", "blackscholes"], cores=12, ways=7),
    ]
    tenants = [Service(name=s.name, kind="lc", target_ms=1.0) for s in services]
    tenants += [Service(name=job.name, kind="be") for job in be]
    placed = assign(Partition(regions=regions), counted, tenants)
    grants = [Grant(frozenset(parse_cpulist(a.cpus or "")), int(a.way_mask or "0", 16)) for a in placed]
    flows = steady(node, grants, loads)
    tails = [tail_ms(flow, s.percentile) for flow, s in zip(flows, services, strict=False)]
    assert found.tails_ms == pytest.approx(tails)


@pytest.mark.parametrize("name", ["e5-2697v4", "gold-5220r"])
def test_the_kindest_environment_is_never_slower_than_the_node_and_close_to_it(name: str) -> None:
    rng, platform = np.random.default_rng(3), catalogs.platform(name)
    ratios: list[float] = []
    for _ in range(60):
        services = tuple(catalogs.service(str(s), name) for s in rng.choice(catalogs.service_names(), 3, replace=False))
        be = jobs(platform, *rng.choice(catalogs.job_names(), int(rng.integers(0, 2)), replace=False))
        rows = 3 + bool(be)
        totals = (platform.cpus, platform.ways)
        cuts = [np.sort(rng.choice(np.arange(1, total), rows - 1, replace=False)) for total in totals]
        partition = np.stack([np.diff([0, *cut, total]) for cut, total in zip(cuts, totals, strict=True)], 1)
        whole = partition if be else np.vstack([partition, [[0, 0]]])
        loads = {s.name: float(rng.uniform(0.1, 0.9) * whole[i, 0] / platform.cpus) for i, s in enumerate(services)}
        node = Node(platform, services, be)
        settled = SettledNode(node, loads)
        flows = settled.flows(*Evaluator(node, loads).placement(whole))[:3]
        if np.any(flows[:, c.F_UTILISATION] > 1.0):
            continue  # they do not answer all
        rates = np.array([loads[s.name] * s.max_load for s in services])
        least = np.zeros((1, 3))
        times_of(demands(node, rates, True), partition[None], False, least)
        ratios += (least[0] / (flows[:, c.F_CPU_S] / flows[:, c.F_COMPLETED])).tolist()
    assert len(ratios) > 60
    assert max(ratios) < 1.0 + 5e-4
    assert np.median(ratios) > 0.9


@pytest.mark.parametrize("rows", [2, 3, 4])
def test_odd_cpus_stand_beside_each_other_as_layout_places_them(rows: int) -> None:
    platform = catalogs.platform("e5-2697v4")
    services = tuple(catalogs.service(name, platform.id) for name in NAMES[:rows])
    node = Node(platform, services)
    evaluate, table = Evaluator(node, {}), demands(node, np.zeros(rows), True)
    rng = np.random.default_rng(rows)
    for _ in range(60):
        cores = rng.integers(1, platform.cpus // rows + 1, rows)
        if rng.integers(2):
            cores[-1] = platform.cpus - cores[:-1].sum()  # nothing idle
        whole = np.vstack([np.stack([cores, np.ones(rows, np.int64)], 1), [[0, 0]]])
        users, _ = evaluate.placement(whole)
        pair_off(table, whole, rows)
        for i in range(rows):
            on = [
                users[sibling]
                for first, second in platform.siblings
                for cpu, sibling in ((first, second), (second, first))
                if users[cpu] == 1 << i
            ]
            assert on.count(1 << i) == cores[i] // 2 * 2
            others = [int(who).bit_length() - 1 for who in on if who not in (0, 1 << i)]
            assert others == ([table.beside[i]] if table.beside[i] >= 0 else [])


def test_an_overloaded_service_whose_tail_falls_as_it_slows_down_does_not_mislead_the_bound() -> None:
    # At saturation the queue of sphinx turns into a backlog: there a slower partition can have the lower tail.
    for mix, partition in (
        ("img-dnn=0.8,sphinx=0.9,ads=0.2", [[7, 1], [25, 18], [4, 1], [0, 0]]),
        ("sphinx=1,login=0.8,xapian=0.3", [[28, 17], [4, 2], [4, 1], [0, 0]]),
        ("sphinx=0.3,ads=0.9,memcached=0.6", [[9, 6], [10, 8], [17, 6], [0, 0]]),
    ):
        parsed = parse_mix(mix)
        node = node_of(parsed, "e5-2697v4")
        known = Evaluator(node, parsed.loads)(np.array(partition)).e_s
        assert best_partition(node, parsed.loads).outcome.e_s <= known


def test_when_the_time_is_up_the_best_so_far_is_not_proven() -> None:
    platform = small(12, 10, True)
    for load in (0.25, 1.5):
        loads = {"img-dnn": load, "xapian": load}
        node = Node(platform, tuple(fitted(name, platform) for name in loads))
        said: list[str] = []
        late, whole = best_partition(node, loads, 0.0, said.append), best_partition(node, loads, 600.0)
        assert not late.proven
        assert whole.proven
        assert whole.outcome == best_partition(node, loads).outcome
        assert late.cost >= whole.cost or not late.outcome.feasible
        assert said
        if not late.outcome.feasible:
            reasons = ("search incomplete", "misses", "are needed")
            assert any(reason in sentence for reason in reasons for sentence in late.missing)
    with pytest.raises(InputError, match="limit_s is -1"):
        best_partition(node, loads, -1.0)


def test_a_limit_of_work_gives_the_same_answer_on_every_machine() -> None:
    """Each limit ends the search somewhere else: none leaves a wrong proof, and what is proven is the exact answer."""
    platform = small(12, 10, True)
    for load in (0.25, 1.5):
        loads = {"img-dnn": load, "xapian": load}
        node = Node(platform, tuple(fitted(name, platform) for name in loads))
        whole = best_partition(node, loads)
        proven: list[bool] = []
        for limit in (0, 1, 3, 10, 30, 100, 10_000):
            found, again = (best_partition(node, loads, limit_work=limit) for _ in range(2))
            assert found.partition.tolist() == again.partition.tolist()
            assert (found.outcome, found.missing, found.proven) == (again.outcome, again.missing, again.proven)
            assert not found.proven or found.outcome == whole.outcome
            proven.append(found.proven)
        assert proven[-1]
        assert proven == sorted(proven)


def test_work_that_ends_an_enumeration_proves_nothing() -> None:
    """Five services: the enumeration alone takes more than these units."""
    platform = catalogs.platform("e5-2697v4")
    parsed = parse_mix("ads=0.17,img-dnn=0.22,masstree=0.31,memcached=0.34,sphinx=0.28")
    found = best_partition(node_of(parsed, platform.id), parsed.loads, limit_work=2000)
    assert not found.proven
    assert not found.outcome.feasible
    assert found.missing == ["no feasible partition was found; search incomplete"]


def test_an_evaluation_does_not_depend_on_the_one_before() -> None:
    platform = small(8, 6, True)
    loads = {"moses": 0.4, "xapian": 0.3}
    node = Node(platform, tuple(fitted(name, platform) for name in loads))
    starved, ample = np.array([[1, 1], [1, 1], [0, 0]]), np.array([[4, 3], [4, 3], [0, 0]])
    fresh = Evaluator(node, loads)(ample)
    used = Evaluator(node, loads)
    used(starved)
    assert used(ample) == fresh


def test_choices_of_a_cost_come_in_lexicographic_order() -> None:
    cells = [np.array([[c, w, c + 2 * w] for c in range(1, 4) for w in range(1, 4)]) for _ in range(2)]
    found = of_cost(cells, 8, 4, 4, Deadline(None))
    wanted = [
        [[a, b], [c, d]]
        for a, b, c, d in itertools.product(range(1, 4), repeat=4)
        if a + c <= 4 and b + d <= 4 and a + c + 2 * (b + d) == 8
    ]
    assert found.tolist() == wanted


def test_jobs_share_cores_up_to_their_threads() -> None:
    few, many = replace(catalogs.job("stream"), threads=2), replace(catalogs.job("stream"), threads=20)
    assert shares_of_jobs([many, few, many], 12) == pytest.approx([5, 2, 5])
    assert shares_of_jobs([few], 12) == pytest.approx([2])
    assert shares_of_jobs([many, few], 3) == pytest.approx([1.5, 1.5])


def test_too_many_parts_for_the_platform_are_refused() -> None:
    platform = small(4, 2, True)
    node = Node(platform, tuple(fitted(name, platform) for name in ("moses", "xapian")), jobs(platform, "stream"))
    with pytest.raises(InputError, match="the mix needs 3 isolated parts, small has only 2 ways"):
        best_partition(node, {"moses": 0.1, "xapian": 0.1})
    with pytest.raises(InputError, match="no LC service"):
        best_partition(Node(platform, (), jobs(platform, "stream")), {})
