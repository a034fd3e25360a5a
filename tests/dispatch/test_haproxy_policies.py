"""Dispatch policies on what they see: pure functions, so everything is tried by example or at random."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osml.dispatch.haproxy.farm_view import Backend, FarmObservation
from osml.dispatch.haproxy.policies import POLICIES, PolicyState, avoid, non_idling, round_robin, threshold
from osml.dispatch.mdp.thresholds import ThresholdTable

BACKENDS = st.builds(
    Backend,
    name=st.just("web"),
    in_service=st.integers(0, 6),
    limit=st.integers(1, 5),
    usable=st.booleans(),
    interfered=st.booleans(),
    limit_interfered=st.integers(1, 5),
)


@st.composite
def observations(draw: st.DrawFn) -> FarmObservation:
    drawn = draw(st.lists(BACKENDS, min_size=1, max_size=5))
    backends = [replace(backend, name=f"web{number}") for number, backend in enumerate(drawn)]
    return FarmObservation(tuple(backends), draw(st.integers(0, 40)))


@st.composite
def tables(draw: st.DrawFn, servers: int) -> ThresholdTable:
    size = st.one_of(st.none(), st.integers(0, 50))
    return ThresholdTable(servers, {(i, b): draw(size) for i in range(1, servers + 1) for b in range(i)})


def farm(*in_service: int, interfered: str, queued: int = 0, limit: int = 5) -> FarmObservation:
    """Backends web0, web1, ...; interfered: their digits."""
    return FarmObservation(
        tuple(Backend(f"web{n}", jobs, limit, interfered=str(n) in interfered) for n, jobs in enumerate(in_service)),
        queued,
    )


def two(n_i: int | None, n_ib: int | None = 1, n_ii: int | None = 0) -> PolicyState:
    return PolicyState(ThresholdTable(2, {(1, 0): n_i, (2, 1): n_ib, (2, 0): n_ii}))


@pytest.mark.parametrize("name", POLICIES)
@given(data=st.data())
def test_no_policy_ever_takes_the_last_usable_backend_out(name: str, data: st.DataObject) -> None:
    seen = data.draw(observations())
    table = data.draw(st.one_of(st.none(), tables(data.draw(st.integers(1, 5)))))
    kept = data.draw(st.sampled_from([None, "web0", "web1", "gone"]))
    decision, _ = POLICIES[name](seen, PolicyState(table, kept))
    assert set(decision.slots) == {backend.name for backend in seen.usable}
    assert bool(decision.open) == bool(seen.usable)


@pytest.mark.parametrize("name", POLICIES)
@given(data=st.data())
def test_a_free_backend_is_always_in_with_all_its_slots(name: str, data: st.DataObject) -> None:
    seen = data.draw(observations())
    decision, _ = POLICIES[name](seen, PolicyState(data.draw(tables(len(seen.usable) or 1))))
    for backend in seen.usable:
        assert backend.interfered or decision.slots[backend.name] == backend.limit


@given(observations())
def test_without_interference_all_policies_are_the_same(seen: FarmObservation) -> None:
    calm = replace(seen, backends=tuple(replace(backend, interfered=False) for backend in seen.backends))
    decisions = [policy(calm, two(31))[0] for policy in POLICIES.values()]
    assert all(decision == decisions[0] for decision in decisions)


@given(data=st.data())
def test_threshold_with_extreme_tables_is_non_idling_and_avoid(data: st.DataObject) -> None:
    seen = data.draw(observations())
    k = len(seen.usable)
    if k == 0:
        return
    everything = PolicyState(ThresholdTable.non_idling(k))
    assert threshold(seen, everything)[0] == non_idling(seen, PolicyState())[0]
    if any(not backend.interfered for backend in seen.usable):
        assert threshold(seen, PolicyState(ThresholdTable.avoid(k)))[0] == avoid(seen, PolicyState())[0]


@given(st.integers(0, 12), st.integers(0, 30), st.integers(1, 30))
def test_more_waiting_requests_never_take_a_server_out(busy: int, queued: int, n_i: int) -> None:
    fewer, _ = threshold(farm(busy, 0, interfered="1", queued=queued), two(n_i))
    more, _ = threshold(farm(busy, 0, interfered="1", queued=queued + 1), two(n_i))
    assert set(fewer.open) <= set(more.open)


def test_round_robin_is_blind_to_interference() -> None:
    assert round_robin(farm(1, 0, interfered="01"), PolicyState())[0].slots == {"web0": 5, "web1": 5}


def test_avoid_uses_everything_when_nothing_is_free() -> None:
    assert avoid(farm(0, 0, interfered="1"), PolicyState())[0].slots == {"web0": 5, "web1": 0}
    assert avoid(farm(0, 0, interfered="01"), PolicyState())[0].slots == {"web0": 5, "web1": 5}


def test_an_idle_server_under_interference_comes_in_at_the_threshold() -> None:
    # Seven at the free server and in the queue: the next arrival would find seven in system.
    for queued, slots in ((4, 0), (5, 1), (6, 1)):
        # One that waits already counts as the arriving one: six before it, at N_i = 9 with five in service.
        decision, _ = threshold(farm(5, 0, interfered="1", queued=queued), two(9))
        assert decision.slots == {"web0": 5, "web1": slots}, queued
    assert threshold(farm(2, 0, interfered="1"), two(3))[0].slots["web1"] == 0
    assert threshold(farm(3, 0, interfered="1"), two(3))[0].slots["web1"] == 1


def test_an_idle_free_server_comes_before_one_under_interference() -> None:
    assert threshold(farm(0, 0, interfered="1", queued=30), two(1))[0].slots["web1"] == 0


def test_a_busy_server_under_interference_stays_in_only_if_its_own_completion_brings_the_next() -> None:
    # 12 in system; the completion leaves 11, of which one waits and counts as arriving at 10.
    seen = farm(5, 1, interfered="1", queued=6)
    assert threshold(seen, two(10))[0].slots["web1"] == 1
    assert threshold(seen, two(11))[0].slots["web1"] == 0


def test_where_all_wait_one_is_kept_and_stays_the_same() -> None:
    seen = farm(0, 0, interfered="01", queued=3)
    decision, state = threshold(seen, two(31, 20, 20))
    assert decision.slots == {"web0": 1, "web1": 0}
    # Now the other works, too; the one that was kept before stays it.
    again, _ = threshold(farm(0, 1, interfered="01", queued=3), state)
    assert again.slots["web0"] == 1


def test_thresholds_of_a_farm_of_another_size_are_not_used() -> None:
    seen = FarmObservation((*farm(1, 0, interfered="1").backends, Backend("web2", 1, 5)), 0)
    decision, state = threshold(seen, two(31))
    assert decision == non_idling(seen, PolicyState())[0]
    assert state.table == two(31).table, "they are for when the third server is gone again"


def test_what_is_not_usable_is_neither_counted_nor_decided() -> None:
    seen = FarmObservation((Backend("web0", 1, 5), Backend("web1", 9, 5, usable=False)), 2)
    assert seen.jobs == 3
    assert round_robin(seen, PolicyState())[0].slots == {"web0": 5}
