"""The gymnasium environment: contract, actions and masks, rewards by hand, one node like many."""

import math
import subprocess
import sys
import warnings
from dataclasses import fields
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from osml.base.extras import how_to_install
from osml.base.failure import InputError
from osml.predictors.actions import N_ACTIONS, NO_CHANGE, action_index, action_of, legal_actions
from osml.simulator.colocation import features as f
from osml.simulator.colocation.actions import free_of, resolve
from osml.simulator.colocation.config import EnvironmentConfig, config_of
from osml.simulator.colocation.episodes import draw_episode
from osml.simulator.colocation.nodes import ColocationNodes
from osml.simulator.colocation.rewards import entropy_rewards, latency_rewards
from osml.simulator.environment import ENVIRONMENT_ID, ColocationEnv, ColocationVectorEnv
from osml.simulator.fleet import EMPTY
from osml.simulator.state import NodeInputError

FORMS = [
    {},
    {"turns": True},
    {"turns": True, "mask_in_observation": True},
    {"churn": 0.5, "reward": "latency", "horizon": 20, "jobs": ()},
    {"platform": "gold-6338", "services": ("moses", "ads"), "max_services": 2, "noise": False},
]


# -- the contract of gymnasium ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings_", FORMS)
def test_the_checker_of_gymnasium_has_nothing_to_say(settings_):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(ENVIRONMENT_ID, **settings_).unwrapped)


def test_the_id_says_itself_where_it_is_registered():
    code = (
        "import gymnasium; env = gymnasium.make('osml.simulator.environment:osml/Colocation-v0', max_services=2);"
        "print(env.unwrapped.action_space)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "MultiDiscrete([49 49])"


def test_without_gymnasium_one_sentence_says_what_to_install():
    code = "import sys; sys.modules['gymnasium'] = None; import osml.simulator.environment"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"needs gymnasium: {how_to_install('gym')}" in run.stderr.splitlines()[-1]
    assert "During handling" not in run.stderr


@given(st.integers(0, 2**31), st.booleans(), st.sampled_from(["entropy", "latency"]))
@settings(max_examples=15, deadline=None)
def test_observations_stay_in_their_space_whatever_is_done(seed, turns, reward):
    env = ColocationEnv(turns=turns, reward=reward, churn=0.5, horizon=8)
    env.action_space.seed(seed)
    seen, _ = env.reset(seed=seed)
    for step in range(8):
        assert seen in env.observation_space
        seen, given_, terminated, truncated, _ = env.step(env.action_space.sample())
        assert math.isfinite(given_)
        assert (terminated, truncated) == (False, step == 7)
    assert seen in env.observation_space


def test_the_reference_page_lists_every_feature_with_its_bounds_and_every_setting():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "environment.md").read_text("utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]
    low, high = f.bounds(ColocationNodes(EnvironmentConfig(), 1).platform)
    for i, (name, (unit, meaning)) in enumerate(f.FEATURES.items()):
        assert [str(i), f"`{name}`", meaning, unit or "-", f"{low[i]:g}", f"{high[i]:g}"] in rows
    for field in fields(EnvironmentConfig):
        assert any(row[0] == f"`{field.name}`" for row in rows)


# -- actions and masks -----------------------------------------------------------------------------------------------


def test_index_and_action_go_round():
    assert [action_index(*action_of(index)) for index in range(N_ACTIONS)] == list(range(49))
    assert action_of(NO_CHANGE) == (0, 0)
    assert (action_of(0), action_of(6), action_of(48)) == ((-3, -3), (-3, 3), (3, 3))
    assert action_index(2, -1) == 37
    with pytest.raises(ValueError, match="expected 0 to 48"):
        action_of(49)
    with pytest.raises(ValueError, match="expected -3 to 3 cores and ways"):
        action_index(4, 0)


def test_the_legal_actions_by_hand():
    mask = legal_actions(cores=2, ways=1, free_cores=1, free_ways=0)
    legal = {action_of(index) for index in np.nonzero(mask)[0].tolist()}
    assert legal == {(-1, 0), (0, 0), (1, 0)}


def nodes_of(partitions, *, jobs=False, absent=(), **settings_) -> ColocationNodes:
    """Nodes with the given (cores, ways) of their services."""
    n = len(partitions[0])
    config = EnvironmentConfig(max_services=n, **settings_)
    nodes = ColocationNodes(config, len(partitions))
    kinds = np.full(config.places, EMPTY)
    kinds[:n] = range(n)
    kinds[list(absent)] = EMPTY
    kinds[-1] = len(config.services) if jobs else EMPTY
    nodes.fleet.place(kinds)
    for node, partition in enumerate(partitions):
        for place, (cores, ways) in enumerate(partition):
            nodes.fleet.nodes.cores[node, place], nodes.fleet.nodes.ways[node, place] = cores, ways
    return nodes


def resolved(nodes: ColocationNodes, *actions) -> tuple[list, list]:
    """Counts and what was taken on node 0 after these (cores, ways)."""
    which = np.zeros(1, np.int64)
    given_ = np.zeros((len(nodes.clock), len(actions)), np.int64)
    given_[0] = [action_index(*action) for action in actions]
    resolve(nodes.fleet.terms, nodes.fleet.nodes, which, given_, nodes.taken)
    counts = list(zip(nodes.fleet.nodes.cores[0].tolist(), nodes.fleet.nodes.ways[0].tolist(), strict=True))
    return counts[: len(actions)], [tuple(x) for x in nodes.taken[0].tolist()]


def test_joint_actions_give_back_first_and_take_in_order():
    nodes = nodes_of([[(16, 8), (10, 6), (10, 6)]])  # nothing is free
    counts, taken = resolved(nodes, (3, 2), (2, 1), (-2, -3))
    assert counts == [(18, 10), (10, 7), (8, 3)]
    assert taken == [(2, 2), (0, 1), (-2, -3)]


def test_the_last_core_and_way_of_a_service_and_of_the_jobs_stay():
    nodes = nodes_of([[(2, 1), (33, 18)]], jobs=True)
    counts, taken = resolved(nodes, (-3, -2), (3, 3))
    assert counts == [(1, 1), (34, 18)]
    assert taken == [(-1, 0), (1, 0)]


counts_ = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 12)), min_size=3, max_size=3)


@given(counts_, st.booleans(), st.lists(st.integers(0, 48), min_size=3, max_size=3), st.sampled_from([(), (1,)]))
@settings(max_examples=150, deadline=None)
def test_masks_are_what_the_rule_leaves_whole_and_no_joint_action_breaks_the_node(partition, jobs, actions, absent):
    scale = [(min(c, 11), min(w, 6)) for c, w in partition]
    nodes = nodes_of([scale], jobs=jobs, absent=absent)
    which = np.zeros(1, np.int64)
    nodes._look(which)
    free = free_of(nodes.fleet.terms, nodes.fleet.nodes, 0)
    for place in range(3):
        expected = legal_actions(*scale[place], *free)
        if place in absent:
            expected = (np.arange(49) == NO_CHANGE).astype(np.int8)
        assert nodes.masks[0, place].tolist() == expected.tolist()
    before = nodes.fleet.nodes.cores.copy(), nodes.fleet.nodes.ways.copy()
    for place in range(3):  # one alone: done in full exactly where it is legal
        alone = [(0, 0)] * 3
        alone[place] = action_of(actions[place])
        _, taken = resolved(nodes, *alone)
        assert (taken[place] == alone[place]) == bool(nodes.masks[0, place, actions[place]])
        nodes.fleet.nodes.cores[:], nodes.fleet.nodes.ways[:] = before
    resolved(nodes, *(action_of(a) for a in actions))
    there = nodes.fleet.nodes.present[0, :3] != EMPTY
    for counts, total in ((nodes.fleet.nodes.cores, 36), (nodes.fleet.nodes.ways, 20)):
        assert (counts[0, :3][there] >= 1).all()
        assert counts[0, :3][there].sum() + jobs <= total
    nodes.fleet.step(np.full((1, nodes.config.places), 0.3))  # it can be laid out


@pytest.mark.parametrize("action", [[49, 0], [-1, 0], [0], [0.5, 0.0], 3])
def test_what_is_no_action_is_refused(action):
    env, many = ColocationEnv(max_services=2), ColocationVectorEnv(1, max_services=2)
    env.reset(seed=0)
    many.reset(seed=0)
    with pytest.raises(gymnasium.error.InvalidAction, match="expected"):
        env.step(action)
    with pytest.raises(gymnasium.error.InvalidAction, match="expected"):
        many.step([action])


def test_a_step_needs_an_episode():
    env, many = ColocationEnv(max_services=1, horizon=1), ColocationVectorEnv(1, max_services=1)
    for stepped, action in ((env, [NO_CHANGE]), (many, [[NO_CHANGE]])):
        with pytest.raises(gymnasium.error.ResetNeeded, match="no episode is running"):
            stepped.step(action)
    env.reset(seed=0)
    env.step([NO_CHANGE])
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step([NO_CHANGE])


def test_a_step_needs_an_episode_on_every_node():
    many = ColocationVectorEnv(3, max_services=1)
    many.reset(options={"reset_mask": np.array([True, False, False])})
    with pytest.raises(gymnasium.error.ResetNeeded, match="on some node"):
        many.step([[NO_CHANGE]] * 3)


def test_an_illegal_action_is_cut_not_refused():
    env = ColocationEnv(jobs=(), max_services=1, start="even", services=("moses",))
    env.reset(seed=0)
    _, _, _, _, info = env.step([action_index(3, 3)])
    assert info["taken"].tolist() == [[0, 0]]


# -- rewards ---------------------------------------------------------------------------------------------------------


def test_the_entropy_reward_by_hand():
    taken = np.array([[[3, 2], [-1, 0]]])
    found = entropy_rewards(np.array([0.5]), np.array([0.2]), taken, 36, 20, 0.1)
    assert found[0].tolist() == pytest.approx([0.3 - 0.05 * (3 / 36 + 2 / 20), 0.3 + 0.05 / 36])


def test_the_latency_reward_by_hand():
    before = np.array([[10.0, 4.0, 5.0, math.nan]])
    after = np.array([[4.0, 10.0, 5.0, 3.0]])
    taken = np.array([[[2, 1], [-1, 0], [1, -1], [1, 1]]])
    found = latency_rewards(before, after, taken)[0].tolist()
    assert found == pytest.approx([math.log(7.0) - 3.0, -math.log(7.0) + 1.0, 0.0, -2.0])


@pytest.mark.parametrize("turns", [False, True])
def test_what_a_step_pays_is_the_fall_of_entropy_less_the_price_of_all_that_was_taken(turns):
    env = ColocationEnv(turns=turns, price=0.4, max_services=2, services=("moses", "xapian"), noise=False)
    _, info = env.reset(seed=1, options={"mix": "moses=0.5,xapian=0.4,be:stream"})
    for move in ((-3, 1), (2, -1), (0, 0)):
        before = info["e_s"]
        action = action_index(*move) if turns else [action_index(*move), action_index(1, 0)]
        _, reward, _, _, info = env.step(action)
        share = 0.5 * (info["taken"][:, 0].sum() / 36 + info["taken"][:, 1].sum() / 20)
        assert reward == pytest.approx(before - info["e_s"] - 0.4 * share)


def test_the_latency_reward_of_a_step_follows_the_mean_latency_that_is_seen():
    env = ColocationEnv(reward="latency", turns=True, max_services=1, services=("moses",), jobs=())
    before, info = env.reset(seed=1, options={"mix": "moses=0.5"})
    after, reward, _, _, info = env.step(action_index(-1, 0))
    change = float(before[f.O_MEAN]) - float(after[f.O_MEAN])
    assert reward == pytest.approx(math.copysign(math.log1p(abs(change)), change) - info["taken"].sum(), rel=1e-5)


# -- one node like many ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings_", [{**form, "horizon": 4} for form in FORMS])
def test_every_node_of_the_vector_form_is_the_single_one(settings_):
    single = SyncVectorEnv([lambda: ColocationEnv(**settings_) for _ in range(5)])
    many = gymnasium.make_vec(ENVIRONMENT_ID, num_envs=5, **settings_)
    assert isinstance(many, ColocationVectorEnv)
    assert many.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert (many.single_action_space, many.action_space) == (single.single_action_space, single.action_space)
    assert many.observation_space == single.observation_space
    many.action_space.seed(2)
    one, two = single.reset(seed=7), many.reset(seed=7)
    for _ in range(11):  # two episodes and a bit
        same(one, two)
        actions = many.action_space.sample()
        one, two = single.step(actions), many.step(actions)
    assert many.observation_space.contains(two[0])


def same(one, two) -> None:
    """Equal to the last bit."""
    if isinstance(one, dict):
        assert one.keys() == two.keys()
        for key in one:
            same(one[key], two[key])
    elif isinstance(one, tuple):
        for left, right in zip(one, two, strict=True):
            same(left, right)
    else:
        np.testing.assert_array_equal(one, two)


def test_some_nodes_can_be_reset_and_the_others_carry_on():
    many = ColocationVectorEnv(3, horizon=50)
    many.reset(seed=1)
    actions = np.full((3, 4), NO_CHANGE)
    before, *_ = many.step(actions)
    after, _ = many.reset(seed=9, options={"reset_mask": np.array([False, True, False])})
    assert (after[[0, 2]] == before[[0, 2]]).all()
    single, _ = ColocationEnv(horizon=50).reset(seed=10)
    assert (after[1] == single).all()


# -- episodes --------------------------------------------------------------------------------------------------------


def test_in_turn_every_service_that_is_there_acts_and_sees_itself():
    env = ColocationEnv(turns=True, max_services=4)
    seen, info = env.reset(seed=0, options={"mix": "moses=0.3,xapian=0.4,ads=0.2"})
    turns = []
    for _ in range(6):
        turns.append(int(info["turn"]))
        assert seen[f.O_CORES] == env._nodes.fleet.nodes.cores[0, turns[-1]]
        cores = seen[f.O_CORES]
        seen, _, _, _, info = env.step(action_index(-1, 0) if cores > 1 else NO_CHANGE)
        assert info["acted"] == turns[-1]
        assert info["acted_observation"][f.O_CORES] == max(cores - 1, 1)
        assert (info["taken"][[k for k in range(4) if k != turns[-1]]] == 0).all()
    assert turns == [0, 1, 2, 0, 1, 2]


def test_services_come_and_go_with_their_cores():
    nodes = ColocationEnv(churn=1.0, horizon=30, jobs=(), start="even", max_services=4)
    counts = set[tuple[int, ...]]()
    for seed in range(12):
        nodes.reset(seed=seed)
        for _ in range(30):
            nodes.step([NO_CHANGE] * 4)
            fleet = nodes._nodes.fleet.nodes
            there = fleet.present[0] != EMPTY
            counts.add(tuple(there.tolist()))
            assert (fleet.cores[0, there] >= 1).all()
            assert (fleet.cores[0, ~there] == 0).all()
            assert fleet.cores[0].sum() <= 36
            assert fleet.ways[0].sum() <= 20
    assert len(counts) > 4


def test_more_cores_help_a_starving_service():
    env = ColocationEnv(jobs=(), max_services=2, services=("moses", "xapian"), noise=False, start="even")
    env.reset(seed=3, options={"mix": "moses=0.6,xapian=0.2"})
    for _ in range(5):
        env.step([action_index(-3, -1), action_index(0, 0)])
    _, _, _, _, starved = env.step([NO_CHANGE, NO_CHANGE])
    total = 0.0
    for _ in range(20):
        _, reward, _, _, info = env.step([action_index(3, 1), NO_CHANGE])
        total += reward
    assert starved["e_s"] > 0.2
    assert info["e_s"] == 0.0
    assert info["qos_met"].tolist() == [True, True]
    assert total > 0.1


def test_an_episode_has_at_least_the_services_that_are_asked_for():
    many = ColocationVectorEnv(50, min_services=2, max_services=3)
    _, info = many.reset(seed=0)
    assert set((info["services"] >= 0).sum(axis=1).tolist()) == {2, 3}


def test_an_episode_can_begin_with_counts_that_are_given():
    config = EnvironmentConfig(max_services=2)
    nodes, rngs = ColocationNodes(config, 12), [np.random.default_rng(seed) for seed in range(12)]
    nodes.begin(np.arange(12), [draw_episode(config, nodes.platform, rng) for rng in rngs])
    before = nodes.features.copy()
    alone, some = np.isnan(nodes.fleet.nodes.measured[:, 1, 0]), np.arange(10)
    nodes.start_at(some, np.tile([7, 4], (10, 1)), np.tile([5, 3], (10, 1)))
    for place, cores, ways in ((0, 7, 5), (1, 4, 3)):
        there = np.ones(10, np.bool_) if place == 0 else ~alone[:10]
        assert nodes.features[:10, place, f.O_CORES].tolist() == np.where(there, cores, 0).tolist()
        assert nodes.features[:10, place, f.O_WAYS].tolist() == np.where(there, ways, 0).tolist()
    assert alone[:10].any()
    assert not alone[:10].all()
    assert (nodes.clock == 0).all()
    assert (nodes.features[10:] == before[10:]).all()
    with pytest.raises(NodeInputError, match="node 3 of the fleet has cores"):
        nodes.start_at(np.array([3]), np.array([[37, 1]]), np.array([[1, 1]]))


@pytest.mark.parametrize(
    ("settings_", "text"),
    [
        ({"min_services": 5}, "min_services is 5, expected a whole number from 1 to 4"),
        ({"horizons": 3}, "unknown setting 'horizons' of the environment, known are platform"),
        ({"horizon": 0}, "horizon is 0, expected a whole number from 1"),
        ({"horizon": 2.5}, "horizon is 2.5, expected a whole number"),
        ({"load_low": 0.9}, "load_low is 0.9, expected a number from 0 to 0.6"),
        ({"price": math.nan}, "price is nan"),
        ({"services": "moses"}, "services is 'moses', expected a list of different names"),
        ({"services": ("moses", "doom"), "max_services": 2}, "unknown LC service 'doom'"),
        ({"services": ("moses",)}, "max_services is 4, expected a whole number from 1 to 1"),
        ({"platform": "z80"}, "unknown platform 'z80'"),
        ({"traces": ("square",)}, "traces: 'square' is unknown, expected one of constant, step"),
        ({"reward": "praise"}, "reward: 'praise' is unknown, expected one of entropy, latency"),
        ({"platform": "i7-4770k", "max_services": 8}, "expected at least one of each for every service"),
    ],
)
def test_settings_that_make_no_sense_are_refused_with_a_sentence(settings_, text):
    with pytest.raises(InputError, match=text):
        config_of(settings_)


@pytest.mark.parametrize(
    ("mix", "text"),
    [
        ("moses=0.4,doom=0.1", "mix: 'doom' is not part of this environment"),
        ("moses=0.4,be:bayes", "mix: 'bayes' is not part of this environment"),
        ("moses=0.4,xapian=0.1,ads=0.2", r"expected at most 2 \(max_services\) and 1"),
        ("moses", "expected NAME=LOAD or be:NAME"),
    ],
)
def test_a_mix_that_the_environment_does_not_have_is_refused(mix, text):
    with pytest.raises(InputError, match=text):
        ColocationEnv(max_services=2).reset(options={"mix": mix})
