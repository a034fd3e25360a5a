"""Rows that can't be of the machine they are said to be of, or are in another unit: nobody should learn from them.

`osml learn data validate` finds each such row. Here 1 in 20 of a row group must be wrong: a sensor that erred once
harms no training, a unit or a description that is wrong harms every row.
"""

from __future__ import annotations

from typing import Any

from osml.base.failure import InputError
from osml.datasets.arrow import pc
from osml.datasets.checks.against_platform import machine_limits
from osml.datasets.checks.columns import unit_hint
from osml.datasets.description import Fingerprint
from osml.datasets.schema import TRACE_COLUMNS

_FEW = 0.05
"""Share of the rows of a row group that may be wrong."""

_NEVER = ("cores", "ways")
"""What was given, not measured: no row may be wrong."""

_ALL = "`osml learn data validate DIR` lists all errors"
_RANGES = tuple((column.name, column.low or 0.0, column.high) for column in TRACE_COLUMNS if column.high is not None)

_Ends = dict[str, dict[str, Any]]
"""`min` and `max` of each column that is judged."""


def check_plausible(table: Any, machine: Fingerprint, place: str) -> None:
    """InputError for numbers that no machine has, or not this one. Null, NaN and infinite ones are others' to judge."""
    limits = machine_limits(machine)
    judged = {name for name, _, _ in _RANGES} | {limit.column for limit in limits}
    ends: _Ends = {name: pc.min_max(table.column(name)).as_py() for name in judged.intersection(table.column_names)}
    for name, low, high in _RANGES:
        worst = _beyond(table, ends, name, low, high)
        if worst is not None:
            hint = unit_hint(name, worst, low, high)
            raise InputError(f"{place}, column '{name}': {worst:g}, expected {low:g} to {high:g}{hint}; {_ALL}")
    for name, what, most in limits:
        if most is None:
            continue
        worst = _beyond(table, ends, name, 0.0, most)
        if worst is not None:
            raise InputError(
                f"{place}, column '{name}': up to {worst:g}, but the platform has {most:g} ({what}): "
                f"traces and platform description contradict each other; {_ALL}"
            )


def _beyond(table: Any, ends: _Ends, name: str, low: float, high: float) -> float | None:
    """The worst number of a column, where more of its rows than may be are below `low` or above `high`, but finite."""
    found = ends.get(name)
    if found is None or found["min"] is None or (found["min"] >= low and found["max"] <= high):
        return None
    column = table.column(name)
    wrong = pc.and_(pc.is_finite(column), pc.or_(pc.less(column, low), pc.greater(column, high)))
    values = column.filter(wrong)
    if len(values) <= (0.0 if name in _NEVER else _FEW * len(column)):
        return None
    worst = pc.min_max(values).as_py()
    return float(worst["max"] if worst["max"] > high else worst["min"])
