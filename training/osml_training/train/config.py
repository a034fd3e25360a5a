"""What a training is: one YAML file a model, every field with its sentence. Unknown fields are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from osml.base.failure import InputError
from osml_training.limits import check_limits
from osml_training.tables.features import CONTEXT, INPUTS

UNSEEN_SERVICES = ("silo", "shore", "mysql", "redis", "nodejs")
"""OSML section 6.4: never in training."""

Variant = Literal["paper", "masked"]


class Split(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who is held out. Runs are split by bands of service and load, never by rows of one run."""

    unseen: tuple[str, ...] = UNSEEN_SERVICES
    """Services that are not in training, validation or calibration. Those of OSML are services of the virtual node: in
    traces of real machines a service of such a name is trained on. Another list holds for both."""
    band: float = 0.02
    """Runs of a service whose loads lie in the same band of this width stay together, whatever their threads."""
    rate_band: float | None = None
    """The same where only requests/s are known, with as many neighbours: 0.25 makes rates of a quarter one band. Bands
    are a fixed grid, so two records of one load near an edge may be apart. A new training sets it to 0.25; none, in
    models of older versions: `band`."""
    test: float = 0.3
    """Share of the bands in the test (OSML section 4.4: 30 %)."""
    validation: float = 0.05
    """Share of the bands that early stopping looks at."""
    calibration: float = 0.15
    """Share of the bands that the margins are made of."""
    seed: int = 0
    """Another seed, another split."""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A training. `osml learn train MODEL --config FILE` overrides the shipped one of the variant."""

    model: Literal["a", "a2", "b", "b2"]
    """OSML's A, A' (a2), B, B' (b2)."""
    variant: Variant
    """paper: the paper's inputs and loss; masked: what may be missing is masked, more inputs, spread beside points."""
    context: tuple[str, ...] = ()
    """Inputs beside the paper's, of what a production node knows."""
    leave_out: tuple[str, ...] = ()
    """Inputs of the paper's that are not used."""
    hidden: tuple[int, ...] = (40, 40, 40)
    """Neurons of the hidden layers (OSML section 4.1: three of 40)."""
    dropout: float = 0.0
    """Share of hidden neurons dropped in training (OSML section 4.1: 0.3 behind each layer)."""
    learning_rate: float = 1e-3
    """Adam's at the start; it falls to nothing along half a cosine."""
    hidden_learning_rate: float | None = None
    """Muon's, of the weights of the hidden layers (none: Adam learns them, too); it falls along with the other."""
    weight_decay: float = 0.0
    """AdamW's, and Muon's; 0 is plain Adam."""
    head_weight_decay: float | None = None
    """AdamW's of the last layer (none: `weight_decay`). What it adds up must not cancel out: float32 has 7 digits."""
    anchor: float = 0.0
    """Weight of the squared distance to the weights at the start (L2-SP): transfer with few traces stays near."""
    batch: int = 4096
    """Rows a step."""
    epochs: int = 10
    """At most so many passes (OSML: ten)."""
    patience: int = 1000
    """Stop after so many passes without a better validation; the best is kept."""
    rows: int = 1_000_000
    """Rows in memory, drawn from all; more than that in the data set are streamed where `stream`."""
    stream: bool = False
    """Read every row in every pass, from disk: for data larger than memory."""
    drop_counters: float = 0.0
    """Share of the rows in training from which groups of counters (PMU, LLC, memory, latency, ...) are hidden."""
    service_folds: int = 0
    """Groups of services that are held out in turn to make margins for unseen ones; 0: no such margins.

    So many groups of machines are held out with them where the training has as many machines or more.
    """
    seed: int = 0
    """Weights, batches, hidden counters."""
    split: Split = Split()
    """Who is held out."""

    def checked(self) -> Config:
        """This config, or InputError with the field that is wrong."""
        unknown = [name for name in (*self.context, *self.leave_out) if name not in {*CONTEXT, *INPUTS[self.model]}]
        if unknown:
            raise InputError(f"context or leave_out has '{unknown[0]}', expected names of {', '.join(CONTEXT)}")
        limits: dict[str, tuple[float, float, float]] = {
            "dropout": (self.dropout, 0, 0.95), "learning_rate": (self.learning_rate, 1e-8, 1),
            "weight_decay": (self.weight_decay, 0, 10),
            "hidden_learning_rate": (
                1 if self.hidden_learning_rate is None else self.hidden_learning_rate, 1e-8, 10
            ),
            "head_weight_decay": (self.head_weight_decay or 0, 0, 10), "anchor": (self.anchor, 0, 1e6),
            "batch": (self.batch, 1, 10**7),
            "epochs": (self.epochs, 1, 10**5), "patience": (self.patience, 1, 10**5), "rows": (self.rows, 1, 10**9),
            "drop_counters": (self.drop_counters, 0, 0.95),
            "service_folds": (self.service_folds, 0, 100), "seed": (self.seed, 0, 2**31),
            "split.band": (self.split.band, 1e-3, 2),
            "split.rate_band": (self.split.band if self.split.rate_band is None else self.split.rate_band, 1e-3, 2),
            "split.test": (self.split.test, 0.01, 0.9),
            "split.validation": (self.split.validation, 0.01, 0.9),
            "split.calibration": (self.split.calibration, 0.01, 0.9),
        }  # fmt: skip
        check_limits(limits)
        held = self.split.test + self.split.validation + self.split.calibration
        if held > 0.9:
            raise InputError(f"split holds out {held:g} of the runs, expected at most 0.9")
        if not self.hidden or not all(1 <= size <= 4096 for size in self.hidden):
            raise InputError(f"hidden is {self.hidden}, expected layers of 1 to 4096 neurons")
        if self.variant == "paper" and self.drop_counters:
            raise InputError(
                "drop_counters needs variant masked: the paper's networks cannot distinguish a missing value from 0"
            )
        return self

    @property
    def inputs(self) -> tuple[str, ...]:
        """Inputs of the network in order."""
        own = tuple(name for name in INPUTS[self.model] if name not in self.leave_out)
        return own + tuple(name for name in self.context if name not in own)


CONFIGS = Path(__file__).parent.parent / "configs"
"""The shipped ones."""


def shipped_config(model: str, variant: str) -> Config:
    """The config of a model that ships with the package."""
    return read_config(CONFIGS / f"{model}-{variant}.yaml")


def from_nothing(config: Config) -> Config:
    """How a model learns that has no parent: of a transferred one's config, with rates and pull as the shipped one."""
    if not config.anchor:
        return config
    shipped = shipped_config(config.model, config.variant)
    names = ("learning_rate", "hidden_learning_rate", "weight_decay", "head_weight_decay", "anchor")
    split = msgspec.structs.replace(config.split, validation=shipped.split.validation)
    return msgspec.structs.replace(config, **{name: getattr(shipped, name) for name in names}, split=split)


def read_config(file: Path, changes: dict[str, Any] | None = None) -> Config:
    """A config from YAML; `changes` replace fields. InputError names file and field."""
    try:
        raw = msgspec.yaml.decode(file.read_bytes())
        return msgspec.convert(raw | (changes or {}), Config).checked()
    except OSError as error:
        raise InputError(f"config {file} can't be read ({error.strerror})") from None
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise InputError(f"config {file}: {error}") from None
