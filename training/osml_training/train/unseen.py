"""How wrong the answers are for services that nobody trained on: some of the services held out in turn."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from osml.predictors import Margin
from osml_training.data.variants import is_variant, parent_of
from osml_training.train import loop
from osml_training.train.config import Config
from osml_training.train.conformal import margins_of
from osml_training.train.network import new_network
from osml_training.train.scaling import scaling_of
from osml_training.train.table import Floats32, Rows

_ROWS = 150_000  # a fold is a quarter of a training; with much less its spread, too wide, would make factors too small


class _Answered(NamedTuple):
    """What a fold's network said of the services that it did not know."""

    points: Floats32
    spread: Floats32
    y: Floats32
    run: NDArray[np.int64]


def unseen_margins(train: Rows, validation: Rows, config: Config) -> tuple[dict[str, Margin], list[float]]:
    """Margins for services that are not in training, and the mean absolute errors for them, one an output.

    The services of the training set go into `config.service_folds` groups; each group is answered by a network that was
    trained on the others and their variants. A run of a group is as strange to its network as a run of a new service to
    the final one. Variants are not answered: margins are of real programs.
    """
    held: list[_Answered] = []
    fewer = msgspec.structs.replace(config, epochs=max(1, config.epochs // 2))
    rng = np.random.default_rng([config.seed, 3])
    parents = sorted({parent_of(service) for service in train.services})
    groups = dict(zip(parents, (rng.permutation(len(parents)) % config.service_folds).tolist(), strict=True))
    group = np.array([groups[parent_of(service)] for service in train.services])
    real = np.array([not is_variant(service) for service in train.services])
    chosen = np.sort(rng.permutation(len(train.y))[: 2 * _ROWS])
    rows = train.taken(chosen)
    for fold in range(config.service_folds):
        others = np.nonzero(group[rows.service] != fold)[0][:_ROWS]
        mine = np.nonzero((group[rows.service] == fold) & real[rows.service])[0]
        watched = validation.taken(group[validation.service] != fold)
        if not (len(others) and len(mine) and len(watched.y)):
            continue
        part = rows.taken(others)
        network = new_network(fewer, scaling_of(part.x, fewer), part)
        loop.fit(network, loop.from_memory(network, part, fewer), watched, fewer, -(-len(part.y) // fewer.batch))
        held.append(_Answered(*loop.predict(network, rows.x[mine]), rows.y[mine], rows.run[mine]))
    if not held:
        return {}, []
    points = np.concatenate([part.points for part in held])
    spread = np.concatenate([part.spread for part in held])
    y = np.concatenate([part.y for part in held])
    run = np.concatenate([part.run for part in held])
    errors = np.nanmean(np.abs(points - y), axis=0)
    return margins_of(points, spread, y, run), [round(float(error), 4) for error in errors]
