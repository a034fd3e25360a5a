"""Model-C learns on from what was recorded on real nodes: no environment, no exploration of its own."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch's own annotations have gaps.
from __future__ import annotations

import copy
import math
from collections.abc import Callable

import torch

from osml.base.failure import Failure, InputError
from osml_training.dqn.qnet import QNet
from osml_training.dqn.transitions import Tuples
from osml_training.online_dqn.config import OnlineConfig
from osml_training.online_dqn.learner import Learner
from osml_training.online_dqn.replay import Replay, checked_tuples
from osml_training.train.loop import deterministic


def continue_online(
    net: QNet,
    recorded: Tuples,
    config: OnlineConfig,
    *,
    offline: Tuples | None = None,
    passes: float = 20.0,
    on_progress: Callable[[int, float], None] | None = None,
) -> QNet:
    """A new network that has learned from `recorded` tuples, each about `passes` times; `net` stays what it was.

    `offline` tuples are the share `config.offline_share` of every batch. The penalty `config.conservative` is on all
    rows: nobody tried the actions that a running policy does not take. `on_progress(update, loss)` is called every 100
    updates. Raises InputError for tuples that are impossible, Failure where the weights do not stay finite.
    """
    deterministic()
    inputs = len(net.scaler.low)
    checked_tuples(recorded, inputs)
    if offline is not None:
        checked_tuples(offline, inputs)
    rows = len(recorded.before)
    if rows == 0:
        raise InputError("no recorded tuples, expected at least one")
    candidate = copy.deepcopy(net)
    candidate.train()
    learner, replay = Learner(candidate, config, offline), Replay(rows, inputs)
    replay.add(recorded)
    share = config.offline_share if offline is not None and len(offline.before) else 0.0
    fresh = max(1, config.batch - round(config.batch * share))
    updates = math.ceil(rows * passes / fresh)
    every = max(1, config.target_sync // config.batch)
    for number in range(1, updates + 1):
        learner.anneal((number - 1) / updates)
        loss = learner.learn(replay, penalty_everywhere=True)
        if number % every == 0:
            learner.synchronise()
        if on_progress is not None and number % 100 == 0:
            on_progress(number, loss)
    candidate.eval()
    if not all(bool(torch.isfinite(part).all()) for part in candidate.parameters()):
        raise Failure(f"the weights after {updates} updates are not finite: lower learning_rate")
    return candidate
