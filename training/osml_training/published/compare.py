"""What a published model answers on the virtual node of its own machine, beside ours and the labels of both rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from osml.predictors import Predictor
from osml_training.evaluate.evaluate import all_rows
from osml_training.evaluate.surfaces import missed, read_grids
from osml_training.tables.features import OUTPUTS
from osml_training.train.config import shipped_config
from osml_training.train.table import Floats32, Rows

_PAIRS = (("rcliff", "rcliff_cores", "rcliff_ways"), ("oaa", "oaa_cores", "oaa_ways"))


def _errors(points: Floats32, names: tuple[str, ...], rows: Rows) -> dict[str, dict[str, float]]:
    out: dict[str, dict[str, float]] = {}
    for what, cores, ways in _PAIRS:
        found: dict[str, float] = {}
        for key, name in (("core", cores), ("way", ways)):
            error = points[:, names.index(name)] - rows.y[:, OUTPUTS["a"].index(name)]
            found[f"{key}_mae"] = float(np.nanmean(np.abs(error)))
            found[f"{key}_bias"] = float(np.nanmean(error))
        out[what] = found
    return out


def compare(
    predictor: Predictor,
    dataset: Path,
    platform: str,
    cores: int,
    ways: int,
    *,
    rows: int = 100_000,
    labellings: tuple[str, ...] = ("labels", "labels-reference"),
) -> dict[str, Any]:
    """Errors against the labels in each folder of `labellings`, for Model-A and A'.

    `bias` is positive where the model asks for more than the label. `outside_machine` is the share of answers beyond
    1 core and way and the whole machine; `oaa_off_cliff` the share of its OAAs that would miss the target.
    """
    kind = predictor.metadata.kind
    if kind not in ("a", "a2"):
        return {
            "name": predictor.metadata.name,
            "kind": kind,
            "note": "labels of B have another meaning in the published data",
        }
    config = shipped_config(kind, "paper")
    names = predictor.metadata.answers
    document: dict[str, Any] = {"name": predictor.metadata.name, "kind": kind, "simulated": True, "against": {}}
    for labels in labellings:
        if not (dataset / labels).is_dir():
            continue
        found = all_rows(dataset, config, (platform,), rows, labels=labels)
        x = found.x[:, [config.inputs.index(feature) for feature in predictor.metadata.inputs]]
        points = predictor.predict(x).points
        document["against"][labels] = _errors(points, names, found)
        if labels == labellings[0]:
            at = [names.index(name) for name in ("oaa_cores", "oaa_ways")]
            grids = read_grids(dataset, (platform,))
            document["oaa_off_cliff"] = float(missed(grids, found.run, points[:, at[0]], points[:, at[1]]).mean())
            limits = np.array([cores if name.endswith("_cores") else ways for name in names])
            beyond = (points < 0.5) | (points > limits + 0.5)
            document["outside_machine"] = float(beyond.any(1).mean())
            document["median"] = dict(zip(names, np.median(points, axis=0).round(2).tolist(), strict=True))
            document["label_median"] = dict(
                zip(OUTPUTS["a"], np.nanmedian(found.y, axis=0).round(2).tolist(), strict=True)
            )
    return document
