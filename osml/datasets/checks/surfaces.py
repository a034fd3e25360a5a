"""Whether the surface of a run behaves as one: more cores and more ways don't make it slower, beyond the noise."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from osml.datasets.checks.finding import Finding, Place
from osml.datasets.surfaces import Surface

_RISE = 1.25
"""A step to more resources that multiplies the latency by more than this, and beyond four standard errors, is odd."""

_WARN = 0.10
"""Share of odd steps. Hyperthreads and the clock make some real ones: a second thread on a core slows the first."""

_ENOUGH, _TIMES, _MANY = 10, 2, 0.05
"""So many odd steps, and so many times as many as right ones, are seldom an accident: of 79,000 good runs one has them.
With such a share of all steps they are none.
"""

_NOISY = 0.5


def clear_steps(surface: Surface) -> tuple[int, int, int]:
    """Steps between neighbouring measured cells: (slower with more, faster with more, all). Clear ones only."""
    latency = surface.latency_ms
    mean = np.where(np.isfinite(latency), latency, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        n = surface.answered
        error = np.sqrt(np.maximum(surface.squares / n - mean**2, 0.0) / np.maximum(n - 1, 1))
    # The spread of two samples may be small by chance: no cell is taken to be better known than half of the cells are.
    error = np.fmax(error, (surface.spread or 0.0) * mean)
    slower = faster = steps = 0
    for axis in (0, 1):
        (less, more), (noise, other) = (
            (a.take(range(a.shape[axis] - 1), axis), a.take(range(1, a.shape[axis]), axis)) for a in (mean, error)
        )
        clear = np.abs(more - less) > 4.0 * np.hypot(noise, other)
        steps += int((~np.isnan(less + more)).sum())
        slower += int((clear & (more > _RISE * less)).sum())
        faster += int((clear & (less > _RISE * more)).sum())
    return slower, faster, steps


def check_surface(surface: Surface, place: Place) -> Iterator[Finding]:
    """Findings about one run."""
    kind = surface.facts["percentile"] or "p99"
    column = "mean_ms" if kind == "mean" else f"{kind}_ms"
    odd, right, steps = clear_steps(surface)
    if odd >= _ENOUGH and (odd > _WARN * steps or odd > _TIMES * right):
        message = (
            f"run {surface.run}: of {steps} steps to one more core or way, {odd} increase the latency more than "
            f"{_RISE:g} times and {right} decrease it"
        )
        if odd > _TIMES * right and odd > _MANY * steps:
            yield place.error(column, message + ": check the order of cores, ways and latencies")
        else:
            yield place.warning(column, message)
    spread = surface.spread
    if spread is not None and spread > _NOISY:
        yield place.warning(
            column,
            f"run {surface.run}: repeated samples of a cell differ (standard error {spread:.0%}): use longer intervals",
        )
    if not surface.answered.any():
        yield place.warning(column, f"run {surface.run}: no interval has a latency, so it says nothing of any cell")
    measured = int((surface.seen > 0).sum())
    if measured < 4:
        yield place.warning("cores", f"run {surface.run}: only {measured} cells, too few for RCliff and OAA")
