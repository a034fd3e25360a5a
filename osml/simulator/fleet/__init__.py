"""Thousands of virtual nodes at once. `Fleet` is the way in; `step` is compiled, `measure` says what monitors see."""

from osml.simulator.fleet.fleet import EMPTY, Fleet

__all__ = ["EMPTY", "Fleet"]
