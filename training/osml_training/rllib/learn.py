"""Model-C online on RLlib (new API stack): the same QNet, environment and settings as the plain loop.

RLlib has one agent an environment; every place of a node is one (`online_environment`), so each service is its own
agent and all share one network. On one machine or on a Ray cluster.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# Ray's own annotations have gaps.
from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from osml.base.extras import how_to_install
from osml.base.failure import Failure, InputError
from osml_training.dqn.qnet import QNet
from osml_training.dqn.transitions import Tuples
from osml_training.online_dqn.config import OnlineConfig
from osml_training.online_dqn.environment import MISSING, SERVICE_STEPS_ID
from osml_training.online_dqn.loop import Progress
from osml_training.online_dqn.replay import some
from osml_training.train.loop import deterministic

_MODULE = "default_policy"


def fragment_of(config: OnlineConfig) -> int:
    """Steps of each environment between two updates that make the replay ratio; InputError where it is not whole."""
    steps = config.batch / config.replay_ratio if config.replay_ratio else float("inf")
    fragment = steps / (config.envs * max(1, config.num_env_runners))
    if fragment < 1 or fragment != int(fragment):
        raise InputError(
            f"batch {config.batch} / replay_ratio {config.replay_ratio:g} / (envs {config.envs} x runners "
            f"{max(1, config.num_env_runners)}) is {fragment:g} steps per round, expected a whole number (RLlib)"
        )
    return int(fragment)


def warm_rows(offline: Tuples | None, config: OnlineConfig) -> int:
    """How many offline tuples go into RLlib's buffer, so that they are `offline_share` of it at the end."""
    if offline is None or config.offline_share == 0:
        return 0
    if config.offline_share >= 1:
        raise InputError("offline_share is 1, expected less than 1: RLlib needs samples of its own")
    return min(len(offline.before), round(config.steps * config.offline_share / (1 - config.offline_share)))


def start_ray(address: str, cpus: int) -> Any:
    """Ray, connected; started here where `address` is "local". Raises Failure where it is missing or not reached."""
    # Ray would start its workers by `uv run` in a copy of the folder, without our environment.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    if address == "local":
        os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # nobody else can reach it; else it writes a token to HOME
    try:
        import ray  # noqa: PLC0415
    except ImportError:
        raise Failure(f"RLlib is missing: {how_to_install('train', 'ray', package='osml-training')}") from None
    cluster: Any = ray
    if cluster.is_initialized():
        return cluster
    local: dict[str, Any] = {"num_cpus": cpus, "object_store_memory": 128 * 2**20} if address == "local" else {}
    try:
        cluster.init(
            address=address,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            **local,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise Failure(f"cannot reach a Ray cluster at '{address}' ({error})") from None
    return cluster


def build(net: QNet, config: OnlineConfig, offline: Tuples | None = None) -> Any:
    """An RLlib algorithm with the weights of `net` in both networks, and offline tuples in its buffer; Ray must run.

    The seed of its buffer is set, which RLlib leaves to chance: same seed, same weights (without remote runners).
    """
    from ray.rllib.algorithms.dqn import DQNConfig  # noqa: PLC0415
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec  # noqa: PLC0415

    from osml_training.rllib.module import MaskedQModule, RmsPropLearner, settings_of  # noqa: PLC0415

    deterministic()
    warm = warm_rows(offline, config)
    steps = max(config.steps, 10)
    rates = [[round(share * steps), rate] for share, rate in config.rates()]
    plan: Any = DQNConfig()
    plan = (
        plan.environment(f"osml_training.online_dqn.environment:{SERVICE_STEPS_ID}", env_config=config.environment())
        .env_runners(
            num_env_runners=config.num_env_runners,
            num_envs_per_env_runner=config.envs,
            rollout_fragment_length=fragment_of(config),
            gym_env_vectorize_mode="vector_entry_point",
        )
        .learners(num_learners=0)
        .rl_module(rl_module_spec=RLModuleSpec(module_class=MaskedQModule, model_config=settings_of(net, config)))
        .training(
            learner_class=RmsPropLearner,
            lr=rates,
            gamma=config.gamma,
            double_q=config.double_q,
            dueling=False,
            num_atoms=1,
            n_step=1,
            train_batch_size_per_learner=config.batch,
            td_error_loss_fn=config.loss,
            grad_clip=config.grad_clip,
            grad_clip_by="global_norm",
            num_steps_sampled_before_learning_starts=config.learning_starts,
            target_network_update_freq=config.target_sync,
            replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": config.capacity + warm},
        )
        .reporting(min_sample_timesteps_per_iteration=config.envs, min_time_s_per_iteration=None)
        .debugging(seed=config.episode_seed() % 2**31, log_level="ERROR")
    )
    algorithm = plan.build_algo()
    seed_everything(algorithm, config.seed)
    hand_over(net, algorithm)
    if offline is not None and warm:
        chosen = np.random.default_rng([config.seed, 4]).integers(0, len(offline.before), warm)
        algorithm.local_replay_buffer.add(episodes_of(some(offline, chosen), algorithm))
    return algorithm


def seed_everything(algorithm: Any, seed: int) -> None:
    """Also the buffer, whose generator RLlib makes without a seed."""
    algorithm.local_replay_buffer.rng = np.random.default_rng([seed, 3])
    random.seed(seed)
    np.random.seed(seed)  # RLlib draws from it
    torch.manual_seed(seed)


def hand_over(net: QNet, algorithm: Any) -> None:
    """The weights of `net` into policy and target network of the learner, and to all who sample."""
    weights = {
        f"{part}.{name}": value.numpy() for part in ("q", "_target_q") for name, value in net.state_dict().items()
    }
    algorithm.learner_group.set_state({"learner": {"rl_module": {_MODULE: weights}}})
    algorithm.env_runner_group.sync_weights(from_worker_or_learner_group=algorithm.learner_group, inference_only=True)


def take_back(algorithm: Any, net: QNet) -> None:
    """The learned weights into `net`: what comes out of RLlib is the plain network."""
    state = algorithm.learner_group.get_state()["learner"]["rl_module"][_MODULE]
    net.load_state_dict(
        {name.removeprefix("q."): torch.as_tensor(value) for name, value in state.items() if name.startswith("q.")}
    )


def episodes_of(tuples: Tuples, algorithm: Any) -> list[Any]:
    """Every tuple as an episode of one step that was cut off there, so that what comes next still counts."""
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode  # noqa: PLC0415

    module = algorithm.get_module()
    everything = np.ones(tuples.legal_after.shape[1], np.int8)  # what was legal before is not learned from
    out: list[Any] = []
    states = (np.nan_to_num(part, nan=MISSING) for part in (tuples.before, tuples.after))
    parts = (*states, tuples.action, tuples.reward, tuples.legal_after)
    for before, after, action, reward, legal in zip(*parts, strict=True):
        out.append(
            SingleAgentEpisode(
                observations=[
                    {"observations": before, "action_mask": everything},
                    {"observations": after, "action_mask": legal},
                ],
                observation_space=module.observation_space,
                action_space=module.action_space,
                actions=[action],
                rewards=[float(reward)],
                terminated=False,
                truncated=True,
                len_lookback_buffer=0,
            )
        )
    return out


def learn_on_rllib(
    net: QNet,
    config: OnlineConfig,
    *,
    offline: Tuples | None = None,
    address: str = "local",
    on_progress: Callable[[Progress], None] | None = None,
    every: int = 10_000,
) -> Progress:
    """As `online_loop.learn_online`, by RLlib: `net` learns in place for `config.steps` decisions.

    The time is that of sampling and learning alone. Ray goes on where it was running before. Steps of empty places
    count as others do: set `min_services` = `max_services` for a comparison with the loop. Raises Failure where Ray is
    missing or not reached, InputError for settings that RLlib can't do.
    """
    for name in ("conservative", "anchor"):
        if getattr(config, name):
            raise InputError(f"{name} is above 0, expected 0: RLlib's DQN has no such penalty; use the plain loop")
    fragment_of(config)
    running = _is_running()
    cluster = start_ray(address, config.num_env_runners + 1)
    try:
        algorithm = build(net, config, offline)
        started, steps, last = time.monotonic(), 0, Progress(0, 0, 0, config.epsilon_at(0), 0.0, 0.0, 0.0, 0.0)
        while steps < config.steps:
            result = algorithm.train()
            before, steps = steps, int(result["env_runners"]["num_env_steps_sampled_lifetime"])
            seconds = time.monotonic() - started
            last = _progress(result, steps, config, seconds)
            if on_progress is not None and steps // every > before // every:
                on_progress(last)
        take_back(algorithm, net)
        algorithm.stop()
    finally:
        if not running:
            cluster.shutdown()
    return last


def _is_running() -> bool:
    found: Any = sys.modules.get("ray")  # importing it here would be before its environment variables are set
    return found is not None and bool(found.is_initialized())


def _progress(result: dict[str, Any], steps: int, config: OnlineConfig, seconds: float) -> Progress:
    """RLlib knows neither E_S nor the mean reward of a step."""
    learned = result.get("learners", {}).get(_MODULE, {})
    loss = float(learned.get("qf_loss", float("nan")))
    return Progress(
        steps,
        steps // config.max_services,
        config.updates(steps),
        config.epsilon_at(steps),
        loss,
        float("nan"),
        float("nan"),
        seconds,
    )
