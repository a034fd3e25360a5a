"""Transfer of a model, and the curve of its error against the amount of traces."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch's own annotations have gaps.
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from msgspec.structs import replace

from osml.base.failure import InputError
from osml.predictors import ANY_PLATFORM, load_predictor
from osml_training.evaluate.errors import table_rows
from osml_training.evaluate.evaluate import config_of
from osml_training.export.load import load_network
from osml_training.networks import Network, freeze_first
from osml_training.train.config import Config, from_nothing
from osml_training.train.conformal import no_narrower
from osml_training.train.loop import predict
from osml_training.train.splits import for_data, part_of, split_for
from osml_training.train.table import Rows, is_real, runs_of, source_of
from osml_training.train.train import Fitted, Keep, Trained, finish, fit_network, load_part
from osml_training.transfer.trace_shares import share_of_runs

SHARES = (0.02, 0.05, 0.1, 0.25, 1.0)

ANCHOR_RUNS, ANCHOR_RUNS_MANY = 3.0, 40.0
"""The pull towards the parent's weights is the square of this over the new machine's runs: little with hundreds.

The second is for parents of many machines: what they say of a new one is worth more than what a parent of one says.
Both were chosen on other machines than those whose errors are reported (docs/explanation/models.md, Another machine).
"""

RATE = 0.003
"""Learning rate of a transfer whatever the parent's, paper variants' too, Adam's for all layers: steps of Muon are as
long however little there is to learn.
"""

GENTLE_RUNS = 100
"""With fewer runs than this the learning rate is divided by the root of GENTLE_RUNS over them, and all of them
are trained on: a validation with a run of every other service can't tell when to stop."""

Change = Callable[[Config], Config]


def transferable(parent: Path, config: Config, rows: Rows) -> Network:
    """The parent's network with its first hidden layer frozen and room for the labels of the new machine."""
    network = load_network(parent, dropout=config.dropout)
    if network.outputs != rows.y.shape[1] or len(network.scaler.low) != rows.x.shape[1]:
        raise InputError(
            f"model '{parent}' has {len(network.scaler.low)} inputs and {network.outputs} outputs, the traces have "
            f"{rows.x.shape[1]} and {rows.y.shape[1]}"
        )
    freeze_first(network)
    y = torch.from_numpy(rows.y)
    with torch.no_grad():  # a missing label moves no end
        network.y_low.copy_(torch.minimum(network.y_low, y.nan_to_num(torch.inf).amin(0)))
        network.y_high.copy_(torch.maximum(network.y_high, y.nan_to_num(-torch.inf).amax(0)))
    return network


def transfer(
    parent: Path,
    dataset: Path,
    platform: str,
    *,
    share: float = 1.0,
    changes: Change | None = None,
) -> Trained:
    """Retrain a model on a share of the traces of a platform. Raises InputError where there are none of it.

    The first hidden layer stays (OSML section 6.4); the others are held near the parent's the more, the fewer the runs
    (L2-SP, Li et al., ICML 2018). Margins for unknown services are the parent's, and no narrower than those for known
    ones: the traces of one machine say nothing of other services.
    """
    config = _config(parent, dataset, platform, changes)
    fewer, keep = _amount(dataset, config, platform, share)
    fitted, gentle = _transferred(parent, dataset, fewer, platform, keep)
    about = load_predictor(parent).metadata
    trained = finish(fitted, dataset, gentle, platforms=(platform,), keep=keep, parents=about.margins)
    return dataclasses.replace(trained, margins_unseen=no_narrower(about.margins_unseen, trained.margins))


def _transferred(parent: Path, dataset: Path, config: Config, platform: str, keep: Keep) -> tuple[Fitted, Config]:
    """The retrained network, and how it learned."""
    rows = load_part(dataset, config, "train", platforms=(platform,), keep=keep, rows=20_000)
    network = transferable(parent, config, rows)
    runs = len(np.unique(rows.run))
    slower = max(1.0, float(np.sqrt(GENTLE_RUNS / runs)))
    many = load_predictor(parent).metadata.platform == ANY_PLATFORM
    worth = ANCHOR_RUNS_MANY if many else ANCHOR_RUNS
    gentle = replace(
        config,
        learning_rate=RATE / slower,
        hidden_learning_rate=None,
        anchor=(worth / runs) ** 2,
        weight_decay=0.0,
        head_weight_decay=None,  # what pulls to the parent does not pull to 0 as well
        service_folds=0,  # they would train without the parent
    )
    return fit_network(dataset, gentle, platforms=(platform,), network=network, keep=keep), gentle


def _config(parent: Path, dataset: Path, platform: str, changes: Change | None) -> Config:
    """The parent's config with a split for the runs of a platform. Where they are few, a validation is left out."""
    predictor = load_predictor(parent)
    config = from_nothing(config_of(predictor))
    config = config if changes is None else changes(config)
    config = replace(config, split=for_data(config.split, real=is_real(dataset)))
    if platform in predictor.metadata.platforms:
        return config  # another split could test on what the parent learned from
    runs = runs_of(source_of(dataset, config, None, platforms=(platform,)))
    found = split_for(runs, replace(config.split, validation=0.0))
    return replace(config, split=replace(found, validation=config.split.validation))


def _amount(dataset: Path, config: Config, platform: str, share: float) -> tuple[Config, Keep]:
    """Which runs a share of the traces is, and the config for so many: without validation where they are few."""
    if not 0 < share <= 1:
        raise InputError(f"share is {share}, expected more than 0 and at most 1")
    keys = source_of(dataset, config, None, platforms=(platform,)).runs()
    whole = replace(config, split=replace(config.split, validation=0.0))
    learned = sum(part_of(key, whole.split) == "train" for key in keys)
    found = whole if share * learned < GENTLE_RUNS else config
    return found, share_of_runs(keys, share, found.split)


def _errors(network: Network, test: Rows, config: Config) -> dict[str, Any]:
    """Of the last row of the table (the OAA of A and A'), and all rows."""
    rows = table_rows(config.model, "transfer", predict(network, test.x)[0], test, config.inputs)
    return {"core_mae": rows[-1]["core_mae"], "way_mae": rows[-1]["way_mae"], "rows": rows}


def _source(platforms: Sequence[str]) -> str:
    more = len(platforms) - 1
    return platforms[0] if not more else f"{platforms[0]} and {more} other machines"


def curve(
    parent: Path,
    dataset: Path,
    platform: str,
    *,
    shares: Sequence[float] = SHARES,
    changes: Change | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """Errors on held-out runs of the new platform by share of its traces: transferred and from scratch.

    `not_retrained` is the parent as it is. `scratch` is None where the machine lacks a label, such as ways: only a
    model that knows it can go on there.
    """
    predictor = load_predictor(parent)
    config = _config(parent, dataset, platform, changes)
    test = load_part(dataset, config, "test", platforms=(platform,), rows=100_000)
    document: dict[str, Any] = {
        "model": predictor.metadata.name,
        "source": _source(predictor.metadata.platforms),
        "platform": platform,
        "simulated": not is_real(dataset),
        "not_retrained": _errors(load_network(parent), test, config),
        "curve": [],
    }
    all_labels = not np.isnan(test.y).all(axis=0).any()
    for share in shares:
        fewer, keep = _amount(dataset, config, platform, share)
        found, _ = _transferred(parent, dataset, fewer, platform, keep)
        scratch = fit_network(dataset, fewer, platforms=(platform,), keep=keep) if all_labels else None
        document["curve"].append(
            {
                "share": share,
                "runs": len({*found.rows.run.tolist(), *found.validation.run.tolist()}),
                "transferred": _errors(found.network, test, config),
                "scratch": None if scratch is None else _errors(scratch.network, test, config),
            }
        )
        if on_progress is not None:
            on_progress(share)
    return document
