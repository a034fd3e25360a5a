"""The osml policy with one service in a cell and all others together on the rest, where limits and machines are odd."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from osml.decide.state import open_state, seal_state
from osml.domain import Outcome, Partition, Region
from osml.policies.osml import Osml
from osml.policies.osml.remembered.state import POOLED, OsmlState
from tests.kit.fake_models import PLATFORM, Run, job, needs, service

SERVICES = (service("a", 1.5), service("b", rate=50.0), service("c", rate=50.0))
POOL = Partition([Region(["a"], 4, 2), Region(["b", "c"], 32, 18)])


def _pooled() -> Run:
    run = Run(Osml(needs(rate_10=4.0, rate_50=20.0)))
    run(*SERVICES, times=3)
    assert run.decision.partition == POOL
    run(service("a"), *SERVICES[1:], times=3)
    assert run.decision.partition == POOL
    return run


def _state(run: Run) -> OsmlState:
    state, why = open_state(run.decision.policy_state, run.policy)
    assert why is None
    return state


@pytest.mark.parametrize("limit", [{"max_ways": 5}, {"min_cores": 33}, {"min_cores": 31, "max_cores": 31}])
def test_a_cell_beside_all_others_is_given_up_where_the_operators_new_limits_forbid_it(limit: dict[str, Any]) -> None:
    run = _pooled()
    b = replace(SERVICES[1], **limit)
    run(service("a"), b, SERVICES[2])
    cores, ways = run.decision.partition.cores_of("b"), run.decision.partition.ways_of("b")
    assert b.min_cores <= cores <= (b.max_cores or 36)
    assert b.min_ways <= ways <= (b.max_ways or 20)


def test_a_refused_change_of_a_cell_beside_all_others_leaves_it_what_it_is() -> None:
    run = _pooled()
    faster = replace(SERVICES[1], latency=replace(SERVICES[1].latency, requests_per_s=90.0))
    run(service("a"), faster, SERVICES[2])
    assert run.decision.partition != POOL
    refused = Outcome(run.seq - 1, "refused", "cpuset: busy")
    run(service("a"), faster, SERVICES[2], partition=POOL, outcome=refused)
    assert run.decision.partition == POOL
    assert _state(run).kind == POOLED


def test_a_state_by_which_one_service_is_beside_all_others_where_there_is_no_other() -> None:
    run = Run(Osml(needs(rate_10=40.0)))
    run(service("a"), job(), times=2)
    odd = seal_state(run.policy, replace(_state(run), kind=POOLED))
    run(service("a"), job(), partition=Partition([Region(["a"], 4, 2), Region(["job"], 1, 1)]), policy_state=odd)
    assert all(region.owners for region in run.decision.partition.regions)


def test_jobs_that_come_later_are_not_kept_apart_for_what_others_did() -> None:
    run = Run(Osml(needs(rate_10=4.0)), replace(PLATFORM, realtime=True))
    run(service("a", 1.5), service("b"), job(), times=12)
    assert _state(run).jobs_isolated
    run(service("a"), service("b"), times=3)
    run(service("a"), service("b"), job("other"), times=2)
    assert any({"a", "other"} <= set(region.owners) for region in run.decision.partition.regions)
