"""Counts -> CPU ids and way masks: who gets which CPU and which bits, with the fewest of them changing hands."""

from osml.layout.arrange import Layout, LayoutError, assign, lay_out

__all__ = ["Layout", "LayoutError", "assign", "lay_out"]
