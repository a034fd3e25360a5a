"""One way mask for each service out of shares of ways.

Masks must be contiguous on most machines. The shares are laid side by side as blocks, and a service's mask spans from
its first block to its last. A service that owns a block of its own and uses a shared one therefore needs them to touch,
and a shared block has two sides only. When a third service wants to touch it too, somebody's mask has to *reach
through* the block of another service. Of all orders of the blocks the one is taken with the fewest ways reached
through, and among these the one with the fewest ways changing hands. Every service always gets at least the ways that
it was promised; what is given up is that the service that was reached through has its ways for itself.

Why not give up the shared (or the isolated) ways instead: a controller that moves one way at a time would then see a
service fall from 18 ways to 1 at its first isolated way. Reaching through keeps each step small, and keeps services
that have no isolated ways (BE jobs) out of everybody's isolated ways.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from osml.domain import Reason
from osml.layout.cells import fill_cells
from osml.layout.shares import Share, bit_history

_MAX_STEPS = 40_000  # of the exact search: 8 blocks with 10 idle ways, 10 blocks without; about 20 ms
_REACH = 1 << 20  # one way reached through weighs more than any number of moved ways


def fill_ways(
    n_ways: int, shares: Sequence[Share], previous: Mapping[str, int], *, sparse: bool = False
) -> dict[str, int]:
    """Mask of each service, as an integer."""
    history = bit_history(previous, n_ways)
    if sparse:
        filled = fill_cells(range(n_ways), shares, history)
        masks = [sum(1 << bit for bit in bits) for bits in filled]
        return _spans(shares, masks)
    if _still_fits(shares, previous, n_ways):
        return dict(previous)
    return _spans(shares, _place(n_ways, shares, previous), contiguous=True)


def reach_notes(masks: Mapping[str, int], shares: Sequence[Share]) -> list[Reason]:
    """Say who got more ways than promised because masks are contiguous, and how many."""
    promised = {name: sum(share.size for share in shares if name in share.owners) for name in masks}
    notes: list[Reason] = []
    for name, mask in sorted(masks.items()):
        extra = mask.bit_count() - promised[name]
        if extra > 0:
            text = (
                f"{name}'s mask {mask:x} also covers {extra} way(s) of other services: masks are contiguous here, "
                f"and its {promised[name]} ways can't all be adjacent"
            )
            notes.append(Reason(text=text, service=name, resource="ways"))
    return notes


def _spans(shares: Sequence[Share], masks: Sequence[int], *, contiguous: bool = False) -> dict[str, int]:
    """Union of the masks of a service's shares; with `contiguous` everything between them too."""
    union: dict[str, int] = {}
    for share, mask in zip(shares, masks, strict=True):
        for name in share.owners:
            union[name] = union.get(name, 0) | mask
    if contiguous:
        return {name: (1 << mask.bit_length()) - (mask & -mask) for name, mask in union.items()}
    return union


def _still_fits(shares: Sequence[Share], previous: Mapping[str, int], n_ways: int) -> bool:
    """True where the masks of before are a layout of these shares, contiguous and without reaching through."""
    names = {name for share in shares for name in share.owners}
    if set(previous) != names or any(_hull(mask) != mask or mask.bit_length() > n_ways for mask in previous.values()):
        return False
    counts: dict[frozenset[str], int] = {}
    for owners in bit_history(previous, n_ways).values():
        if owners:
            counts[owners] = counts.get(owners, 0) + 1
    return counts == {share.owners: share.size for share in shares}


def _hull(mask: int) -> int:
    return (1 << mask.bit_length()) - (mask & -mask) if mask else -1


def _place(n_ways: int, shares: Sequence[Share], previous: Mapping[str, int]) -> list[int]:
    """Mask of each share's block."""
    idle = n_ways - sum(share.size for share in shares)
    search = _Search(n_ways, shares, previous)
    n = len(shares)
    small = (1 << n) * n * (idle + 1) <= _MAX_STEPS
    return search.run(idle, None if small else _likely_order(shares, previous))


class _Step(NamedTuple):
    cost: int
    at: int  # bit where the last block starts
    block: int
    before: tuple[int, int]  # the state that this one was reached from


_Best = dict[int, dict[int, _Step]]
"""Set of blocks -> idle ways left out -> the cheapest step there. Sets that are not reached take no memory."""


class _Search:
    """Dynamic programme over (set of blocks placed from bit 0 upwards, idle ways left out so far)."""

    def __init__(self, n_ways: int, shares: Sequence[Share], previous: Mapping[str, int]) -> None:
        self.n_ways = n_ways
        self.shares = shares
        names = sorted({name for share in shares for name in share.owners})
        self.history = [previous.get(name, 0) for name in names]
        self.blocks_of = [sum(1 << i for i, s in enumerate(shares) if name in s.owners) for name in names]
        self.gains: dict[int, list[int]] = {}

    def run(self, idle: int, order: Sequence[int] | None) -> list[int]:
        """Masks of the blocks in the cheapest arrangement; in this order only, where one is given."""
        full = (1 << len(self.shares)) - 1
        best: _Best = {0: {0: _Step(0, 0, -1, (0, 0))}}
        for placed in range(full + 1) if order is None else _prefixes(order):
            states = best.get(placed)
            if not states:
                continue
            if self._closed(placed):
                _leave_idle(states, idle)
            width = sum(share.size for block, share in enumerate(self.shares) if placed >> block & 1)
            for block in self._next(placed, order):
                self._extend(best, placed, width, block)
        last = min(best[full].items(), key=lambda item: (item[1].cost, item[0]))
        return self._trace(best, full, last[0])

    def _next(self, placed: int, order: Sequence[int] | None) -> list[int]:
        if order is None:
            return [block for block in range(len(self.shares)) if not placed >> block & 1]
        return [order[placed.bit_count()]] if placed.bit_count() < len(order) else []

    def _extend(self, best: _Best, placed: int, width: int, block: int) -> None:
        """Put one more block on top of every state of `placed`."""
        members = reached = 0
        for service, blocks in enumerate(self.blocks_of):
            if blocks >> block & 1:
                members |= 1 << service
            elif blocks & placed and blocks & ~placed:
                members |= 1 << service
                reached += 1
        count = self.shares[block].size
        gains = self.gains.get(members)
        if gains is None:
            gains = self.gains[members] = self._gains(members)
        target = best.setdefault(placed | 1 << block, {})
        for left_out, step in best[placed].items():
            at = width + left_out
            cost = step.cost + reached * count * _REACH + gains[at + count] - gains[at]
            if left_out not in target or cost < target[left_out].cost:
                target[left_out] = _Step(cost, at, block, (placed, left_out))

    def _gains(self, members: int) -> list[int]:
        """Running sum over the bits: how many members would get a bit that they do not have."""
        sums = [0]
        masks = [mask for service, mask in enumerate(self.history) if members >> service & 1]
        for bit in range(self.n_ways):
            sums.append(sums[-1] + sum(1 for mask in masks if not mask >> bit & 1))
        return sums

    def _closed(self, placed: int) -> bool:
        """True where no service has blocks both below and above: idle ways may lie here."""
        return not any(blocks & placed and blocks & ~placed for blocks in self.blocks_of)

    def _trace(self, best: _Best, placed: int, left_out: int) -> list[int]:
        masks = [0] * len(self.shares)
        while placed:
            step = best[placed][left_out]
            if step.block >= 0:
                masks[step.block] = ((1 << self.shares[step.block].size) - 1) << step.at
            placed, left_out = step.before
        return masks


def _prefixes(order: Sequence[int]) -> list[int]:
    """Sets of blocks that are placed one after the other in a fixed order, as bit sets."""
    sets = [0]
    for block in order:
        sets.append(sets[-1] | 1 << block)
    return sets


def _leave_idle(states: dict[int, _Step], idle: int) -> None:
    """Let idle ways lie above the blocks placed so far: any number, at no cost."""
    for left_out in range(1, idle + 1):
        below = states.get(left_out - 1)
        if below is not None and (left_out not in states or below.cost < states[left_out].cost):
            states[left_out] = below


def _likely_order(shares: Sequence[Share], previous: Mapping[str, int]) -> list[int]:
    """An order for more blocks than can be searched: as before, with each shared block amid its owners' own blocks."""

    def before(block: int) -> tuple[int, int]:
        own = [previous[name] for name in sorted(shares[block].owners) if previous.get(name)]
        return (min((mask & -mask).bit_length() for mask in own) if own else 1 << 10, block)

    order: list[int] = []
    for block in sorted(
        (b for b, s in enumerate(shares) if len(s.owners) > 1), key=lambda b: (-len(shares[b].owners), b)
    ):
        beside = [b for b, s in enumerate(shares) if len(s.owners) == 1 and s.owners <= shares[block].owners]
        beside = sorted((b for b in beside if b not in order), key=lambda b: (shares[b].size, b))
        order += [*sorted(beside[::2], reverse=True, key=lambda b: (shares[b].size, b)), block, *beside[1::2]]
    return order + sorted((b for b in range(len(shares)) if b not in order), key=before)
