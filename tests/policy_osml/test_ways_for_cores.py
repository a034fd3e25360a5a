"""The osml policy where jobs run behind the services: cache for CPU time, by what the jobs say of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from msgspec.structs import replace

from osml.decide.state import open_state, seal_state
from osml.domain import Counters, Service
from osml.policies.osml import Osml
from osml.policies.osml.remembered.state import Trial
from osml.policies.osml.steps.ways_for_cores import LOOK, WARM
from tests.kit.fake_models import PLATFORM, Run, needs, observe, service

REALTIME = replace(PLATFORM, realtime=True)


def _job(work: float | None) -> Service:
    return Service("job", "be", work_rate_solo=100.0, counters=Counters(work_rate=work))


def _history(work: Callable[[int], float | None], times: int, ratio: float = 0.5) -> tuple[Run, list[int]]:
    """Ways of a service in each interval, beside a job that does `work(ways)`."""
    run, ways = Run(Osml(needs(rate_10=4.0)), REALTIME), [0]
    for _ in range(times):
        run(service("a", ratio), service("b", 0.5), _job(work(ways[-1])))
        ways.append(run.decision.partition.ways_of("a"))
    return run, ways[1:]


def test_ways_double_as_long_as_the_jobs_do_more_for_it_and_stay_at_the_best() -> None:
    _, ways = _history(lambda ways: 50.0 + min(ways, 4) - 0.5 * max(ways - 4, 0), 200)
    assert ways[-60:] == [4] * 60
    rises = [after for before, after in pairwise(ways) if after > before]
    assert rises[-3:] == [2, 4, 8]  # and 8 were taken back


def test_where_more_ways_are_worth_nothing_each_service_is_tried_once() -> None:
    run, ways = _history(lambda ways: 50.0, 200)
    settled = ways.index(1)
    assert ways[settled:].count(2) == WARM + LOOK + 1
    assert ways[-1] == run.decision.partition.ways_of("b") == 1


def test_noise_is_no_gain() -> None:
    rng = np.random.default_rng(3)
    _, ways = _history(lambda ways: 50.0 * (1.0 + 0.003 * rng.standard_normal()), 300)
    assert ways[-1] == 1


def test_what_was_on_trial_when_something_else_happened_is_given_back() -> None:
    run, _ = _on_trial()
    run(service("a"), service("b", 1.5), _job(50.0), times=3)  # b misses its target, and gets more
    run(service("a"), service("b"), _job(50.0), times=WARM + LOOK)
    assert run.decision.partition.ways_of("a") == 1


def test_other_loads_are_another_question() -> None:
    run, ways = _history(lambda ways: 50.0 + min(ways, 4), 200)
    assert ways[-1] == 4
    for _ in range(30):
        run(service("a", rate=30.0), service("b"), _job(50.0))
        ways.append(run.decision.partition.ways_of("a"))
    assert 1 in ways[-30:]


@pytest.mark.parametrize("ratio", [0.75, 0.95])
def test_nothing_is_tried_while_a_service_is_close_to_its_target(ratio: float) -> None:
    _, ways = _history(lambda ways: 50.0 + ways, 150, ratio)
    assert all(after <= before for before, after in pairwise(ways))


def test_a_state_that_names_another_service_or_job_is_no_trouble() -> None:
    run, _ = _history(lambda ways: 50.0, 30)
    state, _ = open_state(run.decision.policy_state, run.policy)
    for trial in (Trial("gone", 1, dict(state.ways_for_cores.sums)), Trial("a", 1, {"other": 1.0})):
        odd = replace(state, ways_for_cores=replace(state.ways_for_cores, age=WARM + LOOK, trial=trial))
        seen = observe(
            service("a"), service("b"), _job(50.0), seq=run.seq, platform=REALTIME, partition=run.decision.partition
        )
        plan, _ = run.policy.decide(seen, odd)
        assert plan.partition.ways_of("a") >= 1


def _on_trial() -> tuple[Run, list[int]]:
    """A run in which the service has two ways on trial, for fewer intervals than are judged."""
    run, ways = _history(lambda ways: 50.0, 12)
    while ways[-1] != 2:
        run(service("a"), service("b"), _job(50.0))
        ways.append(run.decision.partition.ways_of("a"))
    return run, ways


def test_a_trial_that_ends_gives_no_less_than_the_operator_wants_by_then() -> None:
    run, _ = _on_trial()
    run(service("a", min_ways=2), service("b"), _job(50.0), times=WARM + LOOK + 1)
    assert "a has 2 ways again" in run.words()
    assert run.decision.partition.ways_of("a") == 2


@pytest.mark.parametrize("ways", [0, 10**6])
def test_ways_that_no_trial_can_have_begun_with_are_not_given_back(ways: int) -> None:
    run, _ = _on_trial()
    run(service("a"), service("b"), _job(50.0))
    state, _ = open_state(run.decision.policy_state, run.policy)
    trial = Trial("a", ways, {"job": 1e9})
    seal = seal_state(
        run.policy, replace(state, ways_for_cores=replace(state.ways_for_cores, age=WARM + LOOK, trial=trial))
    )
    run(service("a"), service("b"), _job(50.0), policy_state=seal)
    assert "ways again" in run.words()
    assert 1 <= run.decision.partition.ways_of("a") <= 2


def test_longer_intervals_make_no_job_faster() -> None:
    run = Run(Osml(needs(rate_10=4.0)), REALTIME)
    found: list[int] = []
    for i in range(60):
        length_s = 1.0 if i < 18 else 1.1
        slow = Service("job", "be", ipc_solo=1.0, counters=Counters(ipc=0.5, instructions=1e9 * length_s))
        run(service("a"), service("b"), slow, interval_s=length_s)
        found.append(run.decision.partition.ways_of("a"))
    assert 2 in found  # on trial
    assert found[-1] == 1


def test_a_rate_of_work_and_instructions_are_not_compared() -> None:
    run, ways = Run(Osml(needs(rate_10=4.0)), REALTIME), [0]
    for _ in range(60):
        counters = Counters(work_rate=None if ways[-1] == 2 else 50.0, instructions=1e9)
        run(service("a"), service("b"), Service("job", "be", work_rate_solo=100.0, counters=counters))
        ways.append(run.decision.partition.ways_of("a"))
        assert "keeps" not in run.words()
    assert 2 in ways


def test_a_job_that_did_nothing_before_does_not_tell_what_ways_are_worth() -> None:
    run, ways = Run(Osml(needs(rate_10=4.0)), REALTIME), [0]
    for _ in range(60):
        run(service("a"), service("b"), _job(50.0 if ways[-1] == 2 else 0.0))
        ways.append(run.decision.partition.ways_of("a"))
    assert 2 in ways
    assert ways[-1] == 1


def test_ways_that_were_worth_it_at_one_load_are_not_kept_at_another() -> None:
    run, ways = _history(lambda ways: 50.0 + min(ways, 4), 200)
    assert ways[-1] == 4
    run(service("a", 1.2, rate=30.0), service("b"), _job(54.0))  # while somebody misses its target nothing is bartered
    state, _ = open_state(run.decision.policy_state, run.policy)
    assert state.ways_for_cores.kept == {}


def test_nothing_is_tried_where_a_job_is_not_measured_or_has_cpus_of_its_own() -> None:
    _, ways = _history(lambda ways: None, 100)
    assert all(after <= before for before, after in pairwise(ways))
    run, found = Run(Osml(needs(rate_10=4.0))), []
    for _ in range(100):
        run(service("a"), service("b"), _job(50.0))
        found.append(run.decision.partition.ways_of("a"))
    assert all(after <= before for before, after in pairwise(found))


def test_on_the_virtual_node_a_job_does_more_when_a_service_keeps_its_working_set() -> None:
    """Ah-Q's mysql beside swaption (simulated): with one way it needs a little CPU time that the job lacks."""
    pytest.importorskip("onnxruntime")
    from osml.lab.bench.suites.ahq_dip import scenarios
    from osml.simulator.closed_loop import ClosedLoop

    scenario = next(one for one in scenarios() if str(one.mix) == "mysql=0.3,be:swaption")
    loop = ClosedLoop(scenario.node, scenario.loads, "osml", interval_s=0.5, seed=1, delay_s=0.1)
    rows = loop.run(60)
    slow = [next(s.slowdown for s in row.observed if s.kind == "be") for row in rows]
    assert rows[-1].decision is not None
    assert rows[-1].decision.partition.ways_of("mysql") >= 2
    assert min(slow[-10:]) < 0.995 * max(slow[15:25])
