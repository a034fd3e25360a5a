"""Priorities without isolation: LC-first and SCHED_RR (Ah-Q, sections VII-A and VIII)."""

import statistics

import pytest
from msgspec.structs import replace

from osml.decide.decide import decide
from osml.decide.registry import load_policy
from osml.domain import Knobs, Observation, Partition, Platform, Region, Service
from osml.simulator.closed_loop import ClosedLoop
from osml.simulator.mix import node_of, parse_mix
from osml.simulator.node_platform import REALTIME

PLATFORM = Platform(id="p", cores=12, cpus="0-11", ways=12, realtime=True)
SERVICES = [Service(name="a", kind="lc", target_ms=1.0), Service(name="b", kind="lc", target_ms=1.0)]
JOB = Service(name="job", kind="be")
OBSERVED = Observation("n", 1, 10.0, 1.0, PLATFORM, [*SERVICES, JOB])


def partition(policy: str, observed: Observation = OBSERVED) -> Partition:
    return decide(replace(observed, policy=policy)).partition


def test_lc_first_shares_everything_and_puts_latency_critical_services_first() -> None:
    found = partition("lc_first")
    assert found.regions == [Region(["a", "b", "job"], 12, 12)]
    assert found.knobs == {"a": Knobs(realtime_priority=10), "b": Knobs(realtime_priority=10)}


def test_round_robin_states_the_quantum_of_the_kernel() -> None:
    found = partition("round_robin")
    assert found.regions == [Region(["a", "b", "job"], 12, 12)]
    assert set(found.knobs) == {"a", "b"}
    assert found.knobs["a"] == Knobs(realtime_priority=10, slice_ms=100.0)


@pytest.mark.parametrize("policy", ["lc_first", "round_robin"])
def test_without_real_time_scheduling_everything_is_shared_and_the_reason_says_so(policy: str) -> None:
    observed = replace(OBSERVED, platform=replace(PLATFORM, realtime=False))
    plan, _ = load_policy(policy).decide(observed, load_policy(policy).initial(observed, 0))
    assert plan.partition == Partition([Region(["a", "b", "job"], 12, 12)])
    assert "can't set real-time priorities (platform.realtime is false)" in plan.reasons[0].text


def tails_ms(policy: str) -> list[float]:
    mix = parse_mix("xapian=0.3,moses=0.3,img-dnn=0.3,be:fluidanimate")
    node = node_of(mix, "e5-2630v4")
    intervals = ClosedLoop(node, mix.loads, policy, interval_s=0.5, levers=REALTIME).run(5)[4:]
    return [statistics.median(i.tail_ms(k, s.percentile) for i in intervals) for k, s in enumerate(node.services)]


def test_priority_lowers_the_tails_of_latency_critical_services_beside_a_job() -> None:
    """Ah-Q, observation 2: priority helps the more critical applications (94.2 % of them)."""
    shared = tails_ms("unmanaged")
    for policy in ("lc_first", "round_robin"):
        assert all(first < 0.6 * among_all for first, among_all in zip(tails_ms(policy), shared, strict=True))
