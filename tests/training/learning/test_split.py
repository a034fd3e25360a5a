"""Nothing that is held out may be a neighbour of what was learned from."""

from __future__ import annotations

import pytest

pytest.importorskip("osml_training")
pytest.importorskip("torch")
pytest.importorskip("osml_serving")

from osml_training.dqn.rewards import Reward
from osml_training.dqn.state import STATE
from osml_training.learning.recorded import Recorded, recorded
from osml_training.learning.trial import explore

from osml.domain import Experience

MIX = "moses=0.4,img-dnn=0.5,be:stream"


@pytest.fixture(scope="module")
def together() -> list[Experience]:
    """Five minutes of three nodes, as they come in."""
    nodes = [explore(MIX, "e5-2697v4", 300, seed, f"node-{seed}") for seed in range(3)]
    return [experience for three in zip(*nodes, strict=True) for experience in three]


def test_the_services_of_a_node_are_one_run_of_it(together: list[Experience]) -> None:
    found = recorded(together, STATE, Reward())
    assert len(set(found.run.tolist())) == 3
    assert found.size > 1.5 * len(together)


def _minutes(found: Recorded) -> set[tuple[int, int]]:
    return set(zip(found.run.tolist(), found.minute.tolist(), strict=True))


def test_no_minute_is_both_learned_from_and_held_out(together: list[Experience]) -> None:
    found = recorded(together, STATE, Reward())
    train, held = found.split(0.3)  # in the middle of a minute of every node
    assert train.size == round(0.7 * found.size)
    assert _minutes(train).isdisjoint(_minutes(held))
    assert 0 < held.size < found.size - train.size


def test_minutes_of_an_agent_that_was_started_again_are_others(together: list[Experience]) -> None:
    """Its clock begins at 0 with every start."""
    once = recorded(together, STATE, Reward())
    twice = recorded([*together, *together], STATE, Reward())
    assert len(_minutes(twice)) == 2 * len(_minutes(once))
    train, held = twice.split(0.5)
    assert train.size == held.size


def test_late_deliveries_start_no_run(together: list[Experience]) -> None:
    mixed = [experience for pair in zip(together[3:], together, strict=False) for experience in pair]
    again = recorded(mixed, STATE, Reward())
    assert len(_minutes(again)) == len(_minutes(recorded(together, STATE, Reward())))
