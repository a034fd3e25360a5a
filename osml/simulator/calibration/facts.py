"""Published facts that the virtual node is fitted to or held against: catalog/facts.yaml, read and checked."""

from __future__ import annotations

from functools import cache

import msgspec

from osml.simulator.catalogs import CatalogError, entries_of, shipped_text


class Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One number that somebody measured and published.

    `kind` says how the node shows it (validate.py has one function a kind), the optional fields on what. `held_back`
    facts are never used for fitting. `tolerance` is a factor ("x1.5"), a share ("10%") or a distance ("15" or "0.15").
    """

    id: str
    kind: str
    source: str
    published: float
    tolerance: str
    held_back: bool
    service: str = ""
    platform: str = ""
    quantity: str = ""
    job: str = ""
    cores: int = 0
    ways: int = 0
    load: float = 0.0  # fraction of max load
    policy: str = ""
    note: str = ""


def parse_facts(text: str, file: str) -> list[Fact]:
    """All facts of a file; CatalogError says in one sentence what is wrong with it."""
    facts = entries_of(text, file, list[Fact])
    ids = [fact.id for fact in facts]
    for name in ids:
        if ids.count(name) > 1:
            raise CatalogError(f"{file}: two facts are called '{name}', expected unique names")
    return facts


@cache
def shipped_facts() -> tuple[Fact, ...]:
    """The facts that come with the product."""
    return tuple(parse_facts(shipped_text("facts.yaml"), "catalog/facts.yaml"))
