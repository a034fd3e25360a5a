"""Actions of Model-C (`osml.predictors.actions`) on virtual nodes: which are legal, and what many at once come to.

Legal is what leaves every LC service at least one core and one way, and the best-effort jobs, if there are any, too.
Actions that are legal one by one may not be together. They are resolved by this rule, for cores and ways apart: first
everybody gives back, but keeps at least one; then everybody takes, in the order of their places, as much as is left.
"""

from __future__ import annotations

from osml.base.jit import lean
from osml.predictors.actions import NO_CHANGE, REACH, WIDTH, Mask
from osml.simulator import columns as c
from osml.simulator.columns import IntArray
from osml.simulator.fleet.measure import K_LC
from osml.simulator.fleet.step import Nodes, Terms


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
                    masks[node, place, WIDTH * (m + REACH) + n + REACH] = 1 if legal else 0
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
            m, n = actions[node, place] // WIDTH - REACH, actions[node, place] % WIDTH - REACH
            taken[node, place, 0] = max(min(m, 0), 1 - nodes.cores[node, place])
            taken[node, place, 1] = max(min(n, 0), 1 - nodes.ways[node, place])
            nodes.cores[node, place] += taken[node, place, 0]
            nodes.ways[node, place] += taken[node, place, 1]
        free_cores, free_ways = free_of(terms, nodes, node)
        for place in range(services):
            if nodes.present[node, place] < 0:
                continue
            m, n = actions[node, place] // WIDTH - REACH, actions[node, place] % WIDTH - REACH
            if m > 0:
                taken[node, place, 0] = got = max(0, min(m, free_cores))
                nodes.cores[node, place] += got
                free_cores -= got
            if n > 0:
                taken[node, place, 1] = got = max(0, min(n, free_ways))
                nodes.ways[node, place] += got
                free_ways -= got
