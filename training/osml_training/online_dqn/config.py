"""What online learning is: every field with its sentence. Unknown fields are refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from osml.base.failure import InputError
from osml.simulator import catalogs
from osml_training.dqn.rewards import Reward
from osml_training.limits import check_limits
from osml_training.online_dqn.bound import Bound
from osml_training.online_dqn.credit import Credit

DEFAULT = Path(__file__).parent.parent / "configs" / "online-c.yaml"
"""The shipped one."""


class OnlineConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Model-C online. A step is one decision for one service; a node with four services makes four in an interval."""

    platform: str = "e5-2697v4"
    """Platform of the catalog whose virtual node is the environment."""
    reward: Reward = Reward()
    """Which reward, and what things cost."""
    credit: Credit = "own"
    """Reward entropy: the fall of E_S of the service alone, as in traces of one service, or that of the node's."""
    gamma: float = 0.9
    """Weight of the next state (OSML: 0.9)."""
    double_q: bool = True
    """The policy network chooses the next action, the target network says what it is worth."""
    bounded: bool = True
    """No estimate of what comes next is above what is left to gain there (reward entropy with the credit own)."""
    loss: Literal["mse", "huber"] = "mse"
    """Of Q(action) and its target (OSML section 4.3: the square)."""
    learning_rate: float = 2e-3
    """RMSProp's (OSML, table 4) at the start."""
    learning_rate_end: float = 0.0
    """RMSProp's at the end; a line leads there. The one of the start all the time: the policy never comes to rest."""
    batch: int = 1024
    """Transitions an update (OSML: 200)."""
    replay_ratio: float = 4.0
    """Transitions that are learned from for each one that is made."""
    target_sync: int = 20_000
    """The target network becomes the policy network after so many steps."""
    grad_clip: float = 40.0
    """The gradient is not longer than this."""
    epsilon: tuple[tuple[int, float], ...] = ((0, 0.05),)
    """Share of random actions: (step, share) points with lines between them (OSML: 0.05 all the time)."""
    capacity: int = 500_000
    """Transitions in the buffer; the oldest go."""
    offline_share: float = 0.25
    """Share of every batch that is offline transitions, where there are any: what was learned offline stays."""
    conservative: float = 0.0
    """Weight of the penalty CQL(H), log sum exp Q - Q(action), on the offline part of a batch."""
    anchor: float = 0.0
    """Weight of staying, on the offline tuples, at the values that the network began with, of all actions; 0: these
    tuples are learned from like others. 10 keeps what was learned offline (docs/reference/model-c-online.md)."""
    learning_starts: int = 5000
    """Steps before the first update."""
    steps: int = 1_000_000
    """Steps in all."""
    envs: int = 1024
    """Services at once: a multiple of max_services."""
    min_services: int = 1
    """An episode has at least so many services."""
    max_services: int = 4
    """An episode has at most so many."""
    horizon: int = 60
    """Intervals of an episode."""
    interval_s: float = 5.0
    """Seconds between two actions in learning: after longer ones queues have drained and tails are less noisy."""
    seed: int = 0
    """Episodes, exploration, batches."""
    num_env_runners: int = 0
    """RLlib: processes that sample beside the learner, on a cluster where there is one; 0: in the same process."""

    def checked(self) -> OnlineConfig:
        """This config, or InputError with the field that is wrong."""
        limits: dict[str, tuple[float, float, float]] = {
            "reward.price": (self.reward.price, 0, 1e6), "reward.cliff": (self.reward.cliff, 0, 1e6),
            "reward.move": (self.reward.move, 0, 1e6),
            "gamma": (self.gamma, 0, 1), "learning_rate": (self.learning_rate, 1e-8, 1),
            "learning_rate_end": (self.learning_rate_end, 0, 1),
            "batch": (self.batch, 1, 10**7), "replay_ratio": (self.replay_ratio, 0, 1000),
            "target_sync": (self.target_sync, 1, 10**12), "grad_clip": (self.grad_clip, 1e-6, 1e12),
            "capacity": (self.capacity, 1, 10**9), "offline_share": (self.offline_share, 0, 1),
            "conservative": (self.conservative, 0, 1e6), "anchor": (self.anchor, 0, 1e6),
            "learning_starts": (self.learning_starts, 1, 10**12),
            "steps": (self.steps, 0, 10**12), "envs": (self.envs, 1, 10**6), "seed": (self.seed, 0, 2**31),
            "num_env_runners": (self.num_env_runners, 0, 10_000),
            "horizon": (self.horizon, 1, 10**6), "interval_s": (self.interval_s, 1e-3, 3600),
            "max_services": (self.max_services, 1, 15),
            "min_services": (self.min_services, 1, self.max_services),
        }  # fmt: skip
        check_limits(limits)
        if self.envs % self.max_services:
            raise InputError(f"envs is {self.envs}, expected a multiple of max_services ({self.max_services})")
        steps = [step for step, _ in self.epsilon]
        if not steps or steps[0] != 0 or steps != sorted(set(steps)) or not all(0 <= e <= 1 for _, e in self.epsilon):
            raise InputError(
                f"epsilon is {self.epsilon}, expected (step, share) points from step 0 on, shares from 0 to 1"
            )
        return self

    def epsilon_at(self, step: int) -> float:
        """Share of random actions at a step."""
        return _between(self.epsilon, step)

    def rates(self) -> tuple[tuple[float, float], ...]:
        """(share of the learning that is over, learning rate) points, with lines between them."""
        return (0.0, self.learning_rate), (1.0, self.learning_rate_end)

    def rate_at(self, done: float) -> float:
        """The learning rate when this share of the learning is over."""
        return _between(self.rates(), done)

    def environment(self) -> dict[str, Any]:
        """Settings of `osml/ServiceSteps-v0`."""
        return {
            "platform": self.platform,
            "reward": self.reward.kind,
            "price": self.reward.price,
            "credit": self.credit,
            "cliff": self.reward.cliff,
            "move": self.reward.move,
            "min_services": self.min_services,
            "max_services": self.max_services,
            "horizon": self.horizon,
            "interval_s": self.interval_s,
        }

    def bound(self) -> Bound | None:
        """What holds estimates down; None where nothing does."""
        if not self.bounded or self.reward.kind != "entropy" or self.credit != "own":
            return None
        platform = catalogs.platform(self.platform)
        return Bound(self.reward.price, platform.cpus, platform.ways)

    def episode_seed(self) -> int:
        """Seed of the environment: node i has this one + i, so seeds of runs must lie far apart."""
        return int(np.random.SeedSequence([self.seed, 1]).generate_state(1)[0] >> 1)

    def updates(self, steps: float) -> int:
        """Updates that are due after so many steps."""
        return math.floor(max(0.0, steps - self.learning_starts) * self.replay_ratio / self.batch)


def _between(points: Sequence[tuple[float, float]], at: float) -> float:
    for (first, high), (last, low) in pairwise(points):
        if at < last:
            return high + (low - high) * (at - first) / (last - first)
    return points[-1][1]


def read_online_config(file: Path = DEFAULT, changes: dict[str, Any] | None = None) -> OnlineConfig:
    """A config from YAML; `changes` replace fields. InputError names file and field."""
    try:
        raw = msgspec.yaml.decode(file.read_bytes())
        return msgspec.convert(raw | (changes or {}), OnlineConfig).checked()
    except OSError as error:
        raise InputError(f"config {file} can't be read ({error.strerror})") from None
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise InputError(f"config {file}: {error}") from None
