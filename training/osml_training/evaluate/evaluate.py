"""An evaluation: a model in its folder on the runs of a data set that it was not trained on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from osml.base.failure import InputError
from osml.datasets.store import keys_of, trace_files
from osml.predictors import ANY_PLATFORM, Margin, ModelMetadata, Prediction, Predictor
from osml_training.evaluate.errors import absolute, by_service, table_rows
from osml_training.evaluate.surfaces import read_grids
from osml_training.tables.features import OUTPUTS, Model
from osml_training.tables.runs import NoExamplesError
from osml_training.train.config import Config
from osml_training.train.conformal import covered
from osml_training.train.groups import HIDDEN_IN_CLOUDS, hidden
from osml_training.train.splits import Part
from osml_training.train.table import Rows, is_real, load, source_of
from osml_training.train.train import load_part

EVALUATED_ROWS = 200_000


def config_of(predictor: Predictor) -> Config:
    """How a model was trained, from its metadata: the split above all."""
    try:
        return msgspec.convert(predictor.metadata.training, Config)
    except msgspec.ValidationError as error:
        raise InputError(f"model '{predictor.metadata.name}': training in metadata.json: {error}") from None


def _held_out(
    dataset: Path, config: Config, part: Part | None, platforms: tuple[str, ...] | None, rows: int
) -> Rows | None:
    """The rows of a part, or of all; None where there are none."""
    try:
        if part is None:
            return all_rows(dataset, config, platforms, rows)
        return load_part(dataset, config, part, rows=rows, platforms=platforms)
    except NoExamplesError:
        return None  # a data set without unseen services is one, too


def evaluate(
    predictor: Predictor,
    dataset: Path,
    *,
    platforms: tuple[str, ...] | None = None,
    rows: int = EVALUATED_ROWS,
    transferred: bool = False,
) -> dict[str, Any]:
    """The document of `osml learn train evaluate` without its baselines: rows of table 5, coverage, hidden counters.

    Seen and unseen as the model's own split says; of a data set that it cannot have learned from, all runs. On a
    machine that is new to a model of many its margins are those for unseen services, as the policy takes them.
    `strangers`, where the data set has variants of unseen services: errors for them and how much the margins for
    unseen services hold. `transferred` puts the seen ones beside the paper's new platforms.
    Raises InputError where the data set has no run that the model was not trained on.
    """
    config = config_of(predictor)
    model = config.model
    grids = read_grids(dataset, platforms)
    document: dict[str, Any] = {
        "model": predictor.metadata.name,
        "version": predictor.metadata.version,
        "kind": model,
        "variant": config.variant,
        "simulated": not is_real(dataset),
        "rows": [],
        "coverage": {},
        "coverage_unseen": {},
        "hidden_counters": [],
        "by_service": {},
    }
    parts: tuple[tuple[Part | None, str], ...] = (("test", "transfer" if transferred else "seen"), ("unseen", "unseen"))
    foreign = _foreign(predictor.metadata, dataset, platforms)
    for part, split in ((None, "transfer"),) if foreign else parts:
        found = _held_out(dataset, config, part, platforms, rows)
        if found is None:
            continue
        answers = predictor.predict(found.x)
        seen = part != "unseen" and not _strange(predictor, found)
        upper = answers.upper(0.95, seen=seen) if "0.95" in _margins(predictor.metadata, seen=seen) else None
        document["rows"] += table_rows(model, split, answers.points, found, config.inputs, grids, upper)
        document["by_service"] |= by_service(answers.points, found, model)
        key = "coverage" if part != "unseen" else "coverage_unseen"
        held = _held(answers, found, seen=seen)
        document[key] = {coverage: float(np.nanmean(shares)) for coverage, shares in held.items()}
        document[key + "_by_output"] = {
            coverage: dict(zip(OUTPUTS[model], shares, strict=True)) for coverage, shares in held.items()
        }
        if config.variant == "masked":
            blind = predictor.predict(hidden(found.x, config.inputs, HIDDEN_IN_CLOUDS))
            document["hidden_counters"] += table_rows(model, split, blind.points, found, config.inputs)
    strangers = None if foreign else _held_out(dataset, config, "strangers", platforms, rows)
    if strangers is not None:
        document["strangers"] = _of_strangers(predictor, strangers, model)
    if not document["rows"] and strangers is None:
        raise InputError(f"data set '{dataset}' has no held-out run for model '{predictor.metadata.name}'")
    return document


def _foreign(about: ModelMetadata, dataset: Path, platforms: tuple[str, ...] | None) -> bool:
    """Whether a model cannot have learned from any run of a data set: it is of another machine, or of another kind."""
    if is_real(dataset) == about.simulated:
        return True
    there = platforms or {keys_of(file)["platform"] for file in trace_files(dataset)}
    return set(there).isdisjoint(about.platforms)


def _held(answers: Prediction, rows: Rows, *, seen: bool) -> dict[str, list[float]]:
    """Share of the truth of each output within the margins, each run weighing the same, by coverage."""
    return {
        coverage: covered(answers.margin(float(coverage), seen=seen), answers.points, rows.y, rows.run)
        for coverage in _margins(answers.metadata, seen=seen)
    }


def _margins(about: ModelMetadata, *, seen: bool) -> dict[str, Margin]:
    return about.margins if seen else about.margins_unseen


def _of_strangers(predictor: Predictor, rows: Rows, model: Model) -> dict[str, Any]:
    """How many there are, mean absolute errors by output, and the share within margins for unseen services."""
    answers = predictor.predict(rows.x)
    errors = np.nanmean(absolute(answers.points, rows.y, model), axis=0)
    return {
        "services": len(np.unique(rows.service)),
        "runs": len(np.unique(rows.run)),
        "mae": dict(zip(OUTPUTS[model], errors.tolist(), strict=True)),
        "coverage": {key: float(np.nanmean(shares)) for key, shares in _held(answers, rows, seen=False).items()},
    }


def _strange(predictor: Predictor, rows: Rows) -> bool:
    """Whether a model of many machines is asked about one that it did not learn from."""
    about = predictor.metadata
    return about.platform == ANY_PLATFORM and not set(rows.platforms) <= set(about.platforms)


def all_rows(
    dataset: Path,
    config: Config,
    platforms: tuple[str, ...] | None = None,
    rows: int = EVALUATED_ROWS,
    labels: str = "labels",
) -> Rows:
    """Rows of all runs, for models that know no split."""
    return load(source_of(dataset, config, None, platforms=platforms, labels=labels), config, rows)
