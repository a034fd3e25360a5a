"""By how much a program, a machine or a sensor may differ from what is known of it.

93 SPEC programs on a real cache say what is usual (osml/simulator/programs.py). Eight benchmarks among them ran with
two to nine inputs: "the same service with other data". Over these 31 programs, relative to the geometric mean of their
benchmark, 80 % lie within

| parameter | from | to |
|---|---|---|
| steepness of the miss curve | 0.71 | 1.32 |
| time of a miss | 0.71 | 1.47 |
| working set | 0.60 | 1.68 |
| misses per instruction with one way | 0.50 | 1.99 |

REAL covers the first two, HARD is a little less than the last two.
"""

from __future__ import annotations

import math

import numpy as np

from osml.base.failure import InputError

REAL, HARD = 0.3, 0.5
_MOST = 0.9


def checked_spread(name: str, spread: float) -> float:
    """A spread from 0 to 0.9; InputError names it otherwise."""
    if not 0.0 <= spread <= _MOST:
        raise InputError(f"{name} is {spread}, expected a share from 0 (no change) to {_MOST}")
    return spread


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """A number whose logarithm is uniform between those of `low` and `high`."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def factor(rng: np.random.Generator, spread: float) -> float:
    """A log-uniform factor from 1 - spread to 1 + spread."""
    return log_uniform(rng, 1.0 - spread, 1.0 + spread)
