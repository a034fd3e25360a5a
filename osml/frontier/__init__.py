"""Where a service falls: RCliff, OAA and B-points out of a latency surface (OSML sections 3.1, 4.1, 4.2). Pure numpy.

A surface holds a latency in ms per allocation, shape (..., cores, ways); entry [i, j] is that of i + 1 cores and j + 1
ways. Leading axes are surfaces that are labelled in one call. NaN was not measured, infinite never answers.
"""

from osml.frontier.b_points import DIRECTIONS, SLOWDOWNS, b_points
from osml.frontier.grid import FloatArray, IntArray
from osml.frontier.labels import KINDS, Labels, cliff_kind, label, optimal_area, resource_cliff, steepest_losses
from osml.frontier.reference import reference

__all__ = [
    "DIRECTIONS", "KINDS", "SLOWDOWNS", "FloatArray", "IntArray", "Labels", "b_points", "cliff_kind", "label",
    "optimal_area", "reference", "resource_cliff", "steepest_losses",
]  # fmt: skip
