"""Shapley values: how much of a total each of several causes is answerable for.

Each cause is on or off. What a cause adds depends on which others are on; its Shapley value is the mean over all orders
in which they can be switched on (Shapley, 1953). The values add up to the total.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import comb

import numpy as np

MOST_EXACT = 9
ORDERS = 24
"""Orders that are drawn where there are too many causes for all of them: each one and its reverse."""


def shapley(value: Callable[[int], float], causes: int, *, seed: int = 0, orders: int = ORDERS) -> list[float]:
    """Values of the causes. `value` is that of a set of causes, given as bits; each set is asked for once.

    Exact for up to MOST_EXACT causes; beyond from `orders` random orders and their reverses, which add up, too.
    """
    known = cache(value)
    return _exact(known, causes) if causes <= MOST_EXACT else _drawn(known, causes, seed, orders)


def _exact(value: Callable[[int], float], n: int) -> list[float]:
    found = [0.0] * n
    for there in range(1 << n):
        size = there.bit_count()
        now = value(there)
        for i in range(n):
            if there >> i & 1:
                found[i] += now / (n * comb(n - 1, size - 1))
            else:
                found[i] -= now / (n * comb(n - 1, size))
    return found


def _drawn(value: Callable[[int], float], n: int, seed: int, orders: int) -> list[float]:
    rng = np.random.default_rng(seed)
    found = [0.0] * n
    for _ in range(orders):
        order = rng.permutation(n).tolist()
        for way in (order, order[::-1]):
            there, before = 0, value(0)
            for i in way:
                there |= 1 << i
                now = value(there)
                found[i] += (now - before) / (2 * orders)
                before = now
    return found
