"""The cliff shield: where a service may be sent down to, by what the models promise and by what was measured."""

from __future__ import annotations

import math

from osml.domain import Service
from osml.policies.osml.node import Cell
from osml.policies.osml.remembered.backoff import is_banned
from osml.policies.osml.remembered.service_memory import Known

BOUND, NEED = 0.5, 0.25
"""Of a unit: what is no more than this above a whole number counts as that. Cliffs are whole: one that is at most 5.9
is at 5 or below, so that bounds may be rounded; of a need only a quarter is left out."""

FULL = 0.92
"""Share of its CPUs that a service may be using after a step down."""


def units(amount: float, quantum: float, rounding: float = BOUND) -> int:
    """Whole units for so many CPUs (or ways, of quantum 1)."""
    return math.ceil(amount / quantum - rounding)


def safe(known: Known, cell: Cell, quantum: float, now_s: float, *, has_ways: bool = True) -> bool:
    """Whether a cell stays on the right side of RCliff, as far as the conformal bounds go, and missed no target lately.

    Either it has at least the bound of RCliff in both, or one core less than the bound of the OAA (from which losing a
    core is harmless by definition) with the OAA's ways: RCliff is one cell of a boundary on which cores and ways
    stand for each other.
    """
    if is_banned(known.bans, cell, known.rate, now_s):
        return False
    if cell.cores >= units(known.upper[0], quantum) and (not has_ways or cell.ways >= units(known.upper[1], 1.0)):
        return True
    harmless = cell.cores >= units(known.oaa_upper[0] - 1.0, quantum)
    return harmless and (not has_ways or cell.ways >= units(known.oaa[1], 1.0))


def cores_in_use(service: Service, quantum: float) -> int:
    """Units that a service needs for the CPU time that it was measured to use; 0 where that was not measured."""
    used = service.counters.cpu_usage_cores
    return 0 if used is None else math.ceil(used / (FULL * quantum))
