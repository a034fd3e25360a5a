"""The trading wheels of PARTIES (section 4.2.3, figure 4)."""

from collections import Counter

import pytest

from osml.domain import Resource
from osml.policies.parties.wheel import COMPUTE, STORAGE, Action, Wheels

ALL: tuple[Resource, ...] = (*COMPUTE, *STORAGE)


def wheels(resource: Resource | None = None, turn_from: Resource | None = None, direction: str = "up", seed: int = 0):
    actions = {} if resource is None else {"a": Action(direction, resource)}
    return Wheels(ALL, seed, 0, actions, {} if turn_from is None else {"a": turn_from})


def after_failures(count: int, start: Resource, *, storage_short: bool, direction: str = "up") -> list[Resource]:
    turning = wheels(start, start, direction)
    found = []
    for _ in range(count):
        turning.advance("a", turning.actions["a"], storage_short=storage_short)
        found.append(turning.actions["a"].resource)
    return found


def test_who_enters_lands_on_any_resource_with_the_same_probability() -> None:
    first = Counter(next(wheels(seed=seed).path("a", "up", storage_short=False)) for seed in range(1000))
    assert set(first) == set(ALL)
    assert all(150 < count < 250 for count in first.values())


def test_the_other_direction_is_entered_anew() -> None:
    first = {next(wheels("disk", "disk", "down", seed).path("a", "up", storage_short=False)) for seed in range(50)}
    assert first == set(ALL)


def test_memory_that_did_not_help_leads_to_the_disk_and_then_to_any_of_compute() -> None:
    assert after_failures(1, "memory", storage_short=False) == ["disk"]
    turning = [after_failures(2, "memory", storage_short=short)[1] for short in (True, False)]
    assert set(turning) <= set(COMPUTE)


def test_a_turn_of_compute_is_followed_by_another_one_while_there_is_memory_to_spare() -> None:
    assert after_failures(6, "ways", storage_short=False) == ["frequency", "cores", "ways"] * 2


def test_a_turn_of_compute_ends_in_storage_where_memory_is_full() -> None:
    assert after_failures(4, "ways", storage_short=True) == ["frequency", "cores", "memory", "disk"]


def test_downwards_a_turn_of_compute_ends_in_storage_too() -> None:
    assert after_failures(3, "cores", storage_short=False, direction="down") == ["ways", "frequency", "memory"]


def test_a_useful_action_stays_and_does_not_begin_another_turn() -> None:
    turning = wheels("ways", "cores")
    turning.land("a", Action("up", "ways"))
    assert turning.turn_from == {"a": "cores"}
    turning.land("a", Action("down", "ways"))
    assert turning.turn_from == {"a": "ways"}


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize("storage_short", [True, False])
@pytest.mark.parametrize("start", ALL)
def test_skipping_comes_to_every_resource_once(start: Resource, storage_short: bool, direction: str) -> None:
    for turn_from in ALL:
        path = list(wheels(start, turn_from, direction).path("a", direction, storage_short=storage_short))
        assert path[0] == start
        assert sorted(path) == sorted(ALL)


def test_skipping_goes_on_in_compute_while_there_is_memory_to_spare_and_to_storage_otherwise() -> None:
    path = list(wheels("frequency", "cores").path("a", "up", storage_short=False))
    assert path == ["frequency", "cores", "ways", "memory", "disk"]
    path = list(wheels("frequency", "cores").path("a", "up", storage_short=True))
    assert path == ["frequency", "memory", "disk", "cores", "ways"]


def test_a_node_without_any_of_it_has_no_wheel() -> None:
    assert list(Wheels([], 0, 0, {}, {}).path("a", "up", storage_short=True)) == []
    only = Wheels(["cores"], 0, 0, {"a": Action("up", "cores")}, {})
    only.advance("a", Action("up", "cores"), storage_short=True)
    assert only.actions["a"] == Action("up", "cores")
