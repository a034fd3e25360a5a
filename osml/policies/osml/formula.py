"""Needs without any model: square-root staffing and equal ways."""

from __future__ import annotations

from osml.allocation.staffing import staffed_cpus, used_cpus
from osml.domain import Service
from osml.policies.osml.answers.forecast import NO_MODEL, Answer
from osml.policies.osml.node import Cell, Node


def staffed(node: Node, service: Service, held: Cell | None, quantum: float) -> Answer:
    """A need of cores by square-root staffing for the CPUs in use, and of an equal part of the ways.

    Where CPU time is not measured: what it has, else an equal part of the cores.
    """
    used, count = used_cpus(service), len(node.lc)
    ways = float(max(node.for_lc.ways // count, 1)) if node.has_ways else 0.0
    if used is not None:
        cores = staffed_cpus(used)
    else:
        units = held.cores if held is not None else max(1, node.for_lc.cores // count)
        cores = units * quantum
    point = (cores, ways)
    above = (cores + 1.0, ways)  # the guard lets a core below the bound of the OAA pass
    return Answer(service.name, NO_MODEL, False, (used or 0.0, 0.0), point, point, above, None)
