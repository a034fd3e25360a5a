"""From a data set and a config to a trained network with its margins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from osml.base.failure import InputError
from osml.predictors import Margin
from osml_training.collect.variants import is_variant
from osml_training.networks import Network
from osml_training.tables.features import OUTPUTS, PLATFORM
from osml_training.tables.runs import RunKey
from osml_training.train import loop
from osml_training.train.config import Config
from osml_training.train.conformal import margins_of, too_few_runs, with_parents
from osml_training.train.distributed import Together
from osml_training.train.network import new_network
from osml_training.train.scaling import scaling_of
from osml_training.train.splits import Part, chooses
from osml_training.train.table import Rows, check_rows, load, source_of
from osml_training.train.unseen import unseen_margins

Keep = Callable[[RunKey], bool]
Ends = np.ndarray[tuple[int], np.dtype[np.float64]]
Limit = Callable[[Ends, Ends], loop.GraphLimit]
"""Of a network's graph, by the ranges of its inputs (`ranges_of`)."""


@dataclass
class Fitted:
    """A network that has learned, with the rows of its training and validation."""

    network: Network
    epochs: list[loop.Epoch]
    rows: Rows
    validation: Rows
    warnings: list[str]


@dataclass
class Trained:
    """A network, how it got there, and the ranges of its inputs in training (`low`, `high`: `ranges_of`).

    `services` are real ones or those of the catalogs, `variants` so many were made of them. `service_fold_errors` are
    mean absolute errors for services that were held out in turn, one an output.
    """

    config: Config
    network: Network
    epochs: list[loop.Epoch]
    margins: dict[str, Margin]
    margins_unseen: dict[str, Margin]
    service_fold_errors: list[float]
    low: Ends
    high: Ends
    platforms: tuple[str, ...]
    services: tuple[str, ...]
    warnings: list[str]
    variants: int = 0


def load_part(
    dataset: Path,
    config: Config,
    part: Part,
    *,
    rows: int | None = None,
    platforms: tuple[str, ...] | None = None,
    keep: Keep | None = None,
) -> Rows:
    """The rows of one part of a data set, of the runs that `keep` says (None: all)."""
    chosen = chooses(part, config.split)

    def both(key: RunKey) -> bool:
        return chosen(key) and (keep is None or keep(key))

    return load(source_of(dataset, config, both, platforms=platforms), config, rows)


def fit_network(
    dataset: Path,
    config: Config,
    *,
    platforms: tuple[str, ...] | None = None,
    network: Network | None = None,
    keep: Keep | None = None,
    on_progress: Callable[[loop.Epoch], None] | None = None,
    graph: Limit | None = None,
) -> Fitted:
    """Train on the runs of the part `train`, stop by `validation`; where the split has none, by the training itself.

    With a `network` that one is trained further (transfer), with its own scaling. `keep` limits the runs that are
    looked at at all, `graph` what is kept. Raises InputError where a part has no rows, and what `loop.fit` does.
    """
    loop.deterministic()
    rows = load_part(dataset, config, "train", platforms=platforms, keep=keep)
    warnings = check_rows(rows, config, transferred=network is not None)
    validation = rows
    if config.split.validation:
        validation = load_part(dataset, config, "validation", rows=held_rows(config), platforms=platforms, keep=keep)
    found = network or new_network(config, scaling_of(rows.x, config), rows)
    Together().same(found)
    steps = -(-len(rows.x) // config.batch)
    if config.stream:
        chosen = chooses("train", config.split)
        source = source_of(
            dataset, config, lambda key: chosen(key) and (keep is None or keep(key)), platforms=platforms
        )
        batches = loop.from_disk(found, source, config)
        steps = -(-rows.of // config.batch)
    else:
        batches = loop.from_memory(found, rows, config)
    limit = None if graph is None else graph(*ranges_of(rows, config))
    epochs = loop.fit(found, batches, validation, config, steps, on_progress, limit)
    if limit is not None and (words := limit.words(epochs)):
        warnings = [*warnings, words]
    return Fitted(found, epochs, rows, validation, warnings)


def finish(
    fitted: Fitted,
    dataset: Path,
    config: Config,
    *,
    platforms: tuple[str, ...] | None = None,
    keep: Keep | None = None,
    workers: int = 1,
    parents: dict[str, Margin] | None = None,
) -> Trained:
    """Margins of the part `calibration`, and of service folds where the config wants them, by so many processes.

    Outputs that no run of the part has get the margins of the parents; InputError where there are none.
    """
    calibration = load_part(dataset, config, "calibration", rows=held_rows(config), platforms=platforms, keep=keep)
    points, spread = loop.predict(fitted.network, calibration.x)
    margins = margins_of(points, spread, calibration.y, calibration.run)
    if parents is not None:
        margins = with_parents(margins, parents)
    for name, factor in zip(OUTPUTS[config.model], next(iter(margins.values())).two_sided, strict=True):
        if np.isnan(factor):
            raise InputError(f"no run for the margins has the label '{name}'; measure more loads")
    rows = fitted.rows
    strange, errors, few = {}, [], []
    if config.service_folds > 1:
        strange, errors, few = unseen_margins(rows, fitted.validation, config, workers=workers)
    low, high = ranges_of(rows, config)
    trained_on = [rows.services[int(k)] for k in np.unique(rows.service)]
    return Trained(
        config=config,
        network=fitted.network,
        epochs=fitted.epochs,
        margins=margins,
        margins_unseen=strange,
        service_fold_errors=errors,
        low=low,
        high=high,
        platforms=rows.platforms,
        services=tuple(name for name in trained_on if not is_variant(name)),
        warnings=[*fitted.warnings, *too_few_runs(calibration.y, calibration.run), *few],
        variants=sum(is_variant(name) for name in trained_on),
    )


def train(
    dataset: Path,
    config: Config,
    *,
    platforms: tuple[str, ...] | None = None,
    network: Network | None = None,
    keep: Keep | None = None,
    on_progress: Callable[[loop.Epoch], None] | None = None,
    graph: Limit | None = None,
    workers: int = 1,
) -> Trained:
    """`fit_network`, then `finish` by so many processes."""
    fitted = fit_network(
        dataset, config, platforms=platforms, network=network, keep=keep, on_progress=on_progress, graph=graph
    )
    return finish(fitted, dataset, config, platforms=platforms, keep=keep, workers=workers)


def held_rows(config: Config) -> int:
    """Rows of a held-out part: fewer than in training, but all runs."""
    return max(20_000, config.rows // 4)


def ranges_of(rows: Rows, config: Config) -> tuple[Ends, Ends]:
    """The 1st and the 99th percentile of each input, of what describes the machine the ends: no machine is an outlier.

    0 where it was never measured.
    """
    low, high = np.zeros(rows.x.shape[1]), np.zeros(rows.x.shape[1])
    for k, name in enumerate(config.inputs):
        known = rows.x[:, k][np.isfinite(rows.x[:, k])]
        if len(known):
            low[k], high[k] = np.percentile(known, (0, 100) if name in PLATFORM else (1, 99))
    return low, high
