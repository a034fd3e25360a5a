"""pyarrow without types: it ships none, and strict checking would drown in unknown members."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

pa: Any = importlib.import_module("pyarrow")
pc: Any = importlib.import_module("pyarrow.compute")
pq: Any = importlib.import_module("pyarrow.parquet")


def numpy_type(kind: Any) -> np.dtype[Any]:
    """The numpy type of a numeric Arrow type; pyarrow's own way to it needs pandas."""
    return np.dtype(_NUMPY.get(str(kind), str(kind)))


_NUMPY = {"double": "float64", "float": "float32", "halffloat": "float16"}


def numbers(table: Any, name: str) -> NDArray[np.float64]:
    """A numeric column as float64; null is NaN."""
    values: NDArray[np.float64] = table.column(name).to_numpy(zero_copy_only=False).astype(np.float64)
    return values
