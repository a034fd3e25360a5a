"""Rows of a part of a data set in memory: a uniform sample of at most so many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.datasets.description import described
from osml.datasets.store import open_parquet, trace_files
from osml.policies.osml.answers.out_of_distribution import REQUIRED
from osml_training.tables.examples import Examples, ExampleSource
from osml_training.tables.features import OUTPUTS
from osml_training.tables.runs import NoExamplesError, RunKey, run_number
from osml_training.train.config import Config

Floats32 = NDArray[np.float32]


class Rows(NamedTuple):
    """Examples with the inputs of a config: `x` (rows, inputs), `y` (rows, outputs), NaN where missing.

    `service` and `platform` index `services` and `platforms`; `run` is the same for the rows of a run. They were drawn
    from `of` rows.
    """

    x: Floats32
    y: Floats32
    service: NDArray[np.int32]
    platform: NDArray[np.int32]
    run: NDArray[np.int64]
    load: Floats32
    services: tuple[str, ...]
    platforms: tuple[str, ...]
    of: int = 0

    def taken(self, which: NDArray[np.int64] | NDArray[np.bool_]) -> Rows:
        """Some of the rows."""
        return Rows(
            self.x[which],
            self.y[which],
            self.service[which],
            self.platform[which],
            self.run[which],
            self.load[which],
            self.services,
            self.platforms,
            self.of,
        )


def columns_of(source: ExampleSource, inputs: Sequence[str]) -> Callable[[Examples], Floats32]:
    """Picks the inputs out of a batch of examples."""
    names = source.inputs + source.context
    places = [names.index(name) for name in inputs]
    return lambda batch: np.concatenate([batch.x, batch.context], axis=1)[:, places]


def source_of(
    dataset: Path,
    config: Config,
    select: Callable[[RunKey], bool] | None,
    *,
    platforms: tuple[str, ...] | None = None,
    labels: str = "labels",
) -> ExampleSource:
    """The examples of a config's model."""
    return ExampleSource(dataset, config.model, platforms=platforms, select=select, labels=labels, seed=config.seed)


_FEW_RUNS = 500


def runs_of(source: ExampleSource) -> list[RunKey]:
    """The runs of a source; where they are few, only those with an example, for which all rows are read."""
    keys = source.runs()
    if len(keys) > _FEW_RUNS:
        return keys
    there: set[tuple[str, str, int]] = set()
    for batch in source.batches(65_536, shuffle=False):
        for row in np.unique(np.stack([batch.platform, batch.service, batch.run], axis=1), axis=0):
            there.add((source.platforms[int(row[0])], source.services[int(row[1])], int(row[2])))
    return [key for key in keys if (key.platform, key.service, run_number(key.run)) in there]


def _some(batch: Examples, which: NDArray[np.int64]) -> Examples:
    """Some rows of a batch, without the inputs, which have been picked."""
    none = np.empty((len(which), 0), np.float32)
    return Examples(
        none, none, batch.y[which], batch.platform[which], batch.service[which], batch.run[which], batch.load[which]
    )


def load(source: ExampleSource, config: Config, rows: int | None = None) -> Rows:
    """A uniform sample of at most `rows` rows (None: the config's) in the order of the files. Same seed, same rows.

    What is held is thinned to a half whenever it passes twice the aim, so memory does not grow with the data set.
    Raises InputError where there is no row.
    """
    aim = config.rows if rows is None else rows
    rng = np.random.default_rng([config.seed, 1])
    pick = columns_of(source, config.inputs)
    held: list[Examples] = []
    picked: list[Floats32] = []
    count, share, there = 0, 1.0, 0
    for batch in source.batches(65_536, shuffle=False):
        there += len(batch.x)
        kept = np.nonzero(rng.random(len(batch.x)) < share)[0]
        picked.append(pick(batch)[kept])
        held.append(_some(batch, kept))
        count += len(kept)
        if count > 2 * aim:
            share /= 2
            count = 0
            for k in range(len(held)):
                half = np.nonzero(rng.random(len(held[k].y)) < 0.5)[0]
                held[k], picked[k] = _some(held[k], half), picked[k][half]
                count += len(half)
    if not count:
        raise NoExamplesError(
            f"data set '{source.dataset}' has no examples for model {source.model} in these services, platforms "
            "and loads; collect more runs, or hold out fewer"
        )
    whole = Rows(
        np.concatenate(picked),
        np.concatenate([batch.y for batch in held]),
        np.concatenate([batch.service for batch in held]),
        np.concatenate([batch.platform for batch in held]),
        np.concatenate([batch.run for batch in held]),
        np.concatenate([batch.load for batch in held]),
        source.services,
        source.platforms,
        there,
    )
    if count <= aim:
        return whole
    return whole.taken(np.sort(rng.choice(count, aim, replace=False)))


def is_real(dataset: Path) -> bool:
    """Whether the traces of a data set are of real machines."""
    file = trace_files(dataset)[0]
    return described(open_parquet(file).schema_arrow.metadata, str(file)).provenance.kind == "real"


def check_rows(rows: Rows, config: Config, *, transferred: bool = False) -> list[str]:
    """Warnings about rows that can be trained on but hardly should; InputError for rows that can't.

    A `transferred` model may lack labels of ways and bandwidth, as machines do that cannot divide or count
    them: it keeps the answers of its parent.
    """
    warnings: list[str] = []
    for k, name in enumerate(OUTPUTS[config.model]):
        if np.isnan(rows.y[:, k]).all():
            if transferred and not name.endswith("_cores"):
                warnings.append(f"no row has the label '{name}', so its answers stay near those of the parent")
                continue
            if not name.endswith("_cores") and not np.isnan(rows.y).all():
                what = "divides no cache" if name.endswith("_ways") else "counts no memory traffic"
                raise InputError(
                    f"label '{name}' is missing in all {len(rows.y)} rows that are trained on: this machine {what}; "
                    "go on from a model that knows it, with `osml learn train transfer --from MODEL`"
                )
            raise InputError(
                f"label '{name}' is missing in all {len(rows.y)} rows that are trained on; label the data set with "
                "`osml learn data label DIR`, or measure more runs that have an OAA"
            )
        infinite = int(np.isinf(rows.y[:, k]).sum())
        if infinite:
            raise InputError(f"label '{name}' is infinite in {infinite} of {len(rows.y)} rows, expected numbers")
    for k, name in enumerate(config.inputs):
        known = rows.x[:, k][~np.isnan(rows.x[:, k])]
        infinite = int(np.isinf(known).sum())
        if infinite:
            raise InputError(
                f"input '{name}' is infinite in {infinite} of {len(rows.x)} rows, expected numbers or null; "
                "`osml learn data validate DIR` lists the places"
            )
        if config.variant == "paper" and len(known) < len(rows.x):
            raise InputError(
                f"input '{name}' is missing in {len(rows.x) - len(known)} of {len(rows.x)} rows, and variant paper "
                "needs it; use --variant masked"
            )
        if len(known) == 0:
            warnings.append(f"input '{name}' is missing in all rows, {_without(name)}")
        elif known.min() == known.max() and len(known) > 1 and name in _MOVING:
            warnings.append(f"input '{name}' is {known[0]:g} in all rows, which may be a broken counter")
    for service in np.unique(rows.service):
        loads = np.unique(rows.load[rows.service == service])
        if len(loads) == 1 and len(rows.y) > 1 and not np.isnan(loads[0]):  # NaN: nobody knows the shares
            warnings.append(
                f"service '{rows.services[service]}' has only one load ({loads[0]:g}), so the model learns no other"
            )
    return warnings


def _without(name: str) -> str:
    """What comes of an input that no row has."""
    if name in REQUIRED:
        return "so a node that measures it will not use this model; collect there, with --here"
    return "so the model will not use it"


_MOVING = {
    "ipc",
    "llc_misses_per_s",
    "bandwidth_gbps",
    "cpu_usage_cores",
    "llc_occupancy_mib",
    "requests_per_s",
    "latency_ms",
}
