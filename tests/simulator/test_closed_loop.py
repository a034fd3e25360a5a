"""A policy on a virtual node in one process, and what a monitor reads there."""

import numpy as np
import pytest
from msgspec import Struct

from osml.allocation.policy import Plan
from osml.domain import Assignment, Observation, Partition, Reason, Region
from osml.simulator import catalogs
from osml.simulator.board import whole_platform
from osml.simulator.closed_loop import ClosedLoop, Interval, grant_of
from osml.simulator.load_traces import Churn, Constant, Stay
from osml.simulator.mix import Mix, node_of
from osml.simulator.queueing import LEVELS
from osml.simulator.sockets import advance, initial
from osml.simulator.state import Node
from osml.simulator.surface import tail_ms

PLATFORM = catalogs.platform("e5-2697v4")
LOADS = {"moses": 0.2, "img-dnn": 0.2, "xapian": 0.2}


def loop(policy: str, seed: int = 0) -> ClosedLoop:
    services = tuple(catalogs.service(name, PLATFORM.id) for name in LOADS)
    return ClosedLoop(Node(PLATFORM, services, (catalogs.job("stream"),)), LOADS, policy, seed=seed)


@pytest.mark.parametrize("policy", ["arq", "parties"])
def test_a_policy_brings_an_overloaded_mix_inside_its_targets(policy):
    run = loop(policy)
    targets = [service.target_ms for service in run.node.services]

    def met(interval: Interval) -> bool:
        return all(tail_ms(flow, "p99") <= target for flow, target in zip(interval.flows, targets, strict=False))

    assert not met(run.run(1)[0])
    longest = held = 0
    for interval in run.run(239):  # PARTIES goes on to try, so it does not settle for good
        held = held + 1 if met(interval) else 0
        longest = max(longest, held)
    assert longest >= 20


def test_the_same_seed_gives_the_same_decisions():
    def decisions(seed):
        return [interval.decision for interval in loop("arq", seed).run(30)]

    assert decisions(1) == decisions(1)
    assert decisions(1) != decisions(2)


def test_what_is_observed_has_the_threads_that_an_agent_counts():
    (interval,) = loop("unmanaged").run(1)
    assert [service.counters.threads for service in interval.observed] == [36, 36, 36, catalogs.job("stream").threads]


@pytest.mark.parametrize("delay_s", [0.0, 0.1])
def test_a_monitor_reads_no_other_tail_than_the_node_has(delay_s: float) -> None:
    # Requests beside busy siblings were missing in what was read: 2 % for xapian.
    mix = Mix({"xapian": 0.6, "nginx": 0.2, "memcached": 0.3})
    node = node_of(mix, "e5-2697v4")
    run = ClosedLoop(node, mix.loads, "unmanaged", seed=3, delay_s=delay_s)
    ratios: dict[str, list[float]] = {service.name: [] for service in node.services}
    for interval in run.run(40.0)[5:]:
        for i, (service, seen) in enumerate(zip(node.services, interval.observed, strict=True)):
            assert seen.latency_ms is not None
            ratios[service.name].append(seen.latency_ms / interval.tail_ms(i, service.percentile))
    for name, found in ratios.items():
        error = np.std(found) / len(found) ** 0.5
        assert np.mean(found) == pytest.approx(1.0, abs=0.003 + 3.0 * float(error)), name


def test_the_mean_of_an_interval_is_that_of_all_its_requests() -> None:
    mix = Mix({"xapian": 0.6, "nginx": 0.2})
    run = ClosedLoop(node_of(mix, "e5-2697v4"), mix.loads, "parties", seed=3, delay_s=0.1).run(30.0)
    halves = [(one.before[0], one.flows[0], one) for one in run if one.before is not None]
    assert halves
    for before, after, interval in halves:
        assert before.mean_ms is not None
        assert after.mean_ms is not None
        total = before.mean_ms * before.requests + after.mean_ms * after.requests
        assert interval.tail_ms(0, "mean") == pytest.approx(total / (before.requests + after.requests))
    whole = next(one for one in run if one.before is None)
    assert whole.tail_ms(0, "mean") == whole.flows[0].mean_ms


def test_the_spectrum_of_a_flow_has_its_percentiles_and_rises() -> None:
    mix = Mix({"xapian": 0.6, "nginx": 0.2})
    node = node_of(mix, "e5-2697v4")
    for flow in ClosedLoop(node, mix.loads, "unmanaged", seed=3).run(3.0)[-1].flows:
        spectrum = flow.quantiles_ms
        assert spectrum is not None
        assert np.all(np.diff(spectrum) >= 0.0)
        found = np.interp([0.5, 0.95, 0.99], LEVELS, spectrum)
        expected = [flow.p50_ms, flow.p95_ms, flow.p99_ms]
        assert found == pytest.approx(expected, rel=2e-3)  # the median is between two levels


class NoState(Struct, frozen=True):
    pass


class Recorder:
    """As many cores and ways for everybody who is there; keeps what it sees."""

    name, version, State = "recorder", 1, NoState

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.seen: list[Observation] = []

    def initial(self, observation: Observation, seed: int) -> NoState:
        return NoState()

    def decide(self, observation: Observation, state: NoState) -> tuple[Plan, NoState]:
        self.seen.append(observation)
        regions = [Region([service.name], self.cores, 5) for service in observation.services]
        return Plan(Partition(regions), [Reason(text="the same for all")]), state


def test_the_partition_is_unknown_for_one_interval_when_somebody_comes_or_goes() -> None:
    """As the agent reports it: the old one divides the node among others than those who are there now."""
    script = Churn((Stay("moses", Constant(0.2)), Stay("xapian", Constant(0.2), 3.0, 6.0)))
    policy = Recorder(8)
    ClosedLoop(node_of(Mix({"moses": 0.2, "xapian": 0.2}), "e5-2697v4"), script, policy).run(9.0)
    assert [seen.seq for seen in policy.seen if seen.partition is None] == [0, 3, 6]
    assert [[assignment.service for assignment in seen.assignments] for seen in policy.seen[2:5]] == [
        ["moses"], ["moses"], ["moses", "xapian"],
    ]  # fmt: skip


@pytest.mark.parametrize("sockets", [1, 2])
def test_who_has_left_does_nothing_more(sockets: int) -> None:
    """Behind a load of 1.8 sphinx had requests for another minute, on CPUs that others had by then."""
    stays = [Stay("sphinx", Constant(1.8), 0.0, 8.0), Stay("sphinx", Constant(0.1), 12.0)]
    node = node_of(Mix({"moses": 0.2, "sphinx": 0.2}), "e5-2697v4")
    run = ClosedLoop(node, Churn((Stay("moses", Constant(0.2)), *stays)), Recorder(8), sockets=sockets, by_domain=False)
    there, gone, back = run.run(8.0)[-1].flows[1], run.run(4.0), run.run(1.0)[0].flows[1]
    assert there.cpu_s > 7.0
    assert there.backlog_ms[1] > 1000.0
    assert [one.flows[1].cpu_s for one in gone] == [0.0] * 4
    assert gone[0].flows[1].occupancy_mib == back.occupancy_mib == 0.0
    assert back.backlog_ms[0] < 100.0


def test_who_comes_again_begins_with_what_it_had_at_first() -> None:
    stays = [Stay("sphinx", Constant(1.0), 0.0, 4.0), Stay("sphinx", Constant(1.0), 6.0)]
    node = node_of(Mix({"moses": 0.2, "sphinx": 0.2}), "e5-2697v4")
    run = ClosedLoop(node, Churn((Stay("moses", Constant(0.2)), *stays)), Recorder(2), delay_s=0.1).run(8.0)
    used = [interval.flows[1].cpu_s for interval in run]
    assert used[0] > 4.0
    assert used[3] < 2.0
    assert used[6] == pytest.approx(used[0], rel=0.1)


@pytest.mark.parametrize("mbps", [2000, 5000, 10_000])
def test_a_software_regulator_gives_the_bytes_that_its_limit_says(mbps: int) -> None:
    """On one cache and on two: the agent counts what all threads move. It gave 81 % of the limit, or half of that."""
    socket = catalogs.platform("e5-2697v4")
    node = Node(socket, (), (catalogs.job("stream"),))
    for sockets, cpus in ((1, "0-35"), (2, "0-17,36-53"), (2, "0-71"), (2, "0-23")):
        grant = grant_of(Assignment("stream", cpus=cpus, way_mask="fffff", mba=mbps), whole_platform(socket, sockets))
        state, moved = initial(node, sockets), 0.0
        for _ in range(5):
            state, [flow] = advance(node, sockets, state, [grant], {}, 1.0)
            moved = flow.memory_bytes / 1e6 / flow.dt
        assert moved == pytest.approx(mbps, rel=0.02), (sockets, cpus)
    most = grant_of(Assignment("stream", mba=round(socket.bandwidth_gbps * 1e3)), socket)
    assert (most.mba_gbps, most.mba_percent) == (None, None)
