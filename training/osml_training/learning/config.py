"""What learning from a store is: every field with its sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from osml.base.failure import InputError
from osml.predictors import ModelMetadata
from osml_training.dqn.rewards import Reward
from osml_training.limits import check_limits
from osml_training.online_dqn.config import OnlineConfig


class LearningConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One run of `osml learn train c --online`."""

    limit: int = 50_000
    """Newest experiences of the platform that are read."""
    held_out: float = 0.25
    """Share of the tuples, the newest, that nothing is learned from; minutes that begin before them are left out."""
    least: int = 500
    """Tuples that there must be in all."""
    least_blocks: int = 60
    """Minutes of nodes that must be held out. Services of one node share what happens, so they are no more than one."""
    passes: float = 3.0
    """How often each tuple is learned from."""
    learning_rates: tuple[float, ...] = (1e-5, 3e-5, 1e-4)
    """RMSProp's, one for each candidate: who learns faster forgets more of what it knew. The best one is judged."""
    blends: tuple[float, ...] = (0.25, 0.5, 1.0)
    """How far each of them goes from the champion's weights to those that it learned: more candidates."""
    conservative: float = 0.0
    """Weight of the penalty on actions that nobody tried (CQL(H)). Nodes mostly change nothing, and that is what it
    teaches."""
    offline_share: float = 0.5
    """Share of each batch that are offline tuples, where those are given."""
    episodes: int = 128
    """Episodes on the virtual node, the same for candidate and champion; as many others to choose a candidate."""
    horizon: int = 60
    """Intervals of an episode."""
    least_gain: float = 0.02
    """Share of the champion's squared error on held-out experiences that the candidate must do without: with many
    experiences even a change that means nothing is beyond noise."""
    margin: float = 0.005
    """E_S that the candidate may lose on the virtual node, at the upper end of the confidence interval."""
    seed: int = 0
    """Batches and episodes."""

    def checked(self) -> LearningConfig:
        """This config, or InputError with the field that is wrong."""
        limits: dict[str, tuple[float, float, float]] = {
            "limit": (self.limit, 1, 10**8), "held_out": (self.held_out, 0.01, 0.9), "least": (self.least, 10, 10**8),
            "least_blocks": (self.least_blocks, 2, 10**6), "passes": (self.passes, 0.01, 10_000),
            "conservative": (self.conservative, 0, 1e6),
            "offline_share": (self.offline_share, 0, 0.95), "episodes": (self.episodes, 8, 100_000),
            "horizon": (self.horizon, 5, 10_000), "least_gain": (self.least_gain, 0, 1),
            "margin": (self.margin, 0, 1), "seed": (self.seed, 0, 2**31),
        }  # fmt: skip
        check_limits(limits)
        if not self.learning_rates or not all(1e-8 <= rate <= 1 for rate in self.learning_rates):
            raise InputError(f"learning_rates is {list(self.learning_rates)}, expected numbers from 1e-8 to 1")
        if not self.blends or not all(0 < share <= 1 for share in self.blends):
            raise InputError(f"blends is {list(self.blends)}, expected shares above 0, up to 1")
        return self

    def online(self, champion: ModelMetadata, learning_rate: float) -> OnlineConfig:
        """How a candidate learns: with the reward and the discount that the champion was trained for."""
        return OnlineConfig(
            platform=champion.platforms[0],
            reward=reward_of(champion),
            gamma=gamma_of(champion),
            learning_rate=learning_rate,
            conservative=self.conservative,
            offline_share=self.offline_share,
            batch=256,
            target_sync=256 * 100,
            seed=self.seed,
        ).checked()


def reward_of(champion: ModelMetadata) -> Reward:
    """The reward of a Model-C. InputError where its metadata have another one than this version knows."""
    try:
        return msgspec.convert(champion.training.get("reward", {}), Reward)
    except msgspec.ValidationError as error:
        raise InputError(f"model '{champion.name}': training.reward: {error}") from None


def gamma_of(champion: ModelMetadata) -> float:
    """What the next state is worth to a Model-C."""
    found = champion.training.get("gamma")
    return float(found) if isinstance(found, int | float) else 0.9


def read_learning_config(file: Path | None, changes: dict[str, Any] | None = None) -> LearningConfig:
    """The defaults, with the fields of a YAML file and then `changes` in their place. InputError names the field."""
    try:
        raw: Any = {} if file is None else msgspec.yaml.decode(file.read_bytes())
        return msgspec.convert((raw or {}) | (changes or {}), LearningConfig).checked()
    except OSError as error:
        raise InputError(f"config {file} can't be read ({error.strerror})") from None
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise InputError(f"config {file}: {error}") from None
