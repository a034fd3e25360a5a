"""The papers' numbers that the reports put beside ours."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any, cast

import yaml


@cache
def published() -> dict[str, Any]:
    """`published.yaml` of this package: numbers by paper, each with the place where it stands."""
    text = resources.files("osml.lab.bench").joinpath("published.yaml").read_text("utf-8")
    return cast("dict[str, Any]", yaml.safe_load(text))


def ratio(ours: float | None, theirs: float | None) -> str:
    """Ours over theirs as text."""
    return "-" if ours is None or not theirs else f"{ours / theirs:.2f}"
