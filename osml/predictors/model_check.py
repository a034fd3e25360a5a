"""Opens a model and asks it a batch of questions before anybody else does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import Failure
from osml.predictors import FEATURES, PARAMETERS, ManifestEntry, ModelMetadata, Predictor, load_predictor
from osml.predictors.manifest import verify_entry
from osml.predictors.metadata import METADATA, ONNX
from osml.predictors.outlook import OUTLOOK_INPUTS
from osml.predictors.q_function import QFunction, load_q_function

PROBES = 64
_BEYOND = 0.5  # of a feature's range, to both sides: what a node can meet on a bad day


def open_checked(folder: Path, entry: ManifestEntry) -> Predictor | QFunction:
    """The model of a manifest's entry: checksums, shapes, names, and finite answers to a batch of probes.

    Raises Failure (or one of its kinds) with the first thing that is wrong.
    """
    for file in (ONNX, METADATA):
        if file not in entry.sha256:
            raise Failure(f"the manifest has no checksum of {file} for model '{entry.name}'")
    verify_entry(folder, entry)
    home = folder / entry.name
    model = load_q_function(home) if entry.kind == "c" else load_predictor(home)
    metadata = model.metadata
    given = (metadata.kind, metadata.version, metadata.platform)
    expected = (entry.kind, entry.version, entry.platform)
    if given != expected:
        names = "(kind, version, platform)"
        raise Failure(f"{home}: metadata.json has {names} = {given}, expected {expected} from the manifest")
    known = OUTLOOK_INPUTS if entry.kind == "c2" else (*FEATURES, *PARAMETERS)
    unknown = [name for name in metadata.inputs if name not in known]
    if unknown:
        raise Failure(f"{home}: input '{unknown[0]}' is unknown, expected a feature of an observation")
    rows = probes(metadata)
    if isinstance(model, QFunction):
        parts = [model.q(rows)]
    else:
        found = model.predict(rows)
        parts = [found.points, found.spread]
    for part in parts:
        if part.shape != (len(rows), len(metadata.outputs)) or not np.isfinite(part).all():
            raise Failure(f"{home}: the model gave NaN, infinity or a wrong shape for {len(rows)} test inputs")
    if float(np.ptp(parts[0], axis=0).max()) == 0:
        raise Failure(f"{home}: the model gives the same answer for all test inputs")
    verify_entry(folder, entry)  # once more: what was opened is what the manifest lists, whoever writes there meanwhile
    return model


def probes(metadata: ModelMetadata) -> NDArray[np.float32]:
    """(PROBES + 2, inputs): from half a range below to half a range above what it was trained on, a third missing.

    The last two have everything at its middle, and nothing measured where that is allowed.
    """
    low, high = (np.array([getattr(f, side) for f in metadata.features], np.float64) for side in ("low", "high"))
    spare = np.array([feature.may_be_missing for feature in metadata.features])
    rng = np.random.default_rng(0)
    reach = _BEYOND * (high - low)
    rows = rng.uniform(np.maximum(low - reach, np.minimum(low, 0)), high + reach, (PROBES, len(low)))
    rows[rng.random(rows.shape) < np.where(spare, 1 / 3, 0)] = np.nan
    middle = (low + high) / 2
    return np.vstack([rows, middle, np.where(spare, np.nan, middle)]).astype(np.float32)
