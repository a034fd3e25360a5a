"""One step of several cache domains that share a socket's memory, disk and network; each has its CPUs and its cache.

The equations are those of one node (step.py). What the domains share agrees with all of them: the fixed points of their
CPU times, clocks and caches are one, around the same memory latency.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from osml.simulator.columns import P_BANDWIDTH, P_LATENCY, P_POWER, P_RISE, FloatArray, IntArray
from osml.simulator.physics.fixed_point import X_SEEN, X_WANTED, answer, ask, empty_work, prepare
from osml.simulator.physics.memory import TRAFFIC_COLUMNS, settle_domains
from osml.simulator.physics.stations import V_LIMIT, VISIT_ROWS, visit
from osml.simulator.physics.step import begin, finish


class Domain(NamedTuple):
    """A cache domain: the arguments of `step_node`. `state`, `occupancy` and `flows` are written to."""

    platform: FloatArray
    tenants: FloatArray
    tables: FloatArray
    grants: FloatArray
    users: IntArray
    masks: IntArray
    arrivals: FloatArray
    state: FloatArray
    occupancy: FloatArray
    flows: FloatArray


def step_domains(socket: FloatArray, link_gbps: float, domains: Sequence[Domain], dt: float) -> int:
    """Let `dt` seconds pass. `socket` is the platform row with the memory, disk and network that all domains share.

    Returns the rounds of the fixed point.
    """
    first = np.cumsum([0, *(len(one.tenants) for one in domains)])  # (domains + 1,)
    spans = [slice(low, high) for low, high in pairwise(first)]
    total = int(first[-1])
    traffic, seen, split = np.zeros((total, TRAFFIC_COLUMNS)), np.zeros(total), np.zeros((3, total))
    works = [empty_work(len(one.tenants), one.occupancy.shape[1], len(one.users)) for one in domains]
    works = [work._replace(traffic=traffic[span]) for work, span in zip(works, spans, strict=True)]
    pairs = list(zip(domains, works, spans, strict=True))
    for one, work, _ in pairs:
        begin(one.platform, one.tenants, one.users, one.arrivals, dt, one.state, one.occupancy, work)
    visits = np.zeros((VISIT_ROWS, total))
    visit(
        socket,
        np.concatenate([one.tenants for one in domains]),
        np.concatenate([one.grants for one in domains]),
        np.concatenate([one.arrivals for one in domains]),
        np.concatenate([work.points[X_WANTED] for work in works]),
        visits,
    )
    for one, work, span in pairs:
        work.visits[:] = visits[:, span]
        np.minimum(work.points[X_WANTED], work.visits[V_LIMIT], out=work.points[X_WANTED])
        prepare(one.platform, one.tenants, one.grants, one.state, work)
    memory = float(socket[P_BANDWIDTH]), float(socket[P_LATENCY]), float(socket[P_RISE]), float(socket[P_POWER])
    rounds, agreed = 0, False
    while not agreed:
        rounds += 1
        devices = np.array([ask(one.platform, one.tenants, one.grants, one.state, work) for one, work, _ in pairs])
        settle_domains(traffic, first, link_gbps, *memory, devices, seen, split)
        agreed = True
        for one, work, span in pairs:
            work.points[X_SEEN] = seen[span]
            agreed &= answer(one.platform, one.tenants, one.state, work, rounds)
    for one, work, _ in pairs:
        finish(
            one.platform, one.tenants, one.tables, one.grants, one.masks, one.arrivals, dt, one.state, one.occupancy,
            one.flows, work,
        )  # fmt: skip
    return rounds
