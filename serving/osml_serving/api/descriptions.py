"""The meaning of each property in the OpenAPI document, from descriptions.yaml, with its range."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]
FILE = Path(__file__).with_name("descriptions.yaml")
HUGE = 2**63 - 1  # what a 64-bit integer holds: no limit in the sense of a reader


@cache
def descriptions() -> dict[str, dict[str, str]]:
    """Sentences by type and property; those below `any` hold for every type."""
    loaded: dict[str, dict[str, str]] = yaml.safe_load(FILE.read_text("utf-8"))
    return loaded


def describe(schemas: Json) -> None:
    """Add the description of each property to the schemas of the document."""
    known = descriptions()
    for name, schema in schemas.items():
        for field, part in schema.get("properties", {}).items():
            text = known.get(name, {}).get(field) or known["any"].get(field)
            if text is not None:
                part["description"] = " ".join([text, *_ranges(part)])


def _ranges(part: Json) -> list[str]:
    """The range of a number, in words; of the number in a value that may be null, too."""
    low = part.get("minimum", part.get("exclusiveMinimum"))
    high = part.get("maximum")
    bounds: list[str] = []
    if low is not None:
        bounds.append(f"{'above' if 'exclusiveMinimum' in part else 'from'} {low}")
    if high is not None and high != HUGE:
        bounds.append(f"to {high}")
    own = [f"Range: {' '.join(bounds)}."] if bounds else []
    return own + [text for inner in part.get("anyOf", []) for text in _ranges(inner)]
