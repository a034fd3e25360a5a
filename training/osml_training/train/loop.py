"""The training loop: Adam, early stopping on runs that were held out, hidden counters. Same seed, same weights."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch's and scikit-learn's own annotations have gaps.
from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from osml.base.failure import Failure
from osml_training.networks import Network
from osml_training.tables.examples import ExampleSource
from osml_training.train.config import Config
from osml_training.train.distributed import Together
from osml_training.train.groups import membership
from osml_training.train.loss import label_weight, loss_of
from osml_training.train.optimiser import Optimiser, subnormals_are_zero
from osml_training.train.table import Floats32, Rows, columns_of

GROUP_HIDDEN = 0.35
"""In a row from which something is hidden, each group of counters is, with this probability."""

Batches = Callable[[int], Iterator[tuple[Tensor, Tensor]]]


class Epoch(NamedTuple):
    """One pass: mean training loss, mean absolute error of each output in validation, rows and seconds.

    `too_far`: how far the answers of its exported graph would be from its own, where that is beyond the limit; else 0.
    """

    number: int
    loss: float
    validation_mae: tuple[float, ...]
    rows: int
    seconds: float
    too_far: float = 0.0


class GraphLimit(NamedTuple):
    """How far a network's exported graph is from it, and how far it may be: networks beyond it are not kept."""

    difference: Callable[[Network], float]
    most: float

    def excess(self, network: Network) -> float:
        """The difference where it is too large, else 0."""
        found = self.difference(network)
        return 0.0 if found <= self.most else found

    def words(self, epochs: Sequence[Epoch]) -> str:
        """What came of it, with what to do; empty where every epoch could be kept."""
        refused = [epoch.too_far for epoch in epochs if epoch.too_far]
        if not refused:
            return ""
        return (
            f"{len(refused)} of {len(epochs)} epochs could not be kept: their exported graphs differ from the "
            f"network by up to {max(refused):.2g}, expected at most {self.most:g}; raise head_weight_decay or "
            "weight_decay, or lower learning_rate or epochs, to keep the weights small"
        )


def deterministic() -> None:
    """One thread and no algorithm that may differ from run to run; on so small networks it is the fastest, too."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)


def from_memory(network: Network, rows: Rows, config: Config) -> Batches:
    """Shuffled batches of rows in memory, scaled once."""
    with torch.no_grad():
        x = torch.cat([network.scale(part) for part in torch.from_numpy(rows.x).split(65_536)])
        y = (torch.from_numpy(rows.y) - network.y_mean) / network.y_std
        y = torch.where(label_weight(torch.from_numpy(rows.y), config) > 0, y, torch.nan)

    def batches(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.from_numpy(np.random.default_rng([config.seed, 2, epoch]).permutation(len(x)))
        for places in order.split(config.batch):
            yield x.index_select(0, places), y.index_select(0, places)

    return batches


def from_disk(network: Network, source: ExampleSource, config: Config) -> Batches:
    """Every row of a data set that is larger than memory, through a shuffle buffer."""
    pick = columns_of(source, config.inputs)

    def batches(epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        for batch in source.batches(config.batch, epoch=epoch):
            y = torch.from_numpy(batch.y)
            scaled = (y - network.y_mean) / network.y_std
            with torch.no_grad():
                x = network.scale(torch.from_numpy(pick(batch)))
            yield x, torch.where(label_weight(y, config) > 0, scaled, torch.nan)

    return batches


def predict(network: Network, x: Floats32) -> tuple[Floats32, Floats32]:
    """Points and spread for raw rows, in the units of the labels."""
    network.eval()
    points: list[Floats32] = []
    spread: list[Floats32] = []
    with torch.no_grad():
        for part in torch.from_numpy(np.ascontiguousarray(x)).split(65_536):
            found = network(part)
            points.append(found[0].numpy())
            spread.append(found[1].numpy())
    return np.concatenate(points), np.concatenate(spread)


def mean_absolute_error(network: Network, rows: Rows, config: Config) -> tuple[float, ...]:
    """Of each output, over the rows that have the label (for the paper's B: a label above 0)."""
    points, _ = predict(network, rows.x)
    weight = label_weight(torch.from_numpy(rows.y), config).numpy() > 0
    error = np.abs(points - rows.y)
    return tuple(float(error[weight[:, k], k].mean()) if weight[:, k].any() else 0.0 for k in range(error.shape[1]))


@subnormals_are_zero()
def fit(
    network: Network,
    batches: Batches,
    validation: Rows,
    config: Config,
    steps_an_epoch: int,
    on_progress: Callable[[Epoch], None] | None = None,
    limit: GraphLimit | None = None,
) -> list[Epoch]:
    """Train in place; the network ends with the weights of its best epoch in validation. Returns all epochs.

    `steps_an_epoch` sets the cosine along which the learning rate falls. Several processes that train together must
    start with the same weights, and end so. Only what is within the `limit` is the best. Raises Failure where the loss
    is not finite, or no epoch is within the limit.
    """
    together = Together()
    steps_an_epoch = together.fewest(steps_an_epoch)
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimiser = Optimiser(network, config, steps_an_epoch * config.epochs)
    torch.manual_seed(config.seed)  # dropout
    generator = torch.Generator().manual_seed(config.seed + 1)
    members = torch.from_numpy(membership(config.inputs))
    loss_function = loss_of(config)
    epochs: list[Epoch] = []
    best, best_score = -1, float("inf")
    kept = {name: value.clone() for name, value in network.state_dict().items()}
    start = [parameter.detach().clone() for parameter in trained]
    scale = network.y_std.numpy()
    for number in range(config.epochs):
        network.train()
        started, summed, steps, rows = time.monotonic(), 0.0, 0, 0
        for x, y in islice(batches(number), steps_an_epoch):
            inputs = hide(x, members, config.drop_counters, generator) if config.drop_counters else x
            weight = (~torch.isnan(y)).float()
            points, spread = network.answer(inputs)
            loss = loss_function(points, spread, torch.nan_to_num(y), weight)
            if config.anchor:
                moved = [(now - then).square().sum() for now, then in zip(trained, start, strict=True)]
                loss = loss + config.anchor * torch.stack(moved).sum()
            optimiser.forget_gradients()
            loss.backward()
            together.average_gradients(network)
            optimiser.step()
            summed += float(loss.detach())
            steps, rows = steps + 1, rows + len(x)
        if not np.isfinite(summed):
            raise Failure(
                f"the loss of epoch {number + 1} is {summed}: lower learning_rate (now {config.learning_rate:g})"
            )
        alone = torch.tensor(mean_absolute_error(network, validation, config), dtype=torch.float64)
        errors = tuple(float(error) for error in together.mean(alone))
        score = float(np.mean(np.array(errors) / scale))
        too_far = 0.0
        if limit is not None and score < best_score:
            # one number for all processes, so that they keep the same epoch and end together
            too_far = float(together.mean(torch.tensor([limit.excess(network)], dtype=torch.float64))[0])
        epochs.append(Epoch(number, summed / max(steps, 1), errors, rows, time.monotonic() - started, too_far))
        if on_progress is not None:
            on_progress(epochs[-1])
        if score < best_score and not too_far:
            best, best_score = number, score
            kept = {name: value.clone() for name, value in network.state_dict().items()}
        elif number - best >= config.patience:
            break
    if limit is not None and best < 0 and (words := limit.words(epochs)):
        raise Failure(words)
    network.load_state_dict(kept)
    network.eval()
    return epochs


def hide(x: Tensor, members: Tensor, probability: float, generator: torch.Generator) -> Tensor:
    """Scaled values and mask (rows, 2 x inputs); in the share `probability` of rows random groups are missing."""
    some = torch.rand((len(x), 1), generator=generator) < probability
    gone = (some & (torch.rand((len(x), len(members)), generator=generator) < GROUP_HIDDEN)).float()  # (rows, groups)
    keep = 1.0 - (gone @ members).clamp(max=1.0)  # (rows, inputs)
    return x * torch.cat([keep, keep], 1)
