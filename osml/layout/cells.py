"""Single CPUs or single mask bits to shares: no siblings, no contiguity, only the fewest moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from osml.layout.shares import NOBODY, Owners, Share
from osml.layout.transport import transport


def moves(before: Owners, after: Owners) -> int:
    """Services that lose or gain a CPU (or way) when its owners change."""
    return len(before ^ after)


def fill_cells(cells: Sequence[int], shares: Sequence[Share], history: Mapping[int, Owners]) -> list[list[int]]:
    """Cells (CPU ids, bit numbers) of each share, ascending; what is over stays idle.

    The number of cells that change hands against `history` is the smallest that the counts allow.
    """
    classes: dict[Owners, list[int]] = {}
    for cell in cells:
        classes.setdefault(history.get(cell, NOBODY), []).append(cell)
    idle = Share(NOBODY, len(cells) - sum(share.size for share in shares))
    places = [*shares, idle]
    cost = [[moves(before, place.owners) for place in places] for before in classes]
    flow = transport([len(members) for members in classes.values()], [place.size for place in places], cost)
    filled: list[list[int]] = [[] for _ in places]
    for members, amounts in zip(classes.values(), flow, strict=True):
        start = 0
        for place, amount in enumerate(amounts):
            filled[place].extend(members[start : start + amount])
            start += amount
    return [sorted(place) for place in filled[:-1]]
