"""The engine: conservation, monotony, determinism, and the facts that the demo rests on."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osml.simulator import catalogs, columns
from osml.simulator.engine import advance
from osml.simulator.kernel.machine import Machine
from osml.simulator.models import PlatformModel
from osml.simulator.mount.simulation import Simulation
from osml.simulator.physics import cache, cpu, memory
from osml.simulator.state import Grant, Node, NodeInputError, initial_state
from osml.simulator.steady import steady
from osml.simulator.surface import first_cpus, ideal_ms, p99_ms, p99_surface, run, whole_node

PLATFORM = catalogs.platform("e5-2697v4")
MBA_PLATFORM = catalogs.platform("gold-6338")
LC = ("moses", "img-dnn", "xapian")
DEMO = {"moses": 0.3, "img-dnn": 0.4, "xapian": 0.3}
STEPPED = {**DEMO, "xapian": 0.5}
TARGETS_MS = [catalogs.service(name).target_ms for name in LC]


def demo_node(job: str = "stream", platform: PlatformModel = PLATFORM) -> Node:
    return Node(platform, tuple(catalogs.service(name) for name in LC), (catalogs.job(job),))


def partition(sizes, ways, platform: PlatformModel = PLATFORM) -> list[Grant]:
    """Neighbouring CPUs (siblings together) and ways, one slice per tenant."""
    grants, order, cpu_at, way_at = [], platform.cpu_order(), 0, 0
    for n_cpus, n_ways in zip(sizes, ways, strict=True):
        grants.append(Grant(frozenset(order[cpu_at : cpu_at + n_cpus]), ((1 << n_ways) - 1) << way_at))
        cpu_at, way_at = cpu_at + n_cpus, way_at + n_ways
    return grants


def tails(node, grants, loads, seconds=30.0):
    _, flows = run(node, grants, loads, seconds, dt=0.25)
    return [p99_ms(flow) for flow in flows[: len(node.services)]], flows


# -- the facts that the demo rests on --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LC)
def test_alone_on_the_node_a_service_meets_its_target_comfortably(name):
    service = catalogs.service(name)
    assert ideal_ms(PLATFORM, service, STEPPED[name]) < 0.7 * service.target_ms


@pytest.mark.parametrize(("job", "loads"), [("stream", DEMO), ("stream", STEPPED), ("fluidanimate", STEPPED)])
def test_unmanaged_the_demo_mix_clearly_violates(job, loads):
    node = demo_node(job)
    latencies, _ = tails(node, whole_node(node), loads)
    assert sum(latency > 1.25 * target for latency, target in zip(latencies, TARGETS_MS, strict=True)) >= 2


@pytest.mark.parametrize("job", ["stream", "fluidanimate"])
@pytest.mark.parametrize("loads", [DEMO, STEPPED])
def test_a_good_partition_meets_all_targets_and_leaves_room(job, loads):
    latencies, flows = tails(demo_node(job), partition((10, 12, 12, 2), (10, 5, 2, 3)), loads)
    assert all(latency < 0.97 * target for latency, target in zip(latencies, TARGETS_MS, strict=True))
    assert flows[3].cpu_s / flows[3].dt > 1.9  # the job runs on its two CPUs


def test_moses_falls_off_a_cliff_in_ways_and_in_cores():
    by_cores = p99_surface(PLATFORM, catalogs.service("moses"), 0.4, [3, 10], [12])[:, 0]
    assert by_cores[0] > 100 * by_cores[1]
    by_ways = p99_surface(PLATFORM, catalogs.service("moses"), 0.4, [6], range(1, 21))[0]
    assert (by_ways[:-1] / by_ways[1:]).max() > 5


def test_img_dnn_has_a_cliff_in_cores_only():
    by_cores = p99_surface(PLATFORM, catalogs.service("img-dnn"), 0.6, [2, 12], [20])[:, 0]
    by_ways = p99_surface(PLATFORM, catalogs.service("img-dnn"), 0.6, [12], [1, 20])[0]
    assert by_cores[0] > 100 * by_cores[1]
    assert by_ways[0] < 2 * by_ways[1]


# -- monotony, conservation, limits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["moses", "xapian"])
@pytest.mark.parametrize("load", [0.4, 0.9])
def test_more_cores_or_ways_are_never_worse(name, load):
    surface = p99_surface(PLATFORM, catalogs.service(name), load, range(2, 37, 2), [1, 4, 8, 9, 10, 14, 20], 10)
    assert (surface[1:] <= surface[:-1] * 1.02).all()
    assert (surface[:, 1:] <= surface[:, :-1] * 1.02).all()


def test_requests_are_conserved_and_a_backlog_drains():
    node = Node(PLATFORM, (catalogs.service("xapian"),))
    starved, fed = [Grant(first_cpus(PLATFORM, 2), 0xFFFFF)], [Grant(first_cpus(PLATFORM, 36), 0xFFFFF)]
    state, done = initial_state(node), 0.0
    for _ in range(20):
        state, flows = advance(node, state, starved, {"xapian": 0.7}, 0.25)
        done += flows[0].requests
    assert state.backlog[0] > 1000
    assert done + state.backlog[0] == pytest.approx(0.7 * 6800 * 5.0, rel=1e-9)
    late = p99_ms(flows[0])
    waits = []
    for _ in range(20):
        state, flows = advance(node, state, fed, {"xapian": 0.7}, 1.0)
        done += flows[0].requests
        waits.append(p99_ms(flows[0]))
    assert late > 1000
    assert state.backlog[0] < 1.0
    assert done + state.backlog[0] == pytest.approx(0.7 * 6800 * 25.0, rel=1e-9)
    assert waits[-1] < 10.0 < waits[0]


def test_a_queue_holds_no_more_than_its_limit():
    node = Node(PLATFORM, (catalogs.service("xapian"),))
    state, _ = run(node, [Grant(frozenset({0}), 1)], {"xapian": 2.0}, 200)
    assert state.backlog[0] == pytest.approx(30.0 * 6800, rel=1e-4)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_overlap_of_cpus_and_ways_keeps_within_the_machine(data):
    node = demo_node(data.draw(st.sampled_from(["stream", "fluidanimate", "cpu-burner"])))
    cpus = st.frozensets(st.integers(0, 35), min_size=1)
    grants = []
    for _ in node.tenants:
        low = data.draw(st.integers(0, 19))
        high = data.draw(st.integers(low, 19))
        quota = data.draw(st.one_of(st.none(), st.floats(0.1, 36)))
        grants.append(Grant(data.draw(cpus), (1 << high + 1) - (1 << low), quota, data.draw(st.floats(1, 10000))))
    loads = {name: data.draw(st.floats(0, 2)) for name in LC}
    state = initial_state(node)
    for _ in range(6):
        state, flows = advance(node, state, grants, loads, 0.5)
    reach = frozenset.union(*(grant.cpus for grant in grants))
    # Rounds end where nothing moves by 1e-4: what is left to go is a few times that.
    assert sum(flow.cpu_s / flow.dt for flow in flows) <= len(reach) * (1 + 1e-3)
    for flow, grant in zip(flows, grants, strict=True):
        assert flow.cpu_s / flow.dt <= min(len(grant.cpus), grant.cpu_quota or math.inf) * (1 + 1e-3)
        assert all(math.isfinite(value) and value >= 0 for value in flow if isinstance(value, float))
    assert (state.occupancy_mib.sum(axis=0) <= PLATFORM.way_mib + 1e-9).all()
    assert sum(flow.memory_bytes / flow.dt for flow in flows) / 1e9 < 1.05 * PLATFORM.bandwidth_gbps


def shares(cpu_sets, demands, weights, priorities=None):
    """CPUs used by each tenant on the platform."""
    areas = cpu.empty_areas(len(cpu_sets), PLATFORM.cpus)
    users = np.zeros(PLATFORM.cpus, np.int64)
    for i, cpus in enumerate(cpu_sets):
        users[list(cpus)] |= 1 << i
    cpu.map_cpus(areas, users, PLATFORM.physical_cores)
    used = np.zeros((len(cpu_sets), columns.LEAST_AREAS))
    levels = np.zeros(len(cpu_sets)) if priorities is None else np.array(priorities, float)
    cpu.fair_shares(areas, np.array(demands), np.array(weights), levels, used)
    return list(used.sum(axis=1))


def test_cpu_shares_follow_weights_and_never_exceed_an_area():
    sets = [range(4), range(4), {4}]
    assert shares(sets, [9.0, 9.0, 9.0], [300.0, 100.0, 100.0]) == pytest.approx([3.0, 1.0, 1.0])
    assert shares(sets, [0.5, 9.0, 0.2], [100.0, 100.0, 100.0]) == pytest.approx([0.5, 3.5, 0.2])


def test_a_higher_priority_gets_its_cpus_first():
    assert shares([range(4), range(4)], [3.0, 9.0], [1.0, 100.0], [1, 0]) == pytest.approx([3.0, 1.0])
    node = demo_node()
    first = [Grant(g.cpus, g.way_mask, priority=1 if i < 3 else 0) for i, g in enumerate(whole_node(node))]
    fair, _ = tails(node, whole_node(node), DEMO)
    before, _ = tails(node, first, DEMO)
    assert all(strict < shared for strict, shared in zip(before, fair, strict=True))


def test_ones_own_cpus_are_used_before_shared_ones():
    used = shares([range(4), range(2, 6)], [2.0, 4.0], [100.0, 100.0])
    assert used[0] == pytest.approx(2.0)
    assert used[1] > 3.2


def test_miss_ratio_falls_from_one_to_its_floor():
    m = catalogs.service("moses").memory
    ratios = [cache.miss_ratio(m.miss_min, m.working_set_mib, m.steepness, mib) for mib in np.linspace(0, 400, 100)]
    assert ratios[0] == 1.0
    assert ratios[-1] == pytest.approx(m.miss_min, abs=1e-3)
    assert (np.diff(ratios) <= 0).all()


def test_the_cache_warms_up_and_does_not_jump():
    node = Node(PLATFORM, (catalogs.service("moses"),))
    cold = Grant(first_cpus(PLATFORM, 8), 0x1)
    state, _ = run(node, [cold], {"moses": 0.4}, 10)
    wide = [Grant(first_cpus(PLATFORM, 8), 0xFFFFF)]
    held = [float(state.occupancy_mib.sum())]
    for _ in range(20):
        state, _ = advance(node, state, wide, {"moses": 0.4}, 0.1)
        held.append(float(state.occupancy_mib.sum()))
    assert held[1] < 0.4 * held[-1]
    assert (np.diff(held) > 0).all()
    assert held[-1] > 0.9 * 45.0


def split(demands, weights, capacity):
    granted = np.zeros(len(demands))
    memory.fair_split(np.array(demands), np.array(weights), capacity, granted)
    return list(granted)


def test_bandwidth_latency_rises_with_load_and_jobs_share_fairly():
    rises = [memory.rise(PLATFORM.latency_rise, PLATFORM.latency_power, u) for u in (0.0, 0.5, 0.9, 0.95, 2.0)]
    assert rises[0] == 1.0
    assert rises == sorted(rises)
    assert rises[-1] == rises[-2]
    assert split([5.0, 100.0, 100.0], [1.0, 1.0, 3.0], 45.0) == pytest.approx([5.0, 10.0, 30.0])
    assert split([0.0, 1.0], [1.0, 1.0], 45.0) == [0.0, 1.0]


@pytest.mark.parametrize("name", ["e5-2697v4", "gold-6338", "i7-4770k"])
def test_a_looser_throttle_never_lets_a_job_move_less(name):
    platform, stream = catalogs.platform(name), catalogs.job("stream")
    everything = Grant(frozenset(range(platform.cpus)), (1 << platform.ways) - 1)
    percents = [10.0, 30.0, 50.0, 70.0, 80.0, 85.0, 90.0, 95.0, 97.0, 99.0, 100.0]
    moved = [
        steady(Node(platform, (), (stream,)), [replace(everything, mba_percent=percent)], {})[0].memory_bytes / 1e9
        for percent in percents
    ]
    usable = platform.bandwidth_gbps * platform.usable_bandwidth * memory.MAX_UTILISATION
    assert (np.diff(moved) > -1e-3 * np.array(moved[1:])).all()
    assert all(gbps <= usable * percent / 100.0 * 1.001 for gbps, percent in zip(moved, percents, strict=True))


def hungry(threads: int) -> Node:
    """Two services that want 110 GB/s each at load 1; hardly any of their time is waiting for the memory."""
    mongodb = replace(catalogs.service("mongodb", PLATFORM.id), threads=threads, max_load=12000.0, serial_ms=0.0)
    mongodb = replace(mongodb, memory=replace(mongodb.memory, bytes_per_miss=60000.0))
    return Node(PLATFORM, (mongodb, replace(mongodb, name="another")))


@pytest.mark.parametrize(("cpus", "share"), [((9, 27), 0.25), ((18, 18), 0.5), ((24, 12), 2 / 3)])
def test_services_that_want_more_than_the_memory_moves_share_it_by_their_cpus_which_are_all_busy(cpus, share):
    node = hungry(36)
    flows = steady(node, partition(cpus, (1, 1)), {"mongodb": 1.0, "another": 1.0})
    usable = PLATFORM.bandwidth_gbps * PLATFORM.usable_bandwidth * memory.MAX_UTILISATION
    moved = [flow.memory_bytes / flow.dt / 1e9 for flow in flows]
    assert sum(moved) == pytest.approx(usable, rel=1e-2)
    assert moved[0] == pytest.approx(share * usable, rel=1e-2)
    assert [flow.cpu_s / flow.dt for flow in flows] == pytest.approx(list(cpus), rel=1e-2)


def test_a_service_that_wants_little_gets_it_and_a_busy_cpu_of_it_moves_no_more_than_others():
    node = hungry(36)
    flows = steady(node, partition((18, 18), (1, 1)), {"mongodb": 1.0, "another": 0.03})
    alone = steady(node, partition((18, 18), (1, 1)), {"mongodb": 0.0, "another": 0.03})
    assert flows[1].memory_bytes == pytest.approx(alone[1].memory_bytes)
    each = [flow.memory_bytes / flow.cpu_s for flow in flows]
    assert each[1] == pytest.approx(each[0], rel=1e-2)
    usable = PLATFORM.bandwidth_gbps * PLATFORM.usable_bandwidth * memory.MAX_UTILISATION
    assert sum(flow.memory_bytes / flow.dt for flow in flows) / 1e9 == pytest.approx(usable, rel=1e-2)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.05, 1.5), min_size=2, max_size=2), st.integers(1, 35), st.integers(1, 72), st.booleans())
def test_services_never_move_more_than_the_memory_does(loads, first, threads, shared):
    node = hungry(threads)
    everything = [Grant(first_cpus(PLATFORM, 36), 0xFFFFF)] * 2
    grants = everything if shared else partition((first, 36 - first), (2, 3))
    state = initial_state(node)
    for dt in (0.1, 1.0, 1.0, 10.0):
        state, flows = advance(node, state, grants, dict(zip(("mongodb", "another"), loads, strict=True)), dt)
        most = PLATFORM.bandwidth_gbps * PLATFORM.usable_bandwidth
        assert sum(flow.memory_bytes / flow.dt for flow in flows) / 1e9 <= most


def test_mba_caps_a_jobs_traffic_and_relieves_the_others():
    node = demo_node("stream", MBA_PLATFORM)
    grants = partition((8, 10, 14, 32), (3, 2, 3, 4), MBA_PLATFORM)
    _, free = run(node, grants, DEMO, 10)
    throttled = [*grants[:3], Grant(grants[3].cpus, grants[3].way_mask, mba_percent=20.0)]
    _, capped = run(node, throttled, DEMO, 10)
    usable = MBA_PLATFORM.bandwidth_gbps * MBA_PLATFORM.usable_bandwidth
    assert capped[3].memory_bytes / capped[3].dt / 1e9 <= 0.2 * usable * 1.02
    assert p99_ms(capped[0]) < p99_ms(free[0])


def test_a_quota_limits_cpu_time():
    node = Node(PLATFORM, (catalogs.service("xapian"),), (catalogs.job("cpu-burner"),))
    grants = [Grant(first_cpus(PLATFORM, 36), 0xFFFFF, cpu_quota=1.5)] * 2
    _, flows = run(node, grants, {"xapian": 0.05}, 5)
    assert flows[1].cpu_s == pytest.approx(1.5)
    assert flows[1].throttled_s > 0
    assert p99_ms(flows[0]) > ideal_ms(PLATFORM, node.services[0], 0.05)


def test_weight_protects_a_service_from_a_job():
    node = demo_node()
    even, _ = tails(node, whole_node(node), DEMO)
    favoured = [Grant(g.cpus, g.way_mask, cpu_weight=10000.0 if i < 3 else 1.0) for i, g in enumerate(whole_node(node))]
    better, flows = tails(node, favoured, DEMO)
    assert all(after <= 1.05 * before for after, before in zip(better, even, strict=True))
    assert better[0] < 0.97 * even[0]
    assert flows[3].cpu_s > 0


# -- memory capacity, disk, network, frequency -----------------------------------------------------------------------

PARTIES = catalogs.platform("e5-2699v4")


def alone_and_beside(service, job, load=0.5, **grant):
    """Tail of a service on eight CPUs, alone and beside a job on the others."""
    model, mask = catalogs.service(service, PARTIES.id), (1 << PARTIES.ways) - 1
    own = Grant(frozenset(range(8)), mask, **grant)
    alone = steady(Node(PARTIES, (model,)), [own], {service: load})[0]
    rest = Grant(frozenset(range(8, 14)), mask)
    beside = steady(Node(PARTIES, (model,), (catalogs.job(job),)), [own, rest], {service: load})[0]
    return p99_ms(alone), p99_ms(beside)


def test_a_job_that_fills_the_memory_sends_others_to_the_disk():
    alone, beside = alone_and_beside("memcached", "memory-hog", 0.2)
    assert beside > 50 * alone
    alone, beside = alone_and_beside("xapian", "memory-hog", 0.1)
    assert beside < 10 * alone  # twenty megabytes: hardly any of them go


def test_a_disk_reader_halves_what_a_database_gets_from_the_disk():
    alone, beside = alone_and_beside("mongodb", "disk-reader", 0.7)
    assert alone < 100.0
    assert beside > 1000.0
    alone, beside = alone_and_beside("moses", "disk-reader", 0.2)
    assert beside == pytest.approx(alone, rel=0.05)


def test_a_full_link_hurts_whoever_sends_more_than_its_share():
    alone, beside = alone_and_beside("nginx", "network-flooder", 0.4)
    assert beside > 50 * alone
    alone, beside = alone_and_beside("moses", "network-flooder", 0.2)
    assert beside == pytest.approx(alone, rel=0.1)


def test_limits_of_frequency_memory_disk_and_network_are_felt():
    free, _ = alone_and_beside("xapian", "stream", 0.1)
    assert alone_and_beside("xapian", "stream", 0.1, frequency_ghz=1.2)[0] > 1.5 * free
    free, _ = alone_and_beside("mongodb", "stream", 0.5)
    assert alone_and_beside("mongodb", "stream", 0.5, disk_iops=100.0)[0] > 5 * free
    assert alone_and_beside("mongodb", "stream", 0.5, memory_gib=1.0)[0] > 5 * free
    free, _ = alone_and_beside("nginx", "stream", 0.1)
    assert alone_and_beside("nginx", "stream", 0.1, network_gbps=0.5)[0] > 5 * free


def test_a_serial_part_ends_the_curve_whatever_the_cpus():
    service = catalogs.service("img-dnn")
    assert service.serial_ms > 0
    assert ideal_ms(PLATFORM, service, 0.9) < service.target_ms
    assert ideal_ms(PLATFORM, service, 1.2) > 100 * service.target_ms


# -- determinism and measurements ------------------------------------------------------------------------------------


def measurements(seed: int):
    node = demo_node()
    simulation = Simulation(node, Machine(node), DEMO, 1.0, seed)
    return [seen for _ in range(12) if (seen := simulation.step()) is not None]


def test_the_same_seed_gives_the_same_measurements():
    assert measurements(3) == measurements(3)
    assert measurements(3) != measurements(4)


def test_measurements_are_ordered_and_say_what_is_not_there():
    node = demo_node()
    simulation = Simulation(node, Machine(node), {"moses": 0.4}, 1.0, 0)
    seen = next(found for _ in range(4) if (found := simulation.step()) is not None)
    moses, img_dnn, _, job = seen
    assert 0 < moses.p50_ms < moses.p95_ms < moses.p99_ms
    assert moses.samples == moses.requests_per_s
    assert (img_dnn.p99_ms, img_dnn.mean_ms, img_dnn.samples) == (None, None, 0)  # no load: nothing to measure
    assert (job.p99_ms, job.samples) == (None, None)
    assert job.ipc > 0


def test_few_samples_are_noisier_than_many():
    def spread(load):
        node = Node(PLATFORM, (catalogs.service("xapian"),))
        simulation = Simulation(node, Machine(node), {"xapian": load}, 1.0, 0)
        tail = [seen[0].p99_ms for _ in range(160) if (seen := simulation.step()) is not None][5:]
        return np.std(tail) / np.mean(tail)

    assert spread(0.005) > 3 * spread(0.5)


# -- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("load", [float("nan"), float("inf"), -0.1, 2.01, "0.5", None, True])
def test_an_impossible_load_is_refused_with_its_name(load):
    node = demo_node()
    with pytest.raises(NodeInputError, match="load of 'xapian' is"):
        advance(node, initial_state(node), whole_node(node), {"xapian": load}, 1.0)


def test_the_load_of_a_stranger_lists_the_services():
    node = demo_node()
    with pytest.raises(NodeInputError, match="no such LC service on this node, known are moses, img-dnn, xapian"):
        advance(node, initial_state(node), whole_node(node), {"stream": 0.5}, 1.0)


@pytest.mark.parametrize(
    ("grant", "sentence"),
    [
        (Grant(frozenset(), 1), "'moses' has zero cores, it needs at least one"),
        (Grant(frozenset({36}), 1), "'moses' has CPU 36, e5-2697v4 has CPUs 0-35"),
        (Grant(frozenset({0}), 0), "'moses' has way mask 0, expected 1 to 20 ways"),
        (Grant(frozenset({0}), 1 << 20), "'moses' has way mask 100000"),
    ],
)
def test_an_impossible_grant_is_refused(grant, sentence):
    node = Node(PLATFORM, (catalogs.service("moses"),))
    with pytest.raises(NodeInputError, match=sentence):
        advance(node, initial_state(node), [grant], {}, 1.0)


def test_a_service_twice_and_an_empty_node_are_refused():
    with pytest.raises(NodeInputError, match="'moses' is on the node twice"):
        Node(PLATFORM, (catalogs.service("moses"), catalogs.service("moses")))
    with pytest.raises(NodeInputError, match="no service and no job"):
        Node(PLATFORM, ())


def test_more_tenants_than_a_node_can_have_are_refused():
    services = tuple(replace(catalogs.service("moses"), name=f"m{i}") for i in range(49))
    with pytest.raises(NodeInputError, match="49 services and jobs on one node, expected at most 48"):
        Node(PLATFORM, services)


def test_a_quota_of_nothing_is_refused():
    node = Node(PLATFORM, (catalogs.service("moses"),))
    with pytest.raises(NodeInputError, match=r"'moses' has a CPU quota of 0\.0"):
        advance(node, initial_state(node), [Grant(frozenset({0}), 1, cpu_quota=0.0)], {}, 1.0)
