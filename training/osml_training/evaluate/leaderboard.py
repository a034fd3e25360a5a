"""How well what is known of other machines, or of other services, predicts the labels of one: a table for data sets.

Every platform, and every service, is left out once: the models learn from the rest and are judged on it. Variants and
parts of a platform, and variants of a service, go with what they were made of. Nothing was
chosen on what is left out. Simple models only: a data set needs no GPU to be compared. Errors are in cores and ways.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# scikit-learn's own annotations have gaps.
from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from threadpoolctl import threadpool_limits

from osml.base.failure import InputError
from osml.predictors.metadata import PART
from osml_training.collect.variants import parent_of
from osml_training.tables.examples import ExampleSource
from osml_training.tables.features import OUTPUTS, Model
from osml_training.tables.runs import NoExamplesError

Floats = NDArray[np.float64]
Kind = Literal["platform", "service"]
KINDS: tuple[Kind, ...] = ("platform", "service")
MODELS: tuple[Model, ...] = ("a", "a2")
"""Those whose outputs are cores and ways."""
NEIGHBOURS = 5


class Table(msgspec.Struct, frozen=True):
    """Examples of all data sets: `x` (rows, inputs and descriptors of the machine), `y` (rows, outputs).

    NaN where nothing is known.
    """

    x: Floats
    y: Floats
    platform: list[str]
    service: list[str]


class Entry(msgspec.Struct, frozen=True):
    """Errors of one model on what was left out. `error` is the mean absolute error, `margin` its 90 % quantile."""

    left_out: Kind
    name: str
    model: str
    output: str
    rows: int
    error: float
    margin: float


class Leaderboard(msgspec.Struct, frozen=True):
    """All entries. `missing` says of each kind why there are none."""

    of: Model
    platforms: list[str]
    services: list[str]
    rows: int
    entries: list[Entry]
    missing: dict[str, str]
    schema: str = "osml/leaderboard/v1"


def _size(x: Floats) -> Floats:
    return np.sign(x) * np.log1p(np.abs(x))


def _models(seed: int) -> dict[str, Callable[[], Any]]:
    """Median first: whoever is not better has learned nothing."""

    def prepared(model: Any) -> Any:
        return make_pipeline(
            FunctionTransformer(_size),
            SimpleImputer(strategy="median", keep_empty_features=True),
            StandardScaler(),
            model,
        )

    return {
        "median": lambda: DummyRegressor(strategy="median"),
        "nearest_neighbours": lambda: prepared(KNeighborsRegressor(NEIGHBOURS, weights="distance")),
        "linear": lambda: prepared(LinearRegression()),
        "boosted_trees": lambda: HistGradientBoostingRegressor(
            loss="absolute_error", max_iter=60, learning_rate=0.2, random_state=seed
        ),
    }


def read(folders: Sequence[Path], of: Model, rows: int, seed: int = 0) -> Table:
    """At most so many examples of each labelled data set, drawn by the seed; those without any are left out.

    InputError where none has any.
    """
    if of not in MODELS:
        raise InputError(f"model is '{of}', expected one of {', '.join(MODELS)}")
    x, y, platforms, services = list[Floats](), list[Floats](), list[str](), list[str]()
    for folder in folders:
        try:
            source = ExampleSource(folder, of, neighbours="any", seed=seed)
            found = source.table(rows, shuffle=True)
        except NoExamplesError:  # it has no labels, or all its runs met their target everywhere
            continue
        x.append(np.concatenate([found.x, found.context], 1).astype(np.float64))
        y.append(found.y.astype(np.float64))
        platforms += [source.platforms[index] for index in found.platform]
        services += [source.services[index] for index in found.service]
    if not x:
        raise InputError(f"no data set has examples for model {of}: label them with `osml learn data label`")
    return Table(np.concatenate(x), np.concatenate(y), platforms, services)


def leaderboard(table: Table, of: Model, seed: int = 0) -> Leaderboard:
    """Leave out each platform and each service once; the same table and seed give the same numbers."""
    entries: list[Entry] = []
    missing: dict[str, str] = {}
    for kind in KINDS:
        groups = np.array([_origin(name) for name in (table.platform if kind == "platform" else table.service)])
        names = sorted(set(groups.tolist()))
        if len(names) < 2:
            missing[kind] = f"all examples are of {kind} '{names[0]}', expected two at least"
            continue
        for name in names:
            entries += _left_out(table, kind, name, groups == name, OUTPUTS[of], seed)
    platforms, services = sorted(set(table.platform)), sorted(set(table.service))
    return Leaderboard(of, platforms, services, len(table.x), entries, missing)


def _origin(name: str) -> str:
    """What a variant or a part was made of: it behaves as that does, so it would tell what is left out."""
    return parent_of(name.partition(PART)[0])


def _left_out(
    table: Table, kind: Kind, name: str, out: NDArray[np.bool_], outputs: Sequence[str], seed: int
) -> list[Entry]:
    found: list[Entry] = []
    for at, output in enumerate(outputs):
        if not output.endswith(("_cores", "_ways")):
            continue
        y = table.y[:, at]
        train, test = ~out & ~np.isnan(y), out & ~np.isnan(y)
        if train.sum() <= NEIGHBOURS or not test.any():
            continue
        for model, make in _models(seed).items():
            with threadpool_limits(1):  # threads that wait for each other on a busy machine took ten times as long
                predicted = make().fit(table.x[train], y[train]).predict(table.x[test])
            errors = np.abs(predicted - y[test])
            error, margin = round(float(errors.mean()), 3), round(float(np.quantile(errors, 0.9)), 3)
            found.append(Entry(kind, name, model, output, int(test.sum()), error, margin))
    return found


def markdown(board: Leaderboard) -> str:
    """The leaderboard as a page: mean over what was left out, best model first."""
    lines = [f"# Leaderboard of model {board.of}", ""]
    counts = f"{board.rows:,} examples, {len(board.platforms)} platforms, {len(board.services)} services"
    lines += [f"{counts}. Errors are in cores and ways.", ""]
    for kind in KINDS:
        lines += [f"## One {kind} left out", ""]
        if kind in board.missing:
            lines += [f"{board.missing[kind]}.", ""]
            continue
        rows = [one for one in board.entries if one.left_out == kind]
        outputs = list(dict.fromkeys(one.output for one in rows))
        lines += ["| model | " + " | ".join(f"{output}: error, margin" for output in outputs) + " |"]
        lines += ["|---|" + "---:|" * len(outputs)]
        models = list(dict.fromkeys(one.model for one in rows))
        for model in sorted(models, key=lambda name: _mean(rows, name, None)[0]):
            cells = ["{:.2f}, {:.2f}".format(*_mean(rows, model, output)) for output in outputs]
            lines.append(f"| {model} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def _mean(rows: Sequence[Entry], model: str, output: str | None) -> tuple[float, float]:
    chosen = [one for one in rows if one.model == model and output in (None, one.output)]
    return float(np.mean([one.error for one in chosen])), float(np.mean([one.margin for one in chosen]))
