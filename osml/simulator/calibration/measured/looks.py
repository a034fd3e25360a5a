"""The ledger of looks: catalog/looks.yaml says who looked at which facts, and what changed after it.

A fact that was looked at is no blind test any more. The ledger says how often that happened.
"""

from __future__ import annotations

import datetime
from collections import Counter
from functools import cache

import msgspec

from osml.simulator.catalogs import CatalogError, entries_of, shipped_text


class Look(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One look at facts. `set` is the file of facts, `rows` which of them, `led_to` what changed after it."""

    date: datetime.date
    set: str
    rows: str
    saw: str
    led_to: str


def parse_looks(text: str, file: str) -> list[Look]:
    """All looks of a file; CatalogError says in one sentence what is wrong with it."""
    looks = entries_of(text, file, list[Look])
    for i, look in enumerate(looks):
        for name in ("set", "rows", "saw", "led_to"):
            if not getattr(look, name).strip():
                raise CatalogError(f"{file}: entry {i + 1}: '{name}' is empty, expected a text")
    return looks


@cache
def shipped_looks() -> tuple[Look, ...]:
    """The ledger that comes with the product."""
    return tuple(parse_looks(shipped_text("looks.yaml"), "catalog/looks.yaml"))


def counts(looks: tuple[Look, ...]) -> dict[str, int]:
    """Looks at each set, in the order of their names."""
    return dict(sorted(Counter(look.set for look in looks).items()))
