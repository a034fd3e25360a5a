"""The 49 actions of Model-C (OSML, section 4.3), which of them are legal, and what many at once come to.

Action `7 (m + 3) + (n + 3)` gives a service m more cores and n more ways, m and n from -3 to 3; 24 changes nothing.

Legal is what leaves every LC service at least one core and one way, and the best-effort jobs, if there are any, too.
Actions that are legal one by one may not be together. They are resolved by this rule, for cores and ways apart: first
everybody gives back, but keeps at least one; then everybody takes, in the order of their places, as much as is left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osml.virtual import columns as c
from osml.virtual.columns import IntArray
from osml.virtual.fleet_measure import K_LC
from osml.virtual.fleet_step import Nodes, Terms
from osml.virtual.jit import lean

REACH = 3
"""Cores and ways that one action moves at most."""

_WIDTH = 2 * REACH + 1
N_ACTIONS = _WIDTH * _WIDTH
NO_CHANGE = (N_ACTIONS - 1) // 2

Mask = NDArray[np.int8]


def action_index(cores: int, ways: int) -> int:
    """The number of the action that gives `cores` and `ways` (negative: takes), each from -3 to 3."""
    if not (-REACH <= cores <= REACH and -REACH <= ways <= REACH):
        raise ValueError(f"action <{cores}, {ways}>: expected -{REACH} to {REACH} cores and ways")
    return _WIDTH * (cores + REACH) + ways + REACH


def action_of(index: int) -> tuple[int, int]:
    """(cores, ways) that action number `index` gives."""
    if not 0 <= index < N_ACTIONS:
        raise ValueError(f"action {index}: expected 0 to {N_ACTIONS - 1}")
    return index // _WIDTH - REACH, index % _WIDTH - REACH


def legal_actions(cores: int, ways: int, free_cores: int, free_ways: int) -> Mask:
    """(49,) 1 where a service with `cores` and `ways` may act so, while so many are free for it to take."""
    moves = np.arange(-REACH, REACH + 1)
    one, other = cores + moves >= 1, ways + moves >= 1
    fits = (one & (moves <= free_cores))[:, None] & (other & (moves <= free_ways))[None, :]
    return fits.astype(np.int8).ravel()


@lean
def free_of(terms: Terms, nodes: Nodes, node: int) -> tuple[int, int]:
    """Cores and ways that the services of a node may take: what is idle or the jobs', but for one each of theirs."""
    cores, ways, jobs = len(terms.order), int(terms.platform[c.P_WAYS]), 0
    for place in range(nodes.present.shape[1]):
        kind = nodes.present[node, place]
        if kind < 0:
            continue
        if terms.kinds[kind, K_LC] > 0.0:
            cores -= nodes.cores[node, place]
            ways -= nodes.ways[node, place]
        else:
            jobs = 1
    return cores - jobs, ways - jobs


@lean
def fill_masks(terms: Terms, nodes: Nodes, which: IntArray, masks: Mask) -> None:
    """Legal actions of the services of the nodes `which` into `masks` (nodes, services, 49), by the current counts.

    Where nobody is, only "no change" is legal: a mask is never empty.
    """
    for at in range(len(which)):
        node = which[at]
        free_cores, free_ways = free_of(terms, nodes, node)
        for place in range(masks.shape[1]):
            there = nodes.present[node, place] >= 0
            cores, ways = nodes.cores[node, place], nodes.ways[node, place]
            for m in range(-REACH, REACH + 1):
                for n in range(-REACH, REACH + 1):
                    legal = there and cores + m >= 1 and ways + n >= 1 and m <= free_cores and n <= free_ways
                    masks[node, place, _WIDTH * (m + REACH) + n + REACH] = 1 if legal else 0
            if not there:
                masks[node, place, NO_CHANGE] = 1


@lean
def resolve(terms: Terms, nodes: Nodes, which: IntArray, actions: IntArray, taken: IntArray) -> None:
    """Change the counts of the nodes `which` by `actions` (nodes, services), by the rule of this module.

    `taken` (nodes, services, 2) are the cores and ways that each service really got.
    """
    services = actions.shape[1]
    for at in range(len(which)):
        node = which[at]
        for place in range(services):
            taken[node, place, 0] = taken[node, place, 1] = 0
            if nodes.present[node, place] < 0:
                continue
            m, n = actions[node, place] // _WIDTH - REACH, actions[node, place] % _WIDTH - REACH
            taken[node, place, 0] = max(min(m, 0), 1 - nodes.cores[node, place])
            taken[node, place, 1] = max(min(n, 0), 1 - nodes.ways[node, place])
            nodes.cores[node, place] += taken[node, place, 0]
            nodes.ways[node, place] += taken[node, place, 1]
        free_cores, free_ways = free_of(terms, nodes, node)
        for place in range(services):
            if nodes.present[node, place] < 0:
                continue
            m, n = actions[node, place] // _WIDTH - REACH, actions[node, place] % _WIDTH - REACH
            if m > 0:
                taken[node, place, 0] = got = max(0, min(m, free_cores))
                nodes.cores[node, place] += got
                free_cores -= got
            if n > 0:
                taken[node, place, 1] = got = max(0, min(n, free_ways))
                nodes.ways[node, place] += got
                free_ways -= got
