"""What an offline training of Model-C is: one YAML file, every field with its sentence. Unknown fields are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from osml.base.failure import InputError
from osml_training.dqn.rewards import Reward
from osml_training.dqn.state import STATE
from osml_training.limits import check_limits
from osml_training.train.config import CONFIGS, Split


class OfflineConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A training. `osml learn train c --config FILE` overrides the shipped one of the variant."""

    model: Literal["c"]
    """OSML's Model-C."""
    variant: str
    """paper: the paper's inputs, scaling and reward; masked: what may be missing is masked. Others are your own."""
    inputs: tuple[str, ...] = STATE
    """Inputs of the network."""
    masked: bool = True
    """What was measured goes in beside the values; the scaling is by percentiles, of logarithms where decades span."""
    hidden: tuple[int, ...] = (30, 30, 30)
    """Neurons of the hidden layers of both networks (OSML section 4.3: three of 30)."""
    reward: Reward = Reward()
    """What is rewarded."""
    gamma: float = 0.9
    """Worth of the next status (OSML: 0.9)."""
    double: bool = True
    """The policy network chooses the next action, the target network says what it is worth."""
    sweeps: int = 0
    """Steps that the greedy policy is followed over the data before the target network is asked (OSML, DQN: 0)."""
    on_policy: float = 0.0
    """Share of a batch that is drawn from the statuses that the greedy policy comes through."""
    conservative: float = 0.0
    """Weight of CQL(H): log sum exp Q over the legal actions less Q of those that are in the data."""
    known: float = 1.0
    """Share of the tuples that is learned from, the same ones throughout."""
    learning_rate: float = 1e-3
    """RMSProp's at the start (OSML, table 4, names RMSProp); it falls to nothing along half a cosine."""
    batch: int = 2048
    """Statuses an update, each with all its actions."""
    updates: int = 20_000
    """Updates in all."""
    sync: int = 500
    """Updates after which the target network becomes the policy network."""
    attempts: int = 1
    """Networks that learn, with the seeds `seed`, `seed` + 1, ...; kept is who earns most on the validation runs."""
    statuses: int = 3_000_000
    """Statuses in memory, whole runs drawn from all."""
    drop_counters: float = 0.0
    """Share of the statuses in training from which groups of counters are hidden."""
    seed: int = 0
    """Weights, runs, batches, hidden counters."""
    split: Split = Split(calibration=0.01)
    """Who is held out: as for the other models, but there are no margins to calibrate."""

    def checked(self) -> OfflineConfig:
        """This config, or InputError with the field that is wrong."""
        for name in self.inputs:
            if name not in STATE:
                raise InputError(f"inputs has '{name}', expected names of {', '.join(STATE)}")
        if len(set(self.inputs)) != len(self.inputs) or not self.inputs:
            raise InputError(f"inputs are {list(self.inputs)}, expected at least one name, all different")
        limits: dict[str, tuple[float, float, float]] = {
            "gamma": (self.gamma, 0, 0.999), "conservative": (self.conservative, 0, 1e6), "known": (self.known, 0, 1),
            "learning_rate": (self.learning_rate, 1e-8, 1), "batch": (self.batch, 1, 10**7),
            "updates": (self.updates, 1, 10**9), "sweeps": (self.sweeps, 0, 10**6),
            "on_policy": (self.on_policy, 0, 1), "sync": (self.sync, 1, 10**9),
            "statuses": (self.statuses, 1, 10**9), "attempts": (self.attempts, 1, 1000),
            "drop_counters": (self.drop_counters, 0, 0.95),
            "seed": (self.seed, 0, 2**31), "reward.price": (self.reward.price, 0, 1e6),
            "reward.cliff": (self.reward.cliff, 0, 1e6), "reward.move": (self.reward.move, 0, 1e6),
        }  # fmt: skip
        check_limits(limits)
        if self.drop_counters and not self.masked:
            raise InputError("drop_counters needs masked: other networks cannot distinguish a missing value from 0")
        if not self.hidden or not all(1 <= size <= 4096 for size in self.hidden):
            raise InputError(f"hidden is {self.hidden}, expected layers of 1 to 4096 neurons")
        return self


def shipped_offline_config(variant: str) -> Path:
    """The file of a variant that ships with the package; InputError where there is none."""
    file = CONFIGS / f"c-{variant}.yaml"
    if not file.is_file():
        known = sorted(found.stem.removeprefix("c-") for found in CONFIGS.glob("c-*.yaml"))
        raise InputError(f"variant is '{variant}', expected one of {', '.join(known)}, or a --config")
    return file


def read_offline_config(file: Path, changes: dict[str, Any] | None = None) -> OfflineConfig:
    """A config from YAML; `changes` replace fields. InputError names file and field."""
    try:
        raw = msgspec.yaml.decode(file.read_bytes())
        return msgspec.convert(raw | (changes or {}), OfflineConfig).checked()
    except OSError as error:
        raise InputError(f"config {file} can't be read ({error.strerror})") from None
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise InputError(f"config {file}: {error}") from None
