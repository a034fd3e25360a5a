"""Model-C in an ONNX session: raw features in, the value of each of the 49 actions out (OSML section 4.3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.predictors.actions import NO_CHANGE, Mask
from osml.predictors.metadata import ModelMetadata
from osml.predictors.session import BoundSession, Floats32, RowCheck, open_session


class QFunction:
    """An opened Model-C; may be called from several threads."""

    def __init__(self, metadata: ModelMetadata, session: BoundSession):
        self.metadata, self._session = metadata, session
        self._rows = RowCheck(metadata)

    def q(self, features: NDArray[Any]) -> Floats32:
        """Q of every action, (rows, 49), for raw `features` (rows, len(metadata.features)), NaN where not measured.

        Illegal actions have a value, too: see `best`. Raises InputError for features of another shape.
        """
        return self._session(self._rows(features))[0]

    def best(self, features: NDArray[Any], legal: Mask, margin: float = 0.0) -> NDArray[np.int64]:
        """The legal action of the highest value, (rows,); the first one of equals. `legal` is (rows, 49), 1 or 0.

        Nothing is changed where the best is not worth more than `margin` above that, if changing nothing is legal.
        Raises InputError for masks of another shape or without any legal action.
        """
        q = self.q(features)
        if legal.shape != q.shape or not legal.any(axis=1).all():
            raise InputError(
                f"masks have shape {legal.shape}, expected {q.shape} with at least one legal action in each"
            )
        return greedy(q, legal > 0, margin)


def greedy(q: Floats32, legal: NDArray[np.bool_], margin: float = 0.0) -> NDArray[np.int64]:
    """`QFunction.best` on values (rows, 49)."""
    found = np.argmax(np.where(legal, q, -np.inf), axis=1)
    if margin <= 0:
        return found
    gain = np.take_along_axis(q, found[:, None], axis=1)[:, 0] - q[:, NO_CHANGE]
    return np.where((gain > margin) | ~legal[:, NO_CHANGE], found, NO_CHANGE)


def load_q_function(folder: Path) -> QFunction:
    """Open the Model-C of a folder.

    Raises InputError for a model of another kind, and what `osml.predictors.session.open_session` does.
    """
    metadata, session = open_session(folder, ("q",))
    if metadata.kind != "c":
        raise InputError(f"{folder}: model is of kind {metadata.kind}, expected c")
    return QFunction(metadata, session)
