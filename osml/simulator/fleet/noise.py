"""Random numbers of a fleet: one stream a node, drawn inside compiled code.

What one node measures must not depend on how many others there are, so that a node of a fleet can be taken out and
looked at alone: a shared generator would not do. Each node has 64 bits of state (SplitMix64, Steele et al. 2014).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from osml.base.jit import lean
from osml.simulator.queueing.distribution import normal_quantile

Streams = NDArray[np.uint64]

# Every operand is a uint64: with a plain integer, numba would leave the unsigned numbers.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_SHIFT_1, _SHIFT_2, _SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)
_DROPPED_BITS = np.uint64(11)
_SCALE = 2.0**-53
_MANY = 30.0
_LARGE_SHAPE = 8.0


@lean
def uniform(streams: Streams, node: int) -> float:
    """A number in (0, 1), never one of the ends."""
    streams[node] += _STEP
    bits = streams[node]
    bits = (bits ^ (bits >> _SHIFT_1)) * _MIX_1
    bits = (bits ^ (bits >> _SHIFT_2)) * _MIX_2
    bits = bits ^ (bits >> _SHIFT_3)
    return (float(bits >> _DROPPED_BITS) + 0.5) * _SCALE


@lean
def normal(streams: Streams, node: int) -> float:
    """A standard normal number."""
    return normal_quantile(uniform(streams, node))


@lean
def gamma(streams: Streams, node: int, shape: float) -> float:
    """A gamma number with scale 1, any shape above 0: exact (Marsaglia and Tsang 2000) for small shapes.

    Large ones are the cube of a normal number (Wilson and Hilferty 1931), right to a hundredth of their spread.
    """
    if shape > _LARGE_SHAPE:
        third = 1.0 / (3.0 * math.sqrt(shape))
        root = 1.0 - third * third + third * normal(streams, node)
        return shape * root * root * root
    boost = 1.0
    if shape < 1.0:
        boost = uniform(streams, node) ** (1.0 / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(streams, node)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        u = uniform(streams, node)
        if u < 1.0 - 0.0331 * x * x * x * x or math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
            return boost * d * v


@lean
def poisson(streams: Streams, node: int, mean: float) -> float:
    """A Poisson number: exact for small means, else the Cornish-Fisher expansion around the normal one."""
    if mean <= 0.0:
        return 0.0
    if mean < _MANY:
        limit, product, count = math.exp(-mean), uniform(streams, node), 0.0
        while product > limit:
            product *= uniform(streams, node)
            count += 1.0
        return count
    z = normal(streams, node)
    return max(0.0, math.floor(mean + math.sqrt(mean) * z + (z * z - 1.0) / 6.0 + 0.5))
