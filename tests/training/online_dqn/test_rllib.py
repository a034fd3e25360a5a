"""RLlib around the same network: handed over bit by bit, the same seed the same weights, a plain QNet comes back.

In a process of its own: Ray writes into HOME, and its path is fixed when it is imported.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

pytest.importorskip("osml_training")
pytest.importorskip("torch")
pytest.importorskip("pyarrow")
pytest.importorskip("ray")

from osml_training.dqn.transitions import Tuples
from osml_training.online_dqn.config import OnlineConfig
from osml_training.rllib.learn import fragment_of, learn_on_rllib, warm_rows

from osml.base.failure import InputError
from osml.predictors.actions import N_ACTIONS

CONFIG = OnlineConfig(envs=32, batch=128, replay_ratio=1.0, min_services=4, steps=2000, learning_starts=500, seed=5)

PRELUDE = """
import json, sys
import numpy as np, torch
from osml_training.online_dqn.config import OnlineConfig
from osml_training.online_dqn.environment import ServiceSteps, states_of
from osml_training.online_dqn.learner import greedy
from osml_training.dqn.qnet import QNet
from osml_training.rllib.learn import *
from osml_training.rllib.learn import build, take_back
from osml_training.dqn.state import STATE
from osml_training.dqn.transitions import Tuples
from osml_training.networks import Scaling
import msgspec

CONFIG = msgspec.json.decode(sys.argv[1], type=OnlineConfig)
N = len(STATE)


def net_of(seed):
    return QNet(Scaling(np.zeros(N, np.bool_), np.zeros(N), np.full(N, 30.0)), seed=seed)


def weights(net):
    return torch.cat([part.detach().flatten() for part in net.parameters()])


def tuples_of(rows):
    rng = np.random.default_rng(0)
    before = rng.random((rows, N), np.float32)
    before[0, 3] = np.nan
    legal = (rng.random((rows, 49)) < 0.5).astype(np.int8)
    legal[:, 24] = 1
    return Tuples(before, rng.integers(0, 49, rows), rng.random(rows, np.float32), before + 1, legal)
"""


def told(tmp_path: Path, config: OnlineConfig, code: str) -> dict:
    """What the code prints as JSON in its last line."""
    home = tmp_path / "home"
    (home / "ray_results").mkdir(parents=True, exist_ok=True)
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    env = os.environ | {
        "HOME": str(home),
        "XDG_CACHE_HOME": cache,
        "RAY_AUTH_MODE": "disabled",
        "OMP_NUM_THREADS": "1",
        "RAY_worker_niceness": "0",  # at Ray's 15 a worker's imports take minutes where others work
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PRELUDE + code, msgspec.json.encode(config).decode()],
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_net_is_handed_over_and_taken_back_bit_by_bit_and_both_act_alike(tmp_path):
    found = told(
        tmp_path,
        CONFIG,
        """
cluster = start_ray("local", 1)
net = net_of(3)
algorithm = build(net, msgspec.structs.replace(CONFIG, bounded=False), tuples_of(300))
back = net_of(9)
take_back(algorithm, back)
env = ServiceSteps(32, **CONFIG.environment())
seen, _ = env.reset(seed=0)
batch = {"obs": {name: torch.from_numpy(value) for name, value in seen.items()}}
module = algorithm.get_module()
with torch.no_grad():
    learner = algorithm.learner_group._learner.module["default_policy"]
    theirs = module.compute_q_values(batch)["qf_preds"]
    target = learner.forward_target(batch)["qf_preds"]
    ours = net(torch.from_numpy(states_of(seen["observations"])), torch.from_numpy(seen["action_mask"]))
    chosen = module.forward_inference(batch)["actions"].numpy()
legal = torch.isfinite(ours)
buffer = algorithm.local_replay_buffer
print(json.dumps({
    "weights": float((weights(back) - weights(net)).abs().max()),
    "sampler": float((theirs[legal] - ours[legal]).abs().max()),
    "target": float((target[legal] - ours[legal]).abs().max()),
    "illegal": bool((torch.isneginf(theirs) == ~legal).all()),
    "same_actions": bool((chosen == greedy(net)(states_of(seen["observations"]), seen["action_mask"])).all()),
    "warm": buffer.get_num_timesteps(),
}))
""",
    )
    assert found["weights"] == found["sampler"] == found["target"] == 0.0
    assert found["illegal"]
    assert found["same_actions"]
    assert found["warm"] == 300


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_same_seed_gives_the_same_weights_with_offline_tuples_in_the_buffer(tmp_path):
    found = told(
        tmp_path,
        CONFIG,
        """
nets = [net_of(1), net_of(1), net_of(1)]
ends = [learn_on_rllib(net, msgspec.structs.replace(CONFIG, seed=seed), offline=tuples_of(300))
        for net, seed in zip(nets, (5, 5, 6))]
print(json.dumps({
    "same": float((weights(nets[0]) - weights(nets[1])).abs().max()),
    "other": float((weights(nets[0]) - weights(nets[2])).abs().max()),
    "learned": float((weights(nets[0]) - weights(net_of(1))).abs().max()),
    "steps": [end.steps for end in ends],
}))
""",
    )
    assert found["same"] == 0.0
    assert found["other"] > 0
    assert found["learned"] > 0
    assert min(found["steps"]) >= 2000


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_remote_runner_samples_for_the_learner(tmp_path):
    found = told(
        tmp_path,
        msgspec.structs.replace(CONFIG, num_env_runners=1),
        """
net = net_of(1)
end = learn_on_rllib(net, CONFIG)
print(json.dumps({"steps": end.steps, "learned": float((weights(net) - weights(net_of(1))).abs().max()),
                  "finite": bool(torch.isfinite(weights(net)).all())}))
""",
    )
    assert found["steps"] >= 2000
    assert found["learned"] > 0
    assert found["finite"]


def test_the_replay_ratio_says_how_long_a_round_is():
    assert fragment_of(msgspec.structs.replace(CONFIG, replay_ratio=1.0)) == 4
    assert fragment_of(msgspec.structs.replace(CONFIG, replay_ratio=2.0)) == 2
    assert fragment_of(msgspec.structs.replace(CONFIG, replay_ratio=1.0, num_env_runners=2)) == 2
    with pytest.raises(InputError, match="is 0\\.5 steps per round, expected a whole number"):
        fragment_of(msgspec.structs.replace(CONFIG, replay_ratio=8.0))


def test_the_offline_share_says_how_many_tuples_are_put_in():
    many = Tuples(
        np.zeros((10_000, 2), np.float32),
        np.zeros(10_000, np.int64),
        np.zeros(10_000, np.float32),
        np.zeros((10_000, 2), np.float32),
        np.ones((10_000, N_ACTIONS), np.int8),
    )
    assert warm_rows(many, msgspec.structs.replace(CONFIG, offline_share=0.2)) == 500
    assert warm_rows(many, msgspec.structs.replace(CONFIG, offline_share=0.0)) == 0
    assert warm_rows(None, CONFIG) == 0


def test_what_rllib_has_not_is_refused():
    with pytest.raises(InputError, match="RLlib's DQN has no such penalty"):
        learn_on_rllib(None, msgspec.structs.replace(CONFIG, conservative=0.5))
