"""Judging a policy on the virtual node: fixed episodes, in pairs, by what really was."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("osml_training")
pytest.importorskip("torch")
pytest.importorskip("pyarrow")

from osml_training.collect.fingerprint import virtual_fingerprint
from osml_training.dqn.qnet import QNet
from osml_training.dqn.state import STATE
from osml_training.networks import Scaling
from osml_training.online_dqn.evaluate import better, evaluate_greedy
from osml_training.online_dqn.starts import _features, fit, model_a_starts
from osml_training.tables.example_rows import descriptors
from osml_training.tables.features import PLATFORM as DESCRIPTORS

from osml.base.failure import InputError
from osml.entropy import be_entropy, combine, intolerable, lc_entropy
from osml.predictors.actions import NO_CHANGE, action_index
from osml.simulator import catalogs
from osml.simulator.closed_loop import Grant
from osml.simulator.colocation.features import N_FEATURES
from osml.simulator.engine import advance
from osml.simulator.state import Node, initial_state

PLATFORM = "e5-2697v4"


def hold(states, legal):
    return np.full(len(states), NO_CHANGE)


def test_two_evaluations_of_a_policy_are_the_same_and_the_seed_is_the_episode():
    one, again = evaluate_greedy(hold, PLATFORM, range(12)), evaluate_greedy(hold, PLATFORM, range(12))
    assert all((a == b).all() for a, b in zip(one, again, strict=True))
    part = evaluate_greedy(hold, PLATFORM, (7, 3))
    assert part.e_s.tolist() == one.e_s[[7, 3]].tolist()
    assert len(set(one.e_s.tolist())) > 6


def test_a_net_and_its_greedy_policy_are_the_same():
    net = QNet(Scaling(np.zeros(len(STATE), np.bool_), np.zeros(len(STATE)), np.full(len(STATE), 50.0)), seed=1)
    seen = []

    def policy(states, legal):
        import torch

        with torch.no_grad():
            q = net(torch.from_numpy(states)).numpy()
        seen.append(len(states))
        return np.where(legal > 0, q, -np.inf).argmax(axis=1)

    one, other = evaluate_greedy(net, PLATFORM, range(8)), evaluate_greedy(policy, PLATFORM, range(8))
    assert one.e_s.tolist() == other.e_s.tolist()
    assert len(seen) == 60


def test_giving_everything_away_falls_off_the_cliff_and_holding_does_not():
    down = [action_index(-3, -3), action_index(-3, 0), action_index(0, -3), action_index(-1, 0), action_index(0, -1)]

    def shrink(states, legal):
        return np.array([next((a for a in down if row[a]), NO_CHANGE) for row in legal])

    held, shrunk = evaluate_greedy(hold, PLATFORM, range(20)), evaluate_greedy(shrink, PLATFORM, range(20))
    assert held.falls.sum() == held.downward.sum() == 0
    assert shrunk.falls.sum() > 0
    assert shrunk.downward.sum() >= shrunk.falls.sum()
    worse = better(shrunk, held)
    assert worse.low > 0.2
    assert better(shrunk, held, "met").high < 0
    assert better(held, held).value == 0


def test_entropy_and_targets_are_those_of_the_engine_without_noise():
    # One service, no job, held still: the engine, run by hand from the same start, says the same.
    settings = {"max_services": 1, "services": ("xapian",), "jobs": (), "traces": ("constant",), "horizon": 4}
    found = evaluate_greedy(hold, PLATFORM, (5,), **settings)
    from osml.simulator import catalogs
    from osml.simulator.colocation.config import config_of
    from osml.simulator.colocation.episodes import draw_episode

    platform, service = catalogs.platform(PLATFORM), catalogs.service("xapian", PLATFORM)
    config = config_of({"platform": PLATFORM, "start": "even", **settings})
    episode = draw_episode(config, platform, np.random.default_rng([5, 7]))
    node = Node(platform, (service,))
    cpus, ways = frozenset(platform.cpu_order()[: episode.cores[0]]), int(episode.ways[0])
    state, tails = initial_state(node), []
    for _ in range(5 + 4):
        state, flows = advance(node, state, [Grant(cpus, (1 << ways) - 1)], {"xapian": episode.loads[0, 0]}, 1.0)
        tails.append(flows[0].p99_ms)
    q = [intolerable(tail, service.target_ms) for tail in tails[-4:]]
    assert found.e_s[0] == pytest.approx(np.mean(q), abs=1e-9)
    assert found.met[0] == np.mean([tail <= service.target_ms for tail in tails[-4:]])
    assert found.cores[0] == pytest.approx(episode.cores[0] / platform.cpus)


def test_the_entropy_of_a_node_with_a_job_is_that_of_the_formulas():
    assert combine(lc_entropy([0.5, 0.0]), be_entropy([4.0])) == pytest.approx(0.8 * 0.25 + 0.2 * 0.75)
    alone = evaluate_greedy(hold, PLATFORM, range(10), job_probability=0.0)
    beside = evaluate_greedy(hold, PLATFORM, range(10), job_probability=1.0)
    assert (beside.e_s > 0).all()  # even shares leave no job its solo speed
    assert (alone.e_s == 0).any()


def test_evaluations_of_other_seeds_cannot_be_compared():
    with pytest.raises(InputError, match="the evaluations have 2 and 3 episodes, expected the same seeds"):
        better(evaluate_greedy(hold, PLATFORM, range(2)), evaluate_greedy(hold, PLATFORM, range(3)))


def test_turns_are_refused():
    with pytest.raises(InputError, match="turns or churn is not supported in an evaluation"):
        evaluate_greedy(hold, PLATFORM, (1,), turns=True)


# -- starts ----------------------------------------------------------------------------------------------------------


def test_what_does_not_fit_shrinks_in_proportion_and_nobody_gets_nothing():
    wanted = np.array([[10.0, 5, 0], [30, 20, 4], [1, 1, 1]])
    assert fit(wanted, np.array([36, 27, 3])).tolist() == [[10, 5, 0], [14, 9, 2], [1, 1, 1]]


def test_model_a_is_asked_about_the_machine_that_it_was_trained_on():
    """Its memory bandwidth is that of the link where this is less."""
    platform = catalogs.platform("epyc-7763")
    measured = SimpleNamespace(measured=np.zeros((1, 1, 64)))
    nodes = SimpleNamespace(
        features=np.zeros((1, 1, N_FEATURES), np.float32), platform=platform, fleet=SimpleNamespace(nodes=measured)
    )
    found = _features(nodes, np.ones((1, 1), np.bool_), DESCRIPTORS)[0]
    np.testing.assert_array_equal(found, descriptors(virtual_fingerprint(platform)))
    assert found[DESCRIPTORS.index("platform_bandwidth_gbps")] == platform.link_gbps < platform.bandwidth_gbps


def test_model_a_starts_use_less_and_meet_more_targets_than_even_shares():
    pytest.importorskip("onnxruntime")
    from osml.predictors import find_model, load_predictor, models_folder

    starts = model_a_starts(load_predictor(find_model(models_folder(), "a2", PLATFORM)))
    even = evaluate_greedy(hold, PLATFORM, range(60))
    from_a = evaluate_greedy(hold, PLATFORM, range(60), starts=starts)
    # 0.63 of the ways and 0.83 of the cores. On the node before 24 November, where cache hardly mattered, it was half.
    assert from_a.ways.mean() < 0.7 * even.ways.mean()
    assert from_a.cores.mean() < 0.85 * even.cores.mean()
    assert better(from_a, even).value < 0
