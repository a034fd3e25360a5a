"""A fleet is many single nodes: the same steps, noise of the right size, entropy as the policies compute it."""

import math

import numpy as np
import pytest

from osml import entropy
from osml.domain import Counters, Latency, Service
from osml.simulator import catalogs
from osml.simulator import columns as c
from osml.simulator.engine import advance
from osml.simulator.fleet import EMPTY, Fleet, noise
from osml.simulator.fleet import measure as m
from osml.simulator.measure import measure
from osml.simulator.models import on_platform
from osml.simulator.state import Grant, Node, NodeInputError, initial_state
from osml.simulator.surface import solo_speed

PLATFORM = catalogs.platform("e5-2697v4")
NAMES = ("moses", "img-dnn", "xapian", "mongodb")
JOBS = ("stream", "bayes")
KINDS = [*(catalogs.service(name, PLATFORM.id) for name in NAMES), *(catalogs.job(name) for name in JOBS)]
MIXES = [
    [0, 1, 2, 4],
    [3, EMPTY, 0, 5],
    [EMPTY, 2, EMPTY, EMPTY],
    [4, 1, 5, 0],  # jobs may stand anywhere
    [EMPTY, EMPTY, EMPTY, 4],
    [EMPTY, EMPTY, EMPTY, EMPTY],
]


def fleet_of(mixes=MIXES, *, noise=False, seed=1) -> Fleet:
    fleet = Fleet(PLATFORM, KINDS, len(mixes), len(mixes[0]), noise=noise)
    fleet.place(mixes)
    fleet.seed(seed)
    fleet.nodes.cores[:], fleet.nodes.ways[:] = [9, 8, 7, 6], [4, 5, 6, 3]
    return fleet


def loads_of(fleet: Fleet, rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(0.1, 0.9, (fleet.size, fleet.places))


def alone(fleet: Fleet, node: int) -> tuple[Node, list[Grant], list[int]]:
    """The same node for the engine: services first, then jobs; and the place of each of its tenants."""
    present = fleet.nodes.present[node].tolist()
    places = [p for p, kind in enumerate(present) if 0 <= kind < len(NAMES)]
    jobs = [p for p, kind in enumerate(present) if kind >= len(NAMES)]
    order, grants, cpu, way = PLATFORM.cpu_order(), list[Grant](), 0, 0
    for place in places:
        n_cores, n_ways = int(fleet.nodes.cores[node, place]), int(fleet.nodes.ways[node, place])
        grants.append(Grant(frozenset(order[cpu : cpu + n_cores]), ((1 << n_ways) - 1) << way))
        cpu, way = cpu + n_cores, way + n_ways
    rest = Grant(frozenset(order[cpu:]), ((1 << (PLATFORM.ways - way)) - 1) << way)
    inventory = Node(
        PLATFORM,
        tuple(KINDS[present[p]] for p in places),
        tuple(on_platform(KINDS[present[p]], PLATFORM) for p in jobs),
    )
    return inventory, [*grants, *[rest] * len(jobs)], [*places, *jobs]


def test_every_node_of_a_fleet_does_what_the_engine_does_with_it_alone():
    fleet, rng = fleet_of(), np.random.default_rng(0)
    states = {node: initial_state(alone(fleet, node)[0]) for node in range(5)}
    for _ in range(6):
        loads = loads_of(fleet, rng)
        fleet.nodes.cores[:], fleet.nodes.ways[:] = rng.integers(1, 9, (6, 4)), rng.integers(1, 5, (6, 4))
        fleet.step(loads)
        for node, state in states.items():
            inventory, grants, places = alone(fleet, node)
            given = {s.name: float(loads[node, p]) for s, p in zip(inventory.services, places, strict=False)}
            states[node], flows = advance(inventory, state, grants, given, 1.0)
            for flow, place in zip(flows, places, strict=True):
                row = fleet.nodes.flows[node, place]
                assert row[c.F_CPU_S] == pytest.approx(flow.cpu_s, rel=1e-9)
                assert row[c.F_INSTRUCTIONS] == pytest.approx(flow.instructions, rel=1e-9)
                assert row[c.F_OCCUPANCY_MIB] == pytest.approx(flow.occupancy_mib, rel=1e-9)
                assert row[c.F_P99_MS] == pytest.approx(math.nan if flow.p99_ms is None else flow.p99_ms, nan_ok=True)
    assert np.isnan(fleet.nodes.measured[5]).all()
    assert np.isnan(fleet.nodes.entropy[5]).all()


def test_with_the_order_of_the_engine_even_the_bytes_are_the_same():
    fleet = fleet_of([[0, 1, 2, 4]])
    inventory, grants, _ = alone(fleet, 0)
    state = initial_state(inventory)
    for _ in range(5):
        fleet.step(np.array([[0.4, 0.6, 0.5, 0.0]]))
        state, _ = advance(inventory, state, grants, {"moses": 0.4, "img-dnn": 0.6, "xapian": 0.5}, 1.0)
    assert fleet.nodes.state[0].tobytes() == state.rows.tobytes()
    assert fleet.nodes.occupancy[0].tobytes() == state.occupancy_mib.tobytes()


def test_the_same_seed_gives_the_same_bytes_and_another_one_other_noise():
    def run(seed: int) -> Fleet:
        fleet, rng = fleet_of(noise=True, seed=seed), np.random.default_rng(0)
        for _ in range(4):
            fleet.step(loads_of(fleet, rng))
        return fleet

    first, second, third = run(7), run(7), run(8)
    for one, two in zip(first.nodes, second.nodes, strict=True):
        assert one.tobytes() == two.tobytes()
    assert first.nodes.measured.tobytes() != third.nodes.measured.tobytes()
    # chance moves queues; what a node uses, and its cache, it leaves alone
    assert first.nodes.occupancy == pytest.approx(third.nodes.occupancy, rel=1e-3)


def test_what_a_node_measures_does_not_depend_on_the_others():
    together, apart = fleet_of(noise=True), fleet_of(MIXES[1:2], noise=True)
    apart.seed(together.nodes.streams[1:2])
    apart.nodes.cores[:], apart.nodes.ways[:] = together.nodes.cores[1], together.nodes.ways[1]
    rng = np.random.default_rng(3)
    for _ in range(3):
        loads = loads_of(together, rng)
        together.step(loads)
        apart.step(loads[1:2])
    assert together.nodes.measured[1].tobytes() == apart.nodes.measured[0].tobytes()


def test_only_the_chosen_nodes_step():
    fleet = fleet_of()
    before = fleet.nodes.state.copy()
    fleet.step(np.full((6, 4), 0.5), which=[1, 3])
    changed = [node for node in range(6) if fleet.nodes.state[node].tobytes() != before[node].tobytes()]
    assert changed == [1, 3]


def _services(fleet: Fleet, node: int) -> list[Service]:
    """What the policies would see of a node of the fleet."""
    found = list[Service]()
    for place, kind in enumerate(fleet.nodes.present[node].tolist()):
        if kind < 0:
            continue
        model, seen = KINDS[kind], fleet.nodes.measured[node, place]
        if kind < len(NAMES):
            p99 = float(seen[m.M_P99_MS])
            latency = None if math.isnan(p99) else Latency(p99_ms=p99)
            found.append(Service(name=model.name, kind="lc", target_ms=model.target_ms, latency=latency))
        else:
            ipc, work = solo_speed(PLATFORM, on_platform(model, PLATFORM))
            counters = Counters(work_rate=float(seen[m.M_WORK_RATE]))
            found.append(Service(name=model.name, kind="be", ipc_solo=ipc, work_rate_solo=work, counters=counters))
    return found


def test_the_entropy_is_that_of_the_policies():
    rng = np.random.default_rng(5)
    fleet = fleet_of(noise=True)
    seen = set[bool]()
    for step in range(12):
        loads = loads_of(fleet, rng)
        loads[1] *= step % 3 > 0  # no request: nothing is known about the services, and E_S with it
        fleet.step(loads)
        for node in range(5):
            expected = entropy.system_entropy(_services(fleet, node))
            values = (expected.e_lc, expected.e_be, expected.e_s)
            want = [math.nan if value is None else value for value in values]
            assert fleet.nodes.entropy[node].tolist() == pytest.approx(want, rel=1e-12, nan_ok=True)
            seen.add(math.isnan(want[2]))
    assert seen == {True, False}


def test_noise_has_the_size_and_the_centre_of_that_of_a_single_node():
    """Against `measure`, which reads percentiles off the whole distribution, at many and at few requests."""
    size = 3000
    for load in (0.5, 0.02):
        fleet = Fleet(PLATFORM, KINDS, size, 1)
        fleet.place([0])
        fleet.seed(11)
        fleet.nodes.cores[:], fleet.nodes.ways[:] = 16, 12
        for _ in range(20):
            fleet.step(np.full((size, 1), load))
        inventory, grants, _ = alone(fleet, 0)
        state, flows = initial_state(inventory), []
        for _ in range(20):
            state, flows = advance(inventory, state, grants, {"moses": load}, 1.0)
        rng = np.random.default_rng(12)
        single = [measure(flows[:1], rng) for _ in range(600)]
        for column, name in (
            (m.M_P50_MS, "p50_ms"),
            (m.M_P95_MS, "p95_ms"),
            (m.M_P99_MS, "p99_ms"),
            (m.M_MEAN_MS, "mean_ms"),
            (m.M_REQUESTS_PER_S, "requests_per_s"),
            (m.M_LLC_MISSES, "llc_misses"),
            (m.M_IPC, "ipc"),
        ):
            ours, theirs = fleet.nodes.measured[:, 0, column], np.array([getattr(x, name) for x in single])
            assert ours.mean() == pytest.approx(theirs.mean(), rel=0.02 if load > 0.1 else 0.06), name
            spread = 0.25 if name == "p95_ms" else 0.12
            assert ours.std() == pytest.approx(theirs.std(), rel=spread), name


def test_random_numbers_have_the_moments_that_they_should_have():
    streams, n = np.array([42], np.uint64), 40_000
    draws = np.array([noise.uniform(streams, 0) for _ in range(n)])
    assert draws.mean() == pytest.approx(0.5, abs=0.005)
    assert np.corrcoef(draws[1:], draws[:-1])[0, 1] == pytest.approx(0.0, abs=0.02)
    for shape in (0.3, 2.0, 50.0):
        draws = np.array([noise.gamma(streams, 0, shape) for _ in range(n)])
        assert draws.mean() == pytest.approx(shape, rel=0.03)
        assert draws.var() == pytest.approx(shape, rel=0.06)
    for mean in (0.5, 12.0, 400.0):
        draws = np.array([noise.poisson(streams, 0, mean) for _ in range(n)])
        assert draws.mean() == pytest.approx(mean, rel=0.02)
        assert draws.var() == pytest.approx(mean, rel=0.05)
        assert (draws == np.floor(draws)).all()


def test_a_service_that_comes_begins_idle_and_one_that_goes_leaves_its_cache():
    fleet = fleet_of([[0, 1, EMPTY, EMPTY]])
    loads = np.full((1, 4), 0.4)
    for _ in range(20):
        fleet.step(loads)
    held = fleet.nodes.occupancy[0, 0].sum()
    fleet.replace(0, 2, 2)
    fleet.step(loads)
    assert fleet.nodes.measured[0, 2, m.M_P99_MS] > 0
    assert 0 < fleet.nodes.occupancy[0, 2].sum() < 6 * PLATFORM.way_mib  # not warm yet
    fleet.replace(0, 0, EMPTY)
    fleet.step(loads)
    assert held == pytest.approx(4 * PLATFORM.way_mib, rel=0.01)
    assert fleet.nodes.occupancy[0, 0].sum() == 0
    assert math.isnan(fleet.nodes.measured[0, 0, m.M_CPUS])
    for place in (1, 2):
        fleet.replace(0, place, EMPTY)
    fleet.step(loads)
    assert np.isnan(fleet.nodes.measured).all()
    assert np.isnan(fleet.nodes.entropy).all()


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (lambda f: f.nodes.cores.__setitem__((0, 1), 0), r"node 0 of the fleet has cores \[9, 0, 7\]"),
        (lambda f: f.nodes.ways.__setitem__((3, 3), 16), "node 3 of the fleet .* one left for the jobs"),
        (lambda f: f.place([9, 0, 0, 0]), "kinds are 0 to 9, expected -1 to 5"),
        (lambda f: f.replace(0, 0, -2), "kind is -2, expected -1 to 5"),
    ],
)
def test_counts_that_cannot_be_laid_out_are_named(spoil, text):
    fleet = fleet_of()
    with pytest.raises(NodeInputError, match=text):
        spoil(fleet)
        fleet.step(np.full((6, 4), 0.5))


@pytest.mark.parametrize("load", [-0.1, math.nan, 2.1, math.inf])
def test_impossible_loads_are_named_with_their_place(load):
    fleet, loads = fleet_of(), np.full((6, 4), 0.5)
    loads[5, :], loads[3, 0] = load, load  # nobody is there, and a job
    fleet.step(loads)
    loads[3, 1] = load
    with pytest.raises(NodeInputError, match="load of node 3, place 1 is"):
        fleet.step(loads)


def test_the_memory_of_ten_thousand_nodes_of_eight_tenants_is_well_below_a_gibibyte():
    fleet = Fleet(PLATFORM, KINDS, 100, 8)
    assert fleet.bytes * 100 < 0.2 * 2**30
