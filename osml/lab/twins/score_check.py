"""Part (a): a twin is fitted to the first two thirds of a record and predicts the last third."""

from __future__ import annotations

from osml.records import Record
from osml.twin.check import PREDICTORS, predictions
from osml.twin.document import Twin

Errors = dict[str, list[tuple[float, float, float, float]]]


def errors_of(twin: Twin, rest: Record) -> Errors:
    """Measured and predicted logarithms of all services by predictor."""
    found = predictions(twin, rest)
    return {name: [row for rows in found[name].values() for row in rows] for name in PREDICTORS}
