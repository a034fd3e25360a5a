"""pyarrow without types: it ships none, and strict checking would drown in unknown members."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

pa: Any = importlib.import_module("pyarrow")
pc: Any = importlib.import_module("pyarrow.compute")
pq: Any = importlib.import_module("pyarrow.parquet")


def numpy_type(kind: Any) -> np.dtype[Any]:
    """The numpy type of a numeric Arrow type; pyarrow's own way to it needs pandas."""
    return np.dtype(_NUMPY.get(str(kind), str(kind)))


_NUMPY = {"double": "float64", "float": "float32", "halffloat": "float16"}
