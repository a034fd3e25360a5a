"""Model-C online, the plain loop: act on many virtual nodes at once, remember, learn. No Ray.

It is what `rllib_*` is held against, and some 20 times as fast. Same seed, same weights.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from osml_training.dqn.qnet import QNet
from osml_training.dqn.state import STATE
from osml_training.dqn.transitions import Tuples
from osml_training.online_dqn.config import OnlineConfig
from osml_training.online_dqn.environment import ServiceSteps, states_of
from osml_training.online_dqn.learner import Learner, greedy
from osml_training.online_dqn.replay import Replay
from osml_training.train.loop import deterministic


class Progress(NamedTuple):
    """Where a learning is: decisions and intervals so far, updates, and means of the last thousand or so decisions."""

    steps: int
    intervals: int
    updates: int
    epsilon: float
    loss: float
    reward: float
    e_s: float
    seconds: float


def learn_online(
    net: QNet,
    config: OnlineConfig,
    *,
    offline: Tuples | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    every: int = 50_000,
) -> Progress:
    """Let `net` learn in place for `config.steps` decisions; `on_progress` is told where it is every so many of them.

    `offline` are the tuples that the net has learned from before: they stay in every batch, so that what it can is not
    lost while the experience pool is small. Raises Failure where the loss is not finite.
    """
    deterministic()
    env = ServiceSteps(config.envs, **config.environment())
    learner, replay = Learner(net, config, offline), Replay(config.capacity, len(STATE))
    rng = np.random.default_rng([config.seed, 2])
    best, started = greedy(net), time.monotonic()
    losses, rewards, entropies = deque[float](maxlen=50), deque[float](maxlen=50), deque[float](maxlen=50)
    steps = intervals = 0
    seen, _ = env.reset(seed=config.episode_seed())
    after = states_of(seen["observations"])
    over = np.zeros(config.envs, np.bool_)

    def progress() -> Progress:
        loss, reward, e_s = (float(np.mean(values)) if values else 0.0 for values in (losses, rewards, entropies))
        now = time.monotonic() - started
        return Progress(steps, intervals, learner.updates, config.epsilon_at(steps), loss, reward, e_s, now)

    while steps < config.steps:
        states, legal, there = after, seen["action_mask"], env.present
        actions = best(states, legal)
        dice = np.nonzero(rng.random(config.envs) < config.epsilon_at(steps))[0]
        if len(dice):
            actions[dice] = np.where(legal[dice] > 0, rng.random((len(dice), legal.shape[1])), -1.0).argmax(axis=1)
        seen, paid, _, truncated, _ = env.step(actions)
        after = states_of(seen["observations"])
        # Where an episode was over a new one began; where a service came or went the next state is not its own.
        mine = np.nonzero(there & env.present & ~over)[0]
        replay.add(
            Tuples(
                states[mine],
                actions[mine],
                paid[mine].astype(np.float32),
                after[mine],
                seen["action_mask"][mine],
            )
        )
        before = steps
        steps, intervals = steps + len(mine), intervals + int((~over[:: env.services]).sum())
        if len(mine):
            rewards.append(float(paid[mine].mean()))
            entropies.append(float(env.e_s.mean()))
        over = truncated
        learner.anneal(steps / config.steps)
        while learner.updates < config.updates(steps):
            losses.append(learner.learn(replay))
        if steps // config.target_sync > before // config.target_sync:
            learner.synchronise()
        if on_progress is not None and steps // every > before // every:
            on_progress(progress())
    return progress()
