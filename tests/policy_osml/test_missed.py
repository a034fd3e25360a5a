"""The osml policy where a target is missed: more for the service, and a correction of its prediction (algorithm 2)."""

from __future__ import annotations

from dataclasses import replace as replace_facts
from typing import Any

import pytest
from msgspec.structs import replace

from osml.decide.state import open_state
from osml.domain import Counters, Latency, Partition, Region, Service
from osml.policies.osml import Osml, OsmlDqn
from osml.policies.osml.answers.models import Models
from osml.policies.osml.memory.state import Correction
from osml.policies.osml.relieve import more_for_missed
from osml.policies.osml.settings import DEFAULT
from tests.kit.fake_models import Fake, Run, Values, needs, service
from tests.kit.osml_facts import facts


def correction(run: Run, name: str = "a") -> Correction:
    state, why = open_state(run.decision.policy_state, run.policy)
    assert why is None
    return state.tracks[name].correction


def placed(**cores: float) -> Run:
    run = Run(Osml(needs(**(cores or {"rate_10": 4.0})), without=["probe"]))
    run(service("a"), service("b"), times=5)
    return run


def test_a_load_that_rises_is_answered_in_the_same_interval() -> None:
    run = Run(Osml(needs(rate_1000=4.0, rate_5000=9.0), without=["probe"]))
    run(service("a", rate=1000.0), service("b", rate=1000.0), times=6)
    assert run.cores() == {"a": 4, "b": 4}
    run(service("a", 1.2, rate=5000.0), service("b", rate=1000.0))
    assert run.cores()["a"] >= 9


def test_a_missed_target_gets_more_and_the_prediction_is_corrected_by_it() -> None:
    run = placed()
    assert run.cores()["a"] == 4
    assert correction(run) == Correction()
    run(service("a", 3.0), service("b"), times=2)
    more = run.cores()["a"] - 4
    assert more > 0
    assert correction(run).cores > 0
    assert correction(run).times >= 1
    run(service("a"), service("b"), times=40)
    assert run.cores()["a"] > 4
    assert correction(run, "b") == Correction()


def test_a_correction_lasts_longer_with_each_miss_up_to_a_day() -> None:
    run, lengths = placed(), []
    for _ in range(9):
        before = correction(run).times
        run(service("a", 1.5), service("b"), times=2)
        run(service("a"), service("b"), times=8)
        if correction(run).times > before:
            lengths.append(correction(run).until_s)
    first, second = lengths[0], lengths[1]
    assert DEFAULT.retry_s <= first <= DEFAULT.retry_s + 30.0
    assert DEFAULT.retry_s * DEFAULT.retry_times <= second <= DEFAULT.retry_s * DEFAULT.retry_times + 60.0
    assert max(lengths) <= DEFAULT.retry_most_s + 200.0


def test_a_corrected_need_is_tried_again_when_its_time_is_over() -> None:
    """In one step, of cores and of ways; and a miss after it counts from where the last one ended."""
    run = placed()
    run(service("a", 1.5), service("b"), times=2)
    more, corrected = run.cores()["a"], correction(run)
    assert more > 4
    assert min(corrected.cores, corrected.ways) > 0
    run(service("a"), service("b"), times=int(DEFAULT.retry_s) - 20)
    assert run.cores()["a"] == more
    run(service("a"), service("b"), times=40)
    assert run.cores()["a"] == 4
    assert correction(run) == Correction(0, 0, corrected.until_s, corrected.times)


def test_a_step_down_is_taken_back_where_a_target_is_missed_soon_after_it() -> None:
    run = Run(Osml(needs(rate_10=4.0), without=["probe"]))
    while run.decision is None or run.cores()["a"] == 18:
        run(service("a"), service("b"))
    assert run.cores()["a"] == 4
    run(service("a", 1.5), service("b"), times=2)
    assert run.cores() == {"a": 18, "b": 4}
    late = placed()
    late(service("a"), service("b"), times=DEFAULT.withdraw)
    late(service("a", 1.5), service("b"), times=2)
    assert 4 < late.cores()["a"] < 8


def test_a_relaxed_target_forgets_what_missed_the_strict_one() -> None:
    run = placed()
    run(service("a", 1.5), service("b"), times=4)
    assert run.cores()["a"] > 4
    run(replace(service("a"), target_ms=1000.0), service("b"), times=40)
    assert run.cores()["a"] == 4
    assert correction(run) == Correction()


def test_a_target_that_changes_is_a_new_question() -> None:
    run = placed()
    run(replace(service("a"), target_ms=1.0), service("b"), times=3)
    assert run.cores()["a"] > 4


def test_a_smaller_load_has_a_smaller_correction() -> None:
    run = Run(Osml(needs(rate_1000=8.0, rate_500=4.0), without=["probe"]))
    run(service("a", rate=1000.0), service("b", rate=500.0), times=5)
    run(service("a", 3.0, rate=1000.0), service("b", rate=500.0), times=4)
    before = correction(run).cores
    assert before > 1
    run(service("a", rate=1000.0), service("b", rate=500.0), times=8)
    run(service("a", rate=500.0), service("b", rate=500.0))
    assert correction(run).cores == round(before / 2)


def test_a_queue_that_drains_is_left_alone() -> None:
    run = placed()
    run(service("a"), service("b"), times=4)
    run(service("a", 40.0), service("b"))
    after = run.decision.partition
    assert run.cores() == {"a": 32, "b": 4}  # all that was idle, until it has caught up
    for ratio in (30.0, 20.0, 10.0, 2.0):
        assert run(service("a", ratio), service("b")).partition == after
    run(service("a"), service("b"), times=3)
    assert run.cores()["b"] == 4
    assert 4 < run.cores()["a"] < 10


def test_noise_of_a_tail_of_few_requests_is_no_missed_target() -> None:
    run = placed()
    few = Latency(p99_ms=12.0, requests_per_s=10.0, samples=10)
    run(replace(service("a"), latency=few), service("b"))
    assert run.cores()["a"] == 4
    many = Latency(p99_ms=12.0, requests_per_s=10.0, samples=1_000_000)
    run(replace(service("a"), latency=many), service("b"))
    assert run.cores()["a"] > 4


def _few(ratio: float | None) -> Service:
    """Misses its target by less than the noise of its few requests; or was not measured."""
    latency = None if ratio is None else Latency(p99_ms=10.0 * ratio, requests_per_s=10.0, samples=10)
    return replace(service("a"), latency=latency)


def test_a_small_miss_that_lasts_leads_to_a_step() -> None:
    run = placed()
    run(_few(1.03), service("b"), times=15)
    assert run.cores()["a"] == 4  # few requests make the tail: it may be chance
    run(_few(1.03), service("b"), times=25)
    assert run.cores()["a"] > 4


def test_nothing_is_taken_back_from_a_service_that_misses_its_target_however_little() -> None:
    run = Run(Osml(needs(rate_10=4.0), without=["probe"]))
    run(_few(1.05), service("b"), times=4)
    assert run.cores()["a"] == 18
    run(_few(0.5), service("b"), times=20)
    assert run.cores() == {"a": 4, "b": 4}


@pytest.mark.parametrize(("ratio", "least"), [(0.5, 16), (1.05, 20), (None, 20)])
def test_only_from_a_service_that_meets_its_target_something_goes_to_a_neighbour(
    ratio: float | None, least: int
) -> None:
    run = Run(Osml(needs(rate_10=16.0), without=["probe"]))
    parts = Partition([Region(["a"], 20, 10), Region(["b"], 16, 10)])
    run(_few(0.5), service("b"), partition=parts, times=3)
    run(_few(ratio), service("b", 1.5), partition=parts, times=2)
    cores = run.decision.partition.cores_of("a")
    assert cores >= least
    assert ratio != 0.5 or cores < 20


def test_a_neighbour_gives_nothing_of_one_resource_where_the_guard_calls_that_unsafe() -> None:
    """It has fewer cores than its need and lives on its ways, which look like a surplus."""
    fake: Any = Fake(lambda row: [15.0, 10.0, 16.0, 4.0, 1.0])
    run = Run(Osml(Models(a=fake, a2=fake), without=["balance"]))
    parts = Partition([Region(["a"], 14, 16), Region(["b"], 22, 4)])
    run(service("a"), service("b"), partition=parts)
    for _ in range(4):
        run(service("a"), service("b", 1.5), partition=parts)
        left = run.decision.partition
        assert left.ways_of("a") >= 16 or left.cores_of("a") >= 16  # what it has, or the OAA


def test_model_c_corrects_a_missed_target_and_the_decision_says_so() -> None:
    known = needs(rate_10=4.0)
    with_c: Any = Values(1, 0)
    run = Run(OsmlDqn(Models(a=known.a, a2=known.a2, c=with_c), without=["probe"]))
    run(service("a"), service("b"), times=9)
    decision = run(service("a", 1.5), service("b"))
    assert run.cores()["a"] == 5
    assert "Model-C <+1, +0> Q=5.00" in run.words()
    forecast = next(f for f in decision.forecasts if f.service == "a")
    assert forecast.action == (1, 0)
    assert forecast.q == 5.0


def test_a_target_missed_with_all_that_is_allowed_is_told_to_the_scheduler_above() -> None:
    run = placed()
    run(replace(service("a", 1.5), max_cores=3, max_ways=2), service("b"), times=6)
    lack = run.decision.infeasible
    assert lack is not None
    assert lack.services == ["a"]
    assert "targets are missed, and no service can give resources" in lack.message


@pytest.mark.parametrize(("used", "gets"), [(4.0, False), (2.0, True)])
def test_who_uses_all_of_its_cpus_is_not_given_ways_alone(used: float, gets: bool) -> None:
    late = service("a", 1.5, counters=Counters(cpu_usage_cores=used))
    rest = service("b", 0.95, counters=Counters(cpu_usage_cores=31.0))
    seen = facts(late, rest, cells={"a": (4, 2), "b": (32, 10)})
    tracks = {**seen.tracks, "a": replace(seen.tracks["a"], settled=5, streak=-3)}
    found = more_for_missed(replace_facts(seen, tracks=tracks, missed=["a"], alarmed=["a"]))
    assert (found is not None and found.cells["a"].ways > 2) is gets


def test_a_busy_service_takes_no_ways_from_another_that_misses_its_target() -> None:
    def of(name: str, ratio: float, used: float) -> Service:
        return service(name, ratio, counters=Counters(cpu_usage_cores=used))

    cells = {"a": (4, 2), "b": (28, 10), "c": (4, 2)}
    seen = facts(of("a", 1.5, 4.0), of("b", 0.95, 27.0), of("c", 1.5, 2.0), cells=cells)
    tracks = {name: replace(one, settled=5, streak=-3) for name, one in seen.tracks.items()}
    found = more_for_missed(replace_facts(seen, tracks=tracks, missed=["a", "c"], alarmed=["a", "c"]))
    assert found is not None
    assert found.cells["a"] == (4, 2)
    assert found.cells["c"] == (4, 3)
    assert found.tracks["a"].correction == tracks["a"].correction
    assert found.tracks["c"].correction != tracks["c"].correction
