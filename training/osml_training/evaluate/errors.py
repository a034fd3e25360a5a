"""Mean absolute errors of predictions, as rows of table 5."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from osml_training.evaluate.published import PAIRS, TABLE_5
from osml_training.evaluate.surfaces import Grid, missed
from osml_training.tables.features import OUTPUTS, Model
from osml_training.train.table import Floats32, Rows


def absolute(points: Floats32, y: Floats32, model: Model) -> Floats32:
    """Absolute errors, NaN where there is no label; for B also where it is 0, which the paper leaves out."""
    error = np.abs(points - y)
    return np.where(y == 0, np.nan, error) if model == "b" else error


def _mean(values: NDArray[Any]) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _off_cliff(
    model: Model, output: str, points: Floats32, rows: Rows, inputs: tuple[str, ...], grids: dict[int, Grid] | None
) -> float | None:
    """Share of answers that, taken at their word, miss the target: the allocation asked for, or what B leaves."""
    if grids is None or model == "b2":
        return None
    names = OUTPUTS[model]
    pair = next(pair for pair in PAIRS[model] if pair[0] == output)
    cores, ways = points[:, names.index(pair[1])], points[:, names.index(str(pair[2]))]
    if model == "b":
        cores = rows.x[:, inputs.index("cores")] - np.maximum(np.rint(cores), 0)
        ways = _ways_before(rows, inputs, grids) - np.maximum(np.rint(ways), 0)
    return float(missed(grids, rows.run, cores, ways).mean())


def _ways_before(rows: Rows, inputs: tuple[str, ...], grids: dict[int, Grid]) -> Floats32:
    """Ways that the services have; NaN where the machine divides no cache, or nobody knows the size of a way."""
    if "ways" in inputs:
        return rows.x[:, inputs.index("ways")]
    way_mib = np.array([grids[int(run)].way_mib for run in rows.run], np.float32)
    return rows.x[:, inputs.index("cache_mib")] / way_mib


def table_rows(
    model: Model,
    split: str,
    points: Floats32,
    rows: Rows,
    inputs: tuple[str, ...],
    grids: dict[int, Grid] | None = None,
    upper: Floats32 | None = None,
) -> list[dict[str, Any]]:
    """One row an output of the model: errors in cores and ways, the paper's, the share that falls off the cliff.

    `split` is seen, unseen or transfer. For B' the error in percent points is in `core_mae`. With `upper` (the upper
    ends of the 95 % margins) `off_cliff_share_margin` tells the same of allocations that big.
    """
    error = absolute(points, rows.y, model)
    names = OUTPUTS[model]
    out: list[dict[str, Any]] = []
    for output, cores, ways in PAIRS[model]:
        published = getattr(TABLE_5[model, output], split)
        row: dict[str, Any] = {
            "output": output, "split": split, "core_mae": _mean(error[:, names.index(cores)]),
            "way_mae": None if ways is None else _mean(error[:, names.index(ways)]),
            "published_core": published[0], "published_way": published[1],
            "off_cliff_share": _off_cliff(model, output, points, rows, inputs, grids),
            "unit": "percent points" if model == "b2" else "cores, ways", "rows": len(rows.y),
            "runs": len(np.unique(rows.run)),
        }  # fmt: skip
        if upper is not None and model in ("a", "a2"):
            row["off_cliff_share_margin"] = _off_cliff(model, output, upper, rows, inputs, grids)
        out.append(row)
    return out


def by_service(points: Floats32, rows: Rows, model: Model) -> dict[str, list[float | None]]:
    """Mean absolute error of each output by service."""
    error = absolute(points, rows.y, model)
    return {
        rows.services[int(k)]: [_mean(error[rows.service == k, j]) for j in range(error.shape[1])]
        for k in np.unique(rows.service)
    }
