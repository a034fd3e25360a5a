"""The node's own form of a miss curve, fitted to measured points: three numbers instead of one for each way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from osml.lab.profile.curve import Floats

_SIZES = np.geomspace(1e-3, 1e3, 181)  # MiB
_STEEPNESSES = np.geomspace(0.1, 12.0, 73)
_LEAST = 1e-3
"""The node takes no miss ratio of 0."""


@dataclass(frozen=True)
class Fit:
    """Misses per access at c MiB are miss_min + (1 - miss_min)/(1 + (c/working_set_mib)^steepness).

    `rms` and `largest` are errors in misses per 1000 instructions; `constant_rms` is that of one mean for all sizes.
    """

    miss_min: float
    working_set_mib: float
    steepness: float
    rms: float
    largest: float
    constant_rms: float


def fitted(mib: Floats, mpki: Floats, accesses: float) -> Fit:
    """Least squares over a grid of sizes and steepnesses; `accesses` per 1000 instructions are kept as measured."""
    if accesses <= 0.0:
        return Fit(_LEAST, 1.0, 2.0, 0.0, 0.0, 0.0)
    ratio = mpki / accesses
    shapes = 1.0 / (1.0 + (mib / _SIZES[:, None, None]) ** _STEEPNESSES[:, None])  # (sizes, steepnesses, points)
    rest = 1.0 - shapes
    # Given the shape the best miss_min is linear: ratio - shape = miss_min (1 - shape).
    square = (rest**2).sum(axis=2)
    least = np.clip(((ratio - shapes) * rest).sum(axis=2) / np.maximum(square, 1e-12), _LEAST, 0.99)
    errors = ((least[..., None] + (1.0 - least[..., None]) * shapes - ratio) ** 2).sum(axis=2)
    i, j = np.unravel_index(int(errors.argmin()), errors.shape)
    miss_min, shape = float(least[i, j]), shapes[i, j]
    off = accesses * (miss_min + (1.0 - miss_min) * shape) - mpki
    return Fit(
        miss_min=miss_min,
        working_set_mib=float(_SIZES[i]),
        steepness=float(_STEEPNESSES[j]),
        rms=float(np.sqrt((off**2).mean())),
        largest=float(np.abs(off).max()),
        constant_rms=float(mpki.std()),
    )
