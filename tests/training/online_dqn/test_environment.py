"""Every service an environment of its own: whose next state it is, who is paid what, where episodes end."""

import gymnasium
import numpy as np
import pytest

pytest.importorskip("osml_training")
pytest.importorskip("pyarrow")

from osml_training.dqn.rewards import Reward
from osml_training.dqn.state import STATE, environment_state
from osml_training.online_dqn.credit import OwnEntropy
from osml_training.online_dqn.environment import MISSING, SERVICE_STEPS_ID, ServiceSteps, states_of

from osml.base.failure import InputError
from osml.predictors.actions import NO_CHANGE, action_index
from osml.simulator import catalogs
from osml.simulator.colocation.features import O_LATENCY, O_TARGET
from osml.simulator.environment import ColocationVectorEnv

SMALL = {"max_services": 3, "horizon": 6}


def random_actions(mask, rng):
    return np.where(mask > 0, rng.random(mask.shape), -1).argmax(axis=1)


def test_a_service_sees_its_own_next_state_its_own_mask_and_its_own_reward():
    env, nodes = ServiceSteps(12, **SMALL), ColocationVectorEnv(4, **SMALL)
    seen, _ = env.reset(seed=5)
    features, info = nodes.reset(seed=5)
    rng = np.random.default_rng(0)
    for _ in range(15):  # over the ends of episodes, too
        for node in range(4):
            for place in range(3):
                row = environment_state(features[node, place])
                assert np.array_equal(states_of(seen["observations"][3 * node + place]), row, equal_nan=True)
                assert (seen["action_mask"][3 * node + place] == info["action_mask"][node, place]).all()
        actions = random_actions(seen["action_mask"], rng)
        seen, rewards, terminated, truncated, nothing = env.step(actions)
        features, _, _, ends, info = nodes.step(actions.reshape(4, 3))
        assert rewards.tolist() == pytest.approx(info["service_rewards"].ravel())
        assert truncated.tolist() == np.repeat(ends, 3).tolist()
        assert not terminated.any()
        assert nothing == {}
        assert env.present.tolist() == (info["services"] >= 0).ravel().tolist()


def test_observations_are_in_their_space_and_say_what_is_missing():
    env = ServiceSteps(40, max_services=4, load_low=0.0, load_high=0.0)  # nobody asks anything
    seen, _ = env.reset(seed=0)
    assert env.observation_space.contains(seen)
    latency = seen["observations"][:, STATE.index("latency_ms")]
    assert (latency == MISSING).all()
    assert np.isnan(states_of(seen["observations"])[:, STATE.index("latency_ms")]).all()


def test_empty_places_do_nothing_and_are_paid_nothing():
    for credit in ("node", "own"):
        env = ServiceSteps(30, credit=credit, **SMALL)
        seen, _ = env.reset(seed=1)
        empty = ~env.present
        assert empty.any()
        assert (seen["action_mask"][empty].sum(axis=1) == 1).all()
        assert (seen["action_mask"][empty, NO_CHANGE] == 1).all()
        _, rewards, *_ = env.step(random_actions(seen["action_mask"], np.random.default_rng(0)))
        assert (rewards[empty] == 0).all()
        assert (rewards[~empty] != 0).any()


def test_the_own_credit_by_hand():
    features = np.zeros((2, 2, 26), np.float32)
    features[..., 1], features[..., O_TARGET] = 1, 10  # measured
    features[..., O_LATENCY] = [[5, 20], [40, 5]]  # Q: 0, 1/2; 3/4, 0
    own = OwnEntropy(catalogs.platform("e5-2697v4"), Reward(price=0.36, cliff=0.25))  # 36 CPUs
    own.begin(features)
    features[..., O_LATENCY] = [[20, 5], [20, 5]]  # Q: 1/2, 0; 1/2, 0
    features[1, 1, 1] = 0  # not measured: as it was
    taken = np.zeros((2, 2, 2), np.int64)
    taken[0, 0] = [2, 0]
    paid = own.pay(features, taken, np.zeros(2, np.bool_))
    assert paid.ravel().tolist() == pytest.approx([-0.5 - 0.25 - 0.01, 0.5, 0.25, 0.0])


def test_with_a_node_of_one_service_and_no_job_both_credits_are_the_same():
    alone = {"max_services": 1, "jobs": (), "horizon": 9, "services": ("moses", "xapian", "masstree")}
    one, other = ServiceSteps(50, credit="node", **alone), ServiceSteps(50, credit="own", **alone)
    seen, _ = one.reset(seed=3)
    other.reset(seed=3)
    rng = np.random.default_rng(3)
    fell = 0
    for _ in range(20):
        actions = random_actions(seen["action_mask"], rng)
        seen, paid, *_ = one.step(actions)
        _, same, *_ = other.step(actions)
        assert same.tolist() == pytest.approx(paid.tolist(), abs=1e-6)
        fell += int((np.abs(paid) > 0.1).sum())
    assert fell > 10  # something happened


def test_services_that_act_together_share_what_is_left():
    env = ServiceSteps(2, max_services=2, min_services=2, jobs=(), start="even")
    env.reset(seed=0)
    more = action_index(3, 3)
    seen, *_ = env.step([more, more])
    cores = seen["observations"][:, STATE.index("cores")]
    assert cores.sum() <= 36


def test_gymnasium_makes_it_by_its_id():
    env = gymnasium.make_vec(SERVICE_STEPS_ID, num_envs=8, vectorization_mode="vector_entry_point", max_services=4)
    assert isinstance(env.unwrapped, ServiceSteps)
    seen, _ = env.reset(seed=0)
    assert seen["observations"].shape == (8, len(STATE))


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"num_envs": 6}, r"num_envs is 6, expected a multiple of max_services \(4\)"),
        ({"num_envs": 4, "turns": True}, "turns is not supported here: all services act in each step"),
        ({"num_envs": 4, "credit": "all"}, "credit is 'all', expected node or own"),
        ({"num_envs": 4, "horizons": 3}, "unknown setting 'horizons'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, text):
    with pytest.raises(InputError, match=text):
        ServiceSteps(**settings)
