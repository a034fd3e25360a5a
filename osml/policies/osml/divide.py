"""Whole units for predicted needs: what everybody needs first, and what is left in proportion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from osml.policies.osml.node import NOTHING, Cell, Node, total


def fits(node: Node, cells: Mapping[str, Cell]) -> bool:
    """Whether these cells leave the BE jobs what they have to have."""
    return missing(node, cells) == NOTHING


def missing(node: Node, cells: Mapping[str, Cell]) -> Cell:
    """Cores and ways that the cells take beyond what there is."""
    lack = total(cells.values()).less(node.for_lc)
    return Cell(max(0, lack.cores), max(0, lack.ways))


def spread_out(
    node: Node, cells: Mapping[str, Cell], to: Sequence[str], ways_to: Sequence[str] | None = None
) -> dict[str, Cell]:
    """The cells, and what is left of the node for those in `to`, in proportion to what they have.

    With `ways_to` ways that are left go to those, in proportion to their cores.
    """
    room, cores, ways = node.for_lc, {n: c.cores for n, c in cells.items()}, {n: c.ways for n, c in cells.items()}
    after = _filled(cores, cores, {n: node.mosts[n].cores for n in to}, room.cores)
    weights = ways if ways_to is None else after
    wider = _filled(ways, weights, {n: node.mosts[n].ways for n in (to if ways_to is None else ways_to)}, room.ways)
    return {name: Cell(after[name], wider[name]) for name in cells}


def _filled(
    units: Mapping[str, int], weights: Mapping[str, int], most: Mapping[str, int], total: int
) -> dict[str, int]:
    """Units with the rest of `total` handed out by weight, to those in `most` and to nobody beyond its own.

    One unit after the other to whoever is then furthest below its proportion: D'Hondt's method.
    """
    found = dict(units)
    left = total - sum(found.values())
    growing = [name for name in found if name in most]
    while left > 0:
        growing = [name for name in growing if found[name] < most[name]]
        if not growing:
            break
        poorest = min(growing, key=lambda name: ((found[name] + 1) / max(weights[name], 0.5), name))
        found[poorest] += 1
        left -= 1
    return found


def cut_down(node: Node, cells: Mapping[str, Cell], least: Mapping[str, Cell]) -> dict[str, Cell] | None:
    """The cells, each made smaller towards its `least` in proportion, until they fit; None where even that is too much.

    What each gives is in proportion to what it could give.
    """
    lack = missing(node, cells)
    if lack == NOTHING:
        return dict(cells)
    cores = _cut({n: c.cores for n, c in cells.items()}, {n: c.cores for n, c in least.items()}, lack.cores)
    ways = _cut({n: c.ways for n, c in cells.items()}, {n: c.ways for n, c in least.items()}, lack.ways)
    if cores is None or ways is None:
        return None
    return {name: Cell(cores[name], ways[name]) for name in cells}


def _cut(units: Mapping[str, int], least: Mapping[str, int], lack: int) -> dict[str, int] | None:
    found = dict(units)
    for _ in range(lack):
        givers = [name for name in found if found[name] > least[name]]
        if not givers:
            return None
        richest = max(givers, key=lambda name: ((found[name] - least[name]) / max(1, found[name]), found[name], name))
        found[richest] -= 1
    return found
