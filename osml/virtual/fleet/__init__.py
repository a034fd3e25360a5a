"""Thousands of virtual nodes at once. `Fleet` is the way in; `step` is compiled, `measure` and `noise` show what it did."""

from osml.virtual.fleet.fleet import EMPTY, Fleet

__all__ = ["EMPTY", "Fleet"]
