"""The 49 actions of Model-C (OSML, section 4.3), and which of them are legal for a service.

Action `7 (m + 3) + (n + 3)` gives a service m more cores and n more ways, m and n from -3 to 3; 24 changes nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

REACH = 3
"""Cores and ways that one action moves at most."""

WIDTH = 2 * REACH + 1
"""Changes of one resource that an action can make."""
N_ACTIONS = WIDTH * WIDTH
NO_CHANGE = (N_ACTIONS - 1) // 2

Mask = NDArray[np.int8]


def action_index(cores: int, ways: int) -> int:
    """The number of the action that gives `cores` and `ways` (negative: takes), each from -3 to 3."""
    if not (-REACH <= cores <= REACH and -REACH <= ways <= REACH):
        raise ValueError(f"action <{cores}, {ways}>: expected -{REACH} to {REACH} cores and ways")
    return WIDTH * (cores + REACH) + ways + REACH


def action_of(index: int) -> tuple[int, int]:
    """(cores, ways) that action number `index` gives."""
    if not 0 <= index < N_ACTIONS:
        raise ValueError(f"action {index}: expected 0 to {N_ACTIONS - 1}")
    return index // WIDTH - REACH, index % WIDTH - REACH


ACTION_NAMES = tuple(f"<{m},{n}>" for m, n in map(action_of, range(N_ACTIONS)))
"""`<cores,ways>` of each action in order."""


def legal_actions(cores: int, ways: int, free_cores: int, free_ways: int) -> Mask:
    """(49,) 1 where a service with `cores` and `ways` may act so, while so many are free for it to take."""
    moves = np.arange(-REACH, REACH + 1)
    one, other = cores + moves >= 1, ways + moves >= 1
    fits = (one & (moves <= free_cores))[:, None] & (other & (moves <= free_ways))[None, :]
    return fits.astype(np.int8).ravel()
