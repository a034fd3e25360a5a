"""What the papers say of their policies: catalog/policy_facts.yaml, read and checked."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import msgspec

from osml.simulator.catalogs import CatalogError, entries_of, shipped_text

UNITS = (
    *("actions", "allocations", "cores", "cores_ways", "cores_ways_entropy", "cores_ways_ghz", "loads", "ms"),
    *("ms_entropy", "none", "order", "pct", "pct_points", "pct_s", "points", "ratio", "s", "s_actions", "samples"),
    *("share", "text", "times"),
)
"""Units of values; `none` has no unit, `order` says which policy is better, `text` is a sentence."""


class PolicyFact(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One result of a paper. `value` is a number, list, mapping by name or text; null where only a picture has it.

    `not_compared` says why no run of ours is held against it; empty where `osml lab bench papers` does that.
    """

    id: str
    source: str
    quantity: str
    unit: str
    value: Any
    conditions: dict[str, Any]
    sure: Literal["printed", "text", "figure", "code"]
    note: str = ""
    not_compared: str = ""


class PolicyFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All facts, and the machines that `setup` in their conditions names."""

    setups: dict[str, dict[str, Any]]
    facts: list[PolicyFact]


def parse_policy_facts(text: str, file: str) -> PolicyFacts:
    """All facts of a file; CatalogError says in one sentence what is wrong with it."""
    found = entries_of(text, file, PolicyFacts)
    ids: set[str] = set()
    for fact in found.facts:
        where = f"{file}: {fact.id}"
        if fact.id in ids:
            raise CatalogError(f"{where}: two facts have this id, expected unique ones")
        ids.add(fact.id)
        if not fact.id or not fact.source or not fact.quantity:
            raise CatalogError(f"{where}: id, source and quantity must not be empty")
        if fact.unit not in UNITS:
            raise CatalogError(f"{where}: unit '{fact.unit}' is unknown, expected one of {', '.join(UNITS)}")
        if fact.value is None and fact.sure != "figure":
            raise CatalogError(f"{where}: the value is null, expected so only for what is in a figure")
        setup = fact.conditions.get("setup")
        if setup is not None and setup not in found.setups:
            raise CatalogError(f"{where}: setup '{setup}' is unknown, expected one of {', '.join(found.setups)}")
    return found


@cache
def shipped_policy_facts() -> PolicyFacts:
    """The facts that come with the product."""
    return parse_policy_facts(shipped_text("policy_facts.yaml"), "catalog/policy_facts.yaml")


@cache
def _values() -> dict[str, Any]:
    return {fact.id: fact.value for fact in shipped_policy_facts().facts}


def published_value(fact: str) -> Any:
    """What the paper says in the fact of this id. Raises KeyError for an unknown one."""
    return _values()[fact]
