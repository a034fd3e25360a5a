"""Numbers of a config within what makes sense."""

from __future__ import annotations

from collections.abc import Mapping

from osml.base.failure import InputError


def check_limits(limits: Mapping[str, tuple[float, float, float]]) -> None:
    """`limits` has (value, least, most) by field. InputError names the first field that is outside, or NaN."""
    for name, (value, low, high) in limits.items():
        if not low <= value <= high:  # NaN, too
            raise InputError(f"{name} is {value}, expected {low:g} to {high:g}")
