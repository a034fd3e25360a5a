"""Sweep one service of a live node over its allocations: few cells, behind guard rails, by the agent's own hand."""
