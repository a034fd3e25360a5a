"""Cells that missed their target: for how long the policy `osml` does not try them again."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from osml.policies.osml.node import Cell

MOVED = 0.08
"""A rate that differs by more than this share (and by more than its noise) is another load."""

FIRST_S, TIMES, LONGEST_S = 180.0, 4.0, 86_400.0
"""A cell is tried again after so long: what made it too small may be over. Each time that it fails again the ban is so
many times longer, up to a day: a cell that is too small for good fails six times on its first day, then once a day."""

_MOST = 16


class Ban(Struct, frozen=True, array_like=True):
    """A cell that missed the target at that rate (requests/s; None: not known), `times` in all, until a node time."""

    cores: int
    ways: int
    rate: float | None
    until_s: float
    times: int = 1


def is_banned(bans: Sequence[Ban], cell: Cell, rate: float | None, now_s: float) -> bool:
    """Whether a cell, or one that is larger in both, missed the target at this load or a lower one, lately."""
    return bool(bans) and any(now_s < ban.until_s and _holds_for(ban, cell, rate) for ban in bans)


def with_ban(bans: Sequence[Ban], cell: Cell, rate: float | None, now_s: float) -> list[Ban]:
    """The bans with a cell that missed the target now."""
    times = 1 + max((ban.times for ban in bans if _holds_for(ban, cell, rate)), default=0)
    new = Ban(cell.cores, cell.ways, rate, now_s + _length_s(times), times)
    return [*(ban for ban in bans if not _covers(new, ban)), new][-_MOST:]


def on_new_clock(bans: Sequence[Ban], now_s: float) -> list[Ban]:
    """The bans where node time began anew: none lasts longer from now on than it would have lasted from its start."""
    return [replace(ban, until_s=min(ban.until_s, now_s + _length_s(ban.times))) for ban in bans]


def _length_s(times: int) -> float:
    return min(FIRST_S * TIMES ** min(times - 1, 16), LONGEST_S)


def _holds_for(ban: Ban, cell: Cell, rate: float | None) -> bool:
    if cell.cores > ban.cores or cell.ways > ban.ways:
        return False
    return rate is None or ban.rate is None or rate >= ban.rate * (1.0 - MOVED)


def _covers(new: Ban, old: Ban) -> bool:
    """Whether all that the old ban forbids, cells and loads, the new one forbids, too, and for as long."""
    lighter = new.rate is None or (old.rate is not None and new.rate <= old.rate)
    return lighter and old.cores <= new.cores and old.ways <= new.ways and old.until_s <= new.until_s
