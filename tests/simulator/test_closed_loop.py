"""A policy on a virtual node in one process."""

import pytest

from osml.simulator import catalogs
from osml.simulator.closed_loop import ClosedLoop, Interval
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
    last = run.run(239)[-20:]
    assert sum(map(met, last)) >= 16


def test_the_same_seed_gives_the_same_decisions():
    def decisions(seed):
        return [interval.decision for interval in loop("arq", seed).run(30)]

    assert decisions(1) == decisions(1)
    assert decisions(1) != decisions(2)


def test_what_is_observed_has_the_threads_that_an_agent_counts():
    (interval,) = loop("unmanaged").run(1)
    assert [service.counters.threads for service in interval.observed] == [36, 36, 36, catalogs.job("stream").threads]
