"""What a judgement must not overlook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("osml_training")
pytest.importorskip("torch")

import torch
from osml_training.dqn.export import load_qnet
from osml_training.dqn.transitions import Tuples
from osml_training.learning.compare_candidates import Virtual, judge, on_held_out, on_virtual_node
from osml_training.learning.config import LearningConfig
from osml_training.learning.recorded import Recorded

from osml.lab.bench.report.statistics import Estimate

ROOT = Path(__file__).resolve().parents[3]
ROWS = 60


def net_of(value: float, spoilt: float | None = None) -> Any:
    """A network that says `value` everywhere, and `spoilt` in every third state."""

    def net(states: torch.Tensor, legal: torch.Tensor | None = None) -> torch.Tensor:
        del legal
        q = torch.full((len(states), 49), value)
        if spoilt is not None:
            q[states[:, 0] == 0] = spoilt
        return q

    return net


@pytest.fixture
def held() -> Recorded:
    """Rewards of 0; every third state is 0, the others are 1."""
    states = (np.arange(ROWS) % 3 > 0).astype(np.float32)[:, None]
    legal, met = np.ones((ROWS, 49), np.int8), np.ones(ROWS, np.bool_)
    tuples = Tuples(states, np.full(ROWS, 24), np.zeros(ROWS, np.float32), states, legal)
    return Recorded(tuples, legal, met, met, np.zeros(ROWS, np.int64), np.arange(ROWS), {})


@pytest.mark.parametrize("spoilt", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_no_numbers_somewhere_are_worse_everywhere(held: Recorded, spoilt: float) -> None:
    lower, even = Estimate(-0.02, -0.03, -0.01, ROWS), Estimate(0.0, -0.001, 0.001, ROWS)
    virtual = Virtual(lower, lower, even, 0.1, 0.08)
    good = on_held_out(net_of(0.1), net_of(1.0), held, 0.9)
    assert judge(good, virtual, LearningConfig()).promote
    bad = on_held_out(net_of(0.1, spoilt), net_of(1.0), held, 0.9)
    verdict = judge(bad, virtual, LearningConfig())
    assert not verdict.promote
    assert "larger error on held-out experiences" in verdict.reasons[0]


def test_gains_that_last_for_minutes_are_not_taken_for_many() -> None:
    """Two networks, each better half of the time, in turns of about twenty minutes: no difference, for the most part.

    With every minute resampled by itself, most of these draws were "beyond noise".
    """
    series, minutes = 6, 240
    beyond = 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        turns = np.cumsum(random.random((series, minutes)) < 1 / 10, axis=1)
        better = random.integers(0, 2, (series, minutes + 1))[np.arange(series)[:, None], turns].reshape(-1)
        rows = series * minutes
        states = better.astype(np.float32)[:, None]
        legal, met = np.ones((rows, 49), np.int8), np.ones(rows, np.bool_)
        tuples = Tuples(states, np.full(rows, 24), np.zeros(rows, np.float32), states, legal)
        which, when = np.repeat(np.arange(series), minutes), np.tile(np.arange(minutes), series)
        held = Recorded(tuples, legal, met, met, which, when, {})
        error = on_held_out(_in_turns(0.1, 1.0), _in_turns(1.0, 0.1), held, 0.0).error
        beyond += error.low > 0 or error.high < 0
    assert beyond <= 3


def test_services_of_one_node_are_not_taken_for_several_nodes() -> None:
    """Whatever is better in a minute is so for all services of the node: four of them say no more than one."""
    minutes = 240
    better = np.random.default_rng(1).integers(0, 2, minutes)

    def width(services: int) -> float:
        states = np.repeat(better, services).astype(np.float32)[:, None]
        rows = minutes * services
        legal, met = np.ones((rows, 49), np.int8), np.ones(rows, np.bool_)
        tuples = Tuples(states, np.full(rows, 24), np.zeros(rows, np.float32), states, legal)
        held = Recorded(tuples, legal, met, met, np.zeros(rows, np.int64), np.repeat(np.arange(minutes), services), {})
        error = on_held_out(_in_turns(0.1, 1.0), _in_turns(1.0, 0.1), held, 0.0).error
        return error.high - error.low

    assert width(4) > 0.9 * width(1)


def _in_turns(zero: float, one: float) -> Any:
    """A network that says `zero` in state 0 and `one` in state 1."""

    def net(states: torch.Tensor, legal: torch.Tensor | None = None) -> torch.Tensor:
        del legal
        return torch.where(states[:, :1] == 0, zero, one).expand(-1, 49)

    return net


def test_every_judgement_has_episodes_of_its_own() -> None:
    """What chance does in some episodes would otherwise help the same champions every night."""
    net = load_qnet(ROOT / "models/c-masked-e5-2697v4").eval()
    config = LearningConfig(episodes=8, horizon=5)
    one, again, other = (on_virtual_node(net, net, "e5-2697v4", config, text * 64) for text in "aab")
    assert one == again
    assert one.champion_e_s != other.champion_e_s
    assert other.e_s.value == 0.0
