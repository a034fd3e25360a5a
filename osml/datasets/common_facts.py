"""Whether the rows of a run agree on what a run has once: service, load, target, neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.datasets.arrow import numbers

if TYPE_CHECKING:
    from osml.datasets.surfaces import Surface

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FACTS = ("platform", "service", "threads", "load", "target_ms", "percentile", "neighbours")
"""What all rows of a run have in common, unlike what was allocated and measured."""

_LOAD_RANGE, _CHANCE = 0.25, 5.0
"""Loads of a run are within a quarter of the first one, and within five standard deviations of a count beyond it."""


class CommonFacts:
    """The columns of FACTS in a table, to be held against the facts of its runs."""

    def __init__(self, table: Any) -> None:
        self._values: dict[str, tuple[Ints, list[Any]]] = {}
        for name in FACTS:
            encoded = table.column(name).combine_chunks().dictionary_encode("encode")
            self._values[name] = (encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary.to_pylist())
        self._no_ways = np.isnan(numbers(table, "ways"))
        self._offered, self._interval_s = numbers(table, "offered_per_s"), numbers(table, "interval_s")

    def check(self, surface: Surface, rows: NDArray[np.bool_], where: str) -> None:
        """InputError where a row of the run says something else than its first one."""
        for name, (codes, values) in self._values.items():
            for code in np.unique(codes[rows]).tolist():
                self._same(surface, name, surface.facts[name], values[code], where)
        if (self._no_ways[rows] == surface.has_ways).any():
            raise InputError(
                f"{where}, column 'ways': run {surface.run} has numbers and null, expected either in all rows of a run"
            )
        self._check_load(surface, rows, where)

    @staticmethod
    def _same(surface: Surface, name: str, first: Any, other: Any, where: str) -> None:
        if first != other and not (_nan(first) and _nan(other)):
            before, now = ("null" if value is None else str(value)[:80] for value in (first, other))
            raise InputError(
                f"{where}, column '{name}': run {surface.run} has {before} and {now}, expected one value in a run"
            )

    def _check_load(self, surface: Surface, rows: NDArray[np.bool_], where: str) -> None:
        """One load, but for rounding and for the chance of few requests in a short interval."""
        offered = self._offered[rows]
        known = offered[~np.isnan(offered)]
        if not len(known):
            return
        if surface.offered_per_s is None:
            surface.offered_per_s = float(known[0])
        load = surface.offered_per_s
        with np.errstate(invalid="ignore", divide="ignore"):
            chance = _CHANCE * np.sqrt(np.maximum(load, offered) / self._interval_s[rows])
        beyond: Ints = np.nonzero(np.abs(offered - load) > _LOAD_RANGE * load + chance)[0]
        if len(beyond):
            raise InputError(
                f"{where}, column 'offered_per_s': run {surface.run} has {load:g} and {offered[beyond[0]]:g}, "
                "expected one load in a run"
            )


def _nan(value: Any) -> bool:
    return isinstance(value, float) and np.isnan(value)
