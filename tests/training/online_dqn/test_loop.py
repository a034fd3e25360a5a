"""The plain loop: it learns, twice the same, and keeps what was learned offline; learning on from recorded tuples."""

import msgspec
import numpy as np
import pytest

pytest.importorskip("osml_training")
pytest.importorskip("torch")
pytest.importorskip("pyarrow")

import torch
from osml_training.dqn.qnet import QNet
from osml_training.dqn.state import STATE
from osml_training.dqn.transitions import Tuples
from osml_training.networks import Scaling
from osml_training.online_dqn.config import OnlineConfig, read_online_config
from osml_training.online_dqn.environment import ServiceSteps, states_of
from osml_training.online_dqn.learner import Learner, greedy
from osml_training.online_dqn.loop import learn_online
from osml_training.online_dqn.replay import Replay, checked_tuples, some
from osml_training.online_dqn.resume import continue_online

from osml.base.failure import Failure, InputError
from osml.predictors.actions import N_ACTIONS, NO_CHANGE, action_of

SMALL = OnlineConfig(
    learning_rate=5e-4,
    learning_rate_end=5e-4,
    replay_ratio=1.0,
    envs=40,
    batch=64,
    steps=3000,
    learning_starts=200,
    target_sync=500,
    capacity=2000,
    horizon=15,
    seed=3,
)


def changed(**fields) -> OnlineConfig:
    return msgspec.structs.replace(SMALL, **fields).checked()


def plain_net(inputs: int = len(STATE), seed: int = 0) -> QNet:
    return QNet(Scaling(np.zeros(inputs, np.bool_), np.zeros(inputs), np.ones(inputs)), seed=seed)


def weights(net: QNet) -> torch.Tensor:
    return torch.cat([part.detach().flatten() for part in net.parameters()])


def tuples_of(rows: int, inputs: int = len(STATE), seed: int = 0) -> Tuples:
    rng = np.random.default_rng(seed)
    return Tuples(
        rng.random((rows, inputs), np.float32),
        rng.integers(0, N_ACTIONS, rows),
        rng.random(rows, np.float32),
        rng.random((rows, inputs), np.float32),
        np.ones((rows, N_ACTIONS), np.int8),
    )


# -- the loop --------------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    nets = [plain_net(), plain_net(), plain_net()]
    for net, seed in zip(nets, (3, 3, 4), strict=True):
        learn_online(net, changed(seed=seed))
    assert torch.equal(weights(nets[0]), weights(nets[1]))
    assert not torch.equal(weights(nets[0]), weights(nets[2]))


def test_what_was_learned_is_exported_as_it_is():
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from osml_training.dqn.export import q_model

    net = plain_net()
    learn_online(net, SMALL)
    states = tuples_of(50).before
    states[::7, 4] = np.nan
    session = runtime.InferenceSession(q_model(net, {}).SerializeToString(), providers=["CPUExecutionProvider"])
    with torch.no_grad():
        ours = net(torch.from_numpy(states)).numpy()
    assert np.abs(session.run(None, {"features": states})[0] - ours).max() < 1e-5


def test_it_makes_the_updates_that_the_replay_ratio_asks_for():
    on_progress = []
    config = changed(replay_ratio=2.0)
    found = learn_online(plain_net(), config, on_progress=on_progress.append, every=1000)
    assert found.steps >= config.steps
    assert found.updates == config.updates(found.steps) > 80
    assert [one.steps // 1000 for one in on_progress] == [1, 2, 3]
    assert found.intervals < found.steps  # several services act in one


def test_seeds_of_runs_do_not_share_nodes():
    seeds = [changed(seed=seed).episode_seed() for seed in range(50)]
    assert np.diff(np.sort(seeds)).min() > SMALL.envs


def test_it_never_does_what_is_illegal_while_it_explores(monkeypatch):
    step, seen = ServiceSteps.step, {}

    def watched(self, actions):
        legal = seen.get("mask")
        assert legal is None or (legal[np.arange(len(actions)), actions] > 0).all()
        found = step(self, actions)
        seen["mask"] = found[0]["action_mask"]
        return found

    monkeypatch.setattr(ServiceSteps, "step", watched)
    learn_online(plain_net(), changed(epsilon=((0, 0.5),)))
    assert "mask" in seen


def test_tuples_never_span_two_episodes(monkeypatch):
    added = []
    monkeypatch.setattr(Replay, "add", lambda self, new: added.append(new))
    learn_online(plain_net(), changed(learning_starts=10_000, epsilon=((0, 1.0),)))
    moved = [np.abs(one.after[:, STATE.index("cores")] - one.before[:, STATE.index("cores")]) for one in added]
    assert np.concatenate(moved).max() <= 3  # a new episode begins with any number of cores


def test_it_learns_that_nothing_is_worth_more_than_its_price():
    # Targets are never missed here: all that counts is the price, so the best policy gives everything back.
    config = changed(
        steps=40_000,
        envs=64,
        credit="own",
        max_services=1,
        learning_starts=500,
        epsilon=((0, 1.0), (20_000, 0.1)),
        capacity=40_000,
        learning_rate=2e-3,
        replay_ratio=4.0,
    )
    config = msgspec.structs.replace(config, reward=msgspec.structs.replace(config.reward, price=10.0))
    env = ServiceSteps(64, **config.environment())
    seen, _ = env.reset(seed=1)
    net = scaled_net(seen["observations"])
    learn_online(net, config)
    states = states_of(seen["observations"])
    cores = states[:, STATE.index("cores")]
    actions = greedy(net)(states, seen["action_mask"])
    rich = (cores > 3) & (states[:, STATE.index("ways")] > 3)
    assert rich.sum() > 20
    given_back = np.array([-sum(action_of(int(action))) for action in actions[rich]])
    assert np.mean(given_back >= 5) > 0.8  # of three cores and three ways, which is the most


def scaled_net(observations) -> QNet:
    states = np.nan_to_num(states_of(observations)).astype(np.float64)
    low, high = states.min(axis=0), states.max(axis=0)
    return QNet(Scaling(np.zeros(len(STATE), np.bool_), low, np.maximum(high - low, 1e-6)), seed=1)


# -- the learner -----------------------------------------------------------------------------------------------------


def test_an_update_by_hand():
    net = plain_net(inputs=2)
    config = changed(batch=1, gamma=0.5, learning_rate=1e-4, bounded=False)
    learner = Learner(net, config)
    with torch.no_grad():
        learner.target.head.bias += torch.arange(N_ACTIONS)  # the target network likes action 48 best
        net.head.bias[7] += 10.0  # the policy network chooses 7
    legal = np.zeros((1, N_ACTIONS), np.int8)
    legal[0, [3, 7, 20]] = 1
    one = Tuples(
        np.array([[0.2, np.nan]], np.float32),
        np.array([5]),
        np.array([0.3], np.float32),
        np.array([[0.4, 0.1]], np.float32),
        legal,
    )
    with torch.no_grad():
        before = net(torch.from_numpy(one.before))[0, 5].item()
        double = 0.3 + 0.5 * learner.target(torch.from_numpy(one.after))[0, 7].item()
        plain = 0.3 + 0.5 * learner.target(torch.from_numpy(one.after))[0, 20].item()
    assert learner.update(one) == pytest.approx((double - before) ** 2, rel=1e-4)
    single = Learner(net, msgspec.structs.replace(config, double_q=False))
    single.target.load_state_dict(learner.target.state_dict())
    with torch.no_grad():
        before = net(torch.from_numpy(one.before))[0, 5].item()
    assert single.update(one) == pytest.approx((plain - before) ** 2, rel=1e-4)


def test_the_target_network_changes_only_when_it_is_synchronised():
    net = plain_net()
    learner, replay = Learner(net, changed()), Replay(100, len(STATE))
    replay.add(tuples_of(100))
    kept = weights(learner.target)
    learner.learn(replay)
    assert torch.equal(weights(learner.target), kept)
    assert not torch.equal(weights(net), kept)
    learner.synchronise()
    assert torch.equal(weights(learner.target), weights(net))


def test_offline_tuples_stay_in_every_batch(monkeypatch):
    seen = []
    learner = Learner(
        plain_net(), changed(offline_share=0.25), tuples_of(10, seed=1)._replace(reward=np.full(10, 9, "f"))
    )
    monkeypatch.setattr(learner, "update", lambda batch, *counts: seen.append((batch, *counts)) or 0.0)
    replay = Replay(100, len(STATE))
    replay.add(tuples_of(100))
    for _ in range(3):
        learner.learn(replay)
    assert [(len(b.before), int((b.reward[:16] == 9).sum()), *counts) for b, *counts in seen] == [(64, 16, 16, 16)] * 3


def test_an_anchored_net_keeps_its_values_on_offline_tuples_while_it_learns_others():
    offline, other = tuples_of(200, seed=1), tuples_of(400, seed=2)
    other = other._replace(before=other.before + 2, reward=np.full(400, -3.0, np.float32))  # elsewhere, and bad
    moved = {}
    for anchor in (0.0, 10.0):
        net, replay = plain_net(), Replay(400, len(STATE))
        replay.add(other)
        config = changed(anchor=anchor, offline_share=0.5, gamma=0.0, learning_rate=2e-3, learning_rate_end=2e-3)
        learner = Learner(net, config, offline._replace(reward=np.full(200, -3.0, np.float32)))
        states = torch.from_numpy(offline.before)
        with torch.no_grad():
            before = net(states)
        for _ in range(300):
            learner.learn(replay)
        with torch.no_grad():
            moved[anchor] = float((net(states) - before).abs().mean())
            learned = net(torch.from_numpy(other.before)).gather(1, torch.from_numpy(other.action)[:, None])
        assert float(learned.mean()) < -1.5
    assert moved[10.0] < 0.2 * moved[0.0]


def test_a_loss_that_is_not_finite_ends_the_learning():
    replay = Replay(10, len(STATE))
    replay.add(tuples_of(10)._replace(reward=np.full(10, np.inf, np.float32)))
    with pytest.raises(Failure, match="lower learning_rate"):
        Learner(plain_net(), changed()).learn(replay)


# -- the experience pool ---------------------------------------------------------------------------------------------


def test_the_oldest_tuples_go():
    pool, new = Replay(7, len(STATE)), tuples_of(20)
    pool.add(some(new, np.arange(5)))
    pool.add(some(new, np.arange(5, 10)))
    assert len(pool) == 7
    kept = {round(float(x), 6) for x in pool.sample(500, np.random.default_rng(0)).reward}
    assert kept == {round(float(x), 6) for x in new.reward[3:10]}
    pool.add(new)
    kept = {round(float(x), 6) for x in pool.sample(500, np.random.default_rng(0)).reward}
    assert kept == {round(float(x), 6) for x in new.reward[13:]}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"action": np.full(5, 49)}, "actions are 49 to 49, expected 0 to 48"),
        ({"reward": np.array([0, 1, np.nan, 0, 0], np.float32)}, "a reward is not finite"),
        ({"before": np.full((5, len(STATE)), np.inf, np.float32)}, "before has an infinite value"),
        ({"after": np.zeros((5, 3), np.float32)}, r"after has shape \(5, 3\), expected"),
        ({"legal_after": np.zeros((5, N_ACTIONS), np.int8)}, "legal_after has a row without a legal action"),
    ],
)
def test_impossible_tuples_are_refused_with_the_field(fields, text):
    with pytest.raises(InputError, match=text):
        checked_tuples(tuples_of(5)._replace(**fields), len(STATE))


# -- learning on -----------------------------------------------------------------------------------------------------


def test_learning_on_prefers_what_was_paid_and_leaves_the_given_net_alone():
    net = plain_net()
    recorded = tuples_of(400)
    recorded = recorded._replace(reward=(recorded.action == 11).astype(np.float32))
    kept = weights(net).clone()
    config = changed(learning_rate=3e-3, gamma=0.0)
    found = continue_online(net, recorded, config, passes=100)
    assert torch.equal(weights(net), kept)
    chosen = greedy(found)(recorded.before, np.ones((400, N_ACTIONS), np.int8))
    assert np.mean(chosen == 11) > 0.9
    assert torch.equal(weights(found), weights(continue_online(net, recorded, config, passes=100)))  # same seed


def test_a_conservative_candidate_does_not_try_what_nobody_tried():
    recorded = tuples_of(400)
    recorded = recorded._replace(action=np.full(400, NO_CHANGE), reward=np.full(400, -1.0, np.float32))
    everything = np.ones((400, N_ACTIONS), np.int8)
    found = {
        weight: greedy(
            continue_online(
                plain_net(), recorded, changed(conservative=weight, learning_rate=3e-3, gamma=0.0), passes=100
            )
        )(recorded.before, everything)
        for weight in (0.0, 5.0)
    }
    assert np.mean(found[0.0] == NO_CHANGE) < 0.1
    assert np.mean(found[5.0] == NO_CHANGE) > 0.9


def test_learning_on_from_nothing_is_refused():
    with pytest.raises(InputError, match="no recorded tuples"):
        continue_online(plain_net(), tuples_of(0), changed())


# -- the config ------------------------------------------------------------------------------------------------------


def test_the_share_of_random_actions_follows_its_points():
    config = changed(epsilon=((0, 1.0), (100, 0.2), (200, 0.1)))
    assert [config.epsilon_at(step) for step in (0, 50, 100, 150, 200, 9999)] == pytest.approx(
        [1.0, 0.6, 0.2, 0.15, 0.1, 0.1]
    )
    assert changed().epsilon_at(123) == 0.05


def test_the_shipped_config_is_read():
    assert read_online_config().checked().gamma == 0.9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gamma: 1.5", "gamma is 1.5, expected 0 to 1"),
        ("epsilon: [[5, 0.1]]", "expected \\(step, share\\) points from step 0 on"),
        ("envs: 10", "envs is 10, expected a multiple of max_services"),
        ("gama: 0.9", "unknown field"),
        ("reward: {price: -1}", "reward.price is -1"),
        ("learning_rate: .nan", "learning_rate is nan"),
    ],
)
def test_a_wrong_config_is_refused_with_file_and_field(tmp_path, text, message):
    file = tmp_path / "c.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_online_config(file)


# -- what is left to gain --------------------------------------------------------------------------------------------


def test_the_bound_is_the_entropy_of_the_service_and_the_price_of_what_it_has():
    states = torch.zeros(3, len(STATE))
    states[:, STATE.index("latency_over_target")] = torch.tensor([0.5, 4.0, torch.nan])
    states[:, STATE.index("cores")], states[:, STATE.index("ways")] = 18.0, 5.0
    found = changed().bound()
    assert found is not None
    assert (found.cpus, found.ways, found.price) == (36, 20, 0.1)
    share = 0.1 * 0.5 * (18 / 36 + 5 / 20)
    assert found(states)[:, 0].tolist() == pytest.approx([share, 0.75 + share, np.inf])
    assert changed(credit="node").bound() is None
    assert changed(bounded=False).bound() is None


def test_an_estimate_above_the_bound_is_not_believed():
    tuples = tuples_of(1)._replace(reward=np.zeros(1, np.float32))
    tuples.after[0, STATE.index("latency_over_target")] = 0.5
    tuples.after[0, [STATE.index("cores"), STATE.index("ways")]] = 0
    losses = {}
    for bounded in (True, False):
        net = plain_net()
        learner = Learner(net, changed(bounded=bounded))
        with torch.no_grad():
            learner.target.head.bias += 100.0
            value = net(torch.from_numpy(tuples.before))[0, tuples.action[0]].item()
        losses[bounded] = learner.update(tuples)
        if bounded:
            assert losses[bounded] == pytest.approx(value**2, rel=1e-3, abs=1e-6)  # nothing is left to gain
    assert losses[False] > 5000
