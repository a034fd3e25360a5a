"""CPU ids for shares of cores, hyperthread siblings together.

In this order: (1) as few physical cores as possible are split between two shares, (2) shares take whole physical cores
before halves, (3) as few CPUs as possible change hands. With an even count everywhere nothing is split; each two odd
counts cost one split core, unless an idle thread can stand beside the odd one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from osml.layout.cells import fill_cells, moves
from osml.layout.shares import NOBODY, Owners, Share
from osml.layout.transport import transport

_PHANTOM = -1  # stands beside the last CPU of an odd number of them; never handed out
_FORBIDDEN = 1_000_000
_MAX_ODD = 6  # up to 15 ways to pair off odd shares are all tried; beyond that in order

Pair = tuple[int, int]
Slot = tuple[int, int]  # the shares on the two threads of a physical core


class _Pack(NamedTuple):
    cost: int
    filled: list[list[int]]


def fill_cpus(
    cpus: Sequence[int], siblings: Sequence[Sequence[int]], shares: Sequence[Share], history: Mapping[int, Owners]
) -> list[list[int]]:
    """CPU ids of each share, ascending."""
    pairs = _pairs(cpus, siblings)
    if pairs is None:
        return fill_cells(cpus, shares, history)
    places = [*shares, Share(NOBODY, 2 * len(pairs) - sum(share.size for share in shares))]
    best: _Pack | None = None
    for slots in _slot_plans([place.size for place in places]):
        pack = _pack(pairs, places, slots, history)
        if best is None or pack.cost < best.cost:
            best = pack
        if best.cost == 0:
            break
    filled = [] if best is None else best.filled[:-1]
    return [sorted(cpu for cpu in taken if cpu != _PHANTOM) for taken in filled]


def _pairs(cpus: Sequence[int], siblings: Sequence[Sequence[int]]) -> list[Pair] | None:
    """Physical cores as pairs of CPU ids; None where no two CPUs are siblings.

    Cores of more than two threads are taken as several pairs. CPUs without a sibling (a machine that mixes both kinds)
    are paired with their neighbours, which on such machines share a cluster.
    """
    usable = set(cpus)
    pairs: list[Pair] = []
    single = set(cpus)
    for group in siblings:
        threads = sorted(usable.intersection(group) & single)
        pairs += zip(threads[::2], threads[1::2], strict=False)
        single.difference_update(threads[: len(threads) // 2 * 2])
    if not pairs:
        return None
    rest = sorted(single)
    if len(rest) % 2:
        rest.append(_PHANTOM)
    return sorted(pairs + list(zip(rest[::2], rest[1::2], strict=True)))


def _slot_plans(counts: list[int]) -> Iterator[dict[Slot, int]]:
    """Every way to compose physical cores (slot -> how many) with the fewest splits. The last count is the idle one."""
    idle = len(counts) - 1
    whole = {(place, place): count // 2 for place, count in enumerate(counts[:-1]) if count > 1}
    odd = [place for place, count in enumerate(counts[:-1]) if count % 2]
    n_halves = min(counts[idle], len(odd))
    spare = (counts[idle] - n_halves) // 2
    odd += [idle] * n_halves
    for matching in _matchings(odd, idle) if len(odd) <= _MAX_ODD else [_matching_in_order(odd, n_halves)]:
        slots = dict(whole)
        for slot in matching:
            slots[slot] = slots.get(slot, 0) + 1
        if spare:
            slots[idle, idle] = spare
        yield slots


def _matchings(places: list[int], idle: int) -> Iterator[list[Slot]]:
    """All ways to pair places off, idle threads never with each other."""
    if not places:
        yield []
        return
    first, rest = places[0], places[1:]
    for index, other in enumerate(rest):
        if other == idle and idle in rest[:index]:
            continue  # idle threads are alike: one of them is enough
        if first == idle:
            continue
        for tail in _matchings(rest[:index] + rest[index + 1 :], idle):
            yield [(first, other), *tail]


def _matching_in_order(places: list[int], n_halves: int) -> list[Slot]:
    """One way to pair off: the idle threads at the end of the list beside the first places, the others in order."""
    threads = len(places) - n_halves
    lone, rest = places[:n_halves], places[n_halves:threads]
    return [*zip(lone, places[threads:], strict=True), *zip(rest[::2], rest[1::2], strict=True)]


def _pack(pairs: list[Pair], places: list[Share], slots: Mapping[Slot, int], history: Mapping[int, Owners]) -> _Pack:
    """Cheapest assignment of physical cores to slots."""
    classes: dict[tuple[Owners, Owners, bool], list[Pair]] = {}
    for first, second in pairs:
        key = (history.get(first, NOBODY), history.get(second, NOBODY), second == _PHANTOM)
        classes.setdefault(key, []).append((first, second))
    idle = len(places) - 1
    owners = [place.owners for place in places]

    def price(key: tuple[Owners, Owners, bool], slot: Slot) -> int:
        first, second, phantom = key
        forbidden = _FORBIDDEN if phantom and slot[1] != idle else 0
        return forbidden + moves(first, owners[slot[0]]) + moves(second, owners[slot[1]])

    def turn(slot: Slot) -> Slot:
        return slot[1], slot[0]

    def cheapest(key: tuple[Owners, Owners, bool], slot: Slot) -> int:
        return min(price(key, slot), price(key, turn(slot)))

    cost = [[cheapest(key, slot) for slot in slots] for key in classes]
    flow = transport([len(members) for members in classes.values()], list(slots.values()), cost)
    filled: list[list[int]] = [[] for _ in places]
    total = 0
    for (key, members), amounts, prices in zip(classes.items(), flow, cost, strict=True):
        waiting = iter(members)
        for slot, amount, one in zip(slots, amounts, prices, strict=True):
            total += amount * one
            turned = slot if price(key, slot) <= price(key, turn(slot)) else turn(slot)
            for _ in range(amount):
                for thread, place in zip(next(waiting), turned, strict=True):
                    filled[place].append(thread)
    return _Pack(total, filled)
