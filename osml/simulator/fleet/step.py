"""One interval of many nodes, compiled: counts become CPUs and ways, each node steps, its monitor reads."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osml.base.jit import lean
from osml.simulator import columns as c
from osml.simulator.columns import FloatArray, IntArray
from osml.simulator.fleet.measure import K_LC, K_MAX_LOAD, MEASURED_COLUMNS, measure_tenant, node_entropy
from osml.simulator.fleet.noise import Streams, normal
from osml.simulator.physics.fixed_point import Work, empty_work
from osml.simulator.physics.step import step_node


class Terms(NamedTuple):
    """What all nodes have in common: platform row, order in which CPUs are handed out, and one row a kind of tenant.

    `rows` (kinds, TENANT_COLUMNS), `kinds` (kinds, KIND_COLUMNS), `tables` (tables, ...) by T_TABLE.
    """

    platform: FloatArray
    order: IntArray
    rows: FloatArray
    kinds: FloatArray
    tables: FloatArray


class Nodes(NamedTuple):
    """Everything that differs from node to node; the first axis is the node, the second its places."""

    present: IntArray  # (nodes, places) kind of the tenant, -1 where nobody is
    cores: IntArray  # (nodes, places) of the services; jobs share what is left
    ways: IntArray  # (nodes, places)
    limits: FloatArray  # (nodes, places, GRANT_COLUMNS)
    state: FloatArray  # (nodes, places, STATE_COLUMNS)
    occupancy: FloatArray  # (nodes, places, ways of the platform) in MiB
    flows: FloatArray  # (nodes, places, FLOW_COLUMNS) of the last interval, without noise
    measured: FloatArray  # (nodes, places, MEASURED_COLUMNS) of the last interval
    entropy: FloatArray  # (nodes, ENTROPY_COLUMNS) of the last interval
    streams: Streams  # (nodes,)


class Room(NamedTuple):
    """Scratch for nodes with the same number of tenants, who stand side by side in it."""

    places: IntArray
    rows: FloatArray
    limits: FloatArray
    arrivals: FloatArray
    users: IntArray
    masks: IntArray
    state: FloatArray
    occupancy: FloatArray
    flows: FloatArray
    work: Work


def room_for(tenants: int, cpus: int, ways: int) -> Room:
    """Scratch for nodes with so many tenants."""
    n = tenants
    return Room(
        places=np.zeros(n, np.int64),
        rows=np.zeros((n, c.TENANT_COLUMNS)),
        limits=np.zeros((n, c.GRANT_COLUMNS)),
        arrivals=np.zeros(n),
        users=np.zeros(cpus, np.int64),
        masks=np.zeros(n, np.int64),
        state=np.zeros((n, c.STATE_COLUMNS)),
        occupancy=np.zeros((n, ways)),
        flows=np.zeros((n, c.FLOW_COLUMNS)),
        work=empty_work(n, ways, cpus),
    )


@lean
def misfit(which: IntArray, terms: Terms, nodes: Nodes) -> int:
    """The first of the nodes `which` whose counts cannot be laid out; -1 where all can."""
    cpus, ways = len(terms.order), int(terms.platform[c.P_WAYS])
    for at in range(len(which)):
        node = which[at]
        n_cores = n_ways = jobs = 0
        for place in range(nodes.present.shape[1]):
            kind = nodes.present[node, place]
            if kind < 0:
                continue
            if terms.kinds[kind, K_LC] > 0.0:
                if nodes.cores[node, place] < 1 or nodes.ways[node, place] < 1:
                    return node
                n_cores += nodes.cores[node, place]
                n_ways += nodes.ways[node, place]
            else:
                jobs = 1
        if n_cores + jobs > cpus or n_ways + jobs > ways:
            return node
    return -1


@lean
def _lay_out(node: int, terms: Terms, nodes: Nodes, room: Room) -> None:
    """Services get CPUs and neighbouring ways in the order of their places; all jobs share the rest."""
    users, masks, order = room.users, room.masks, terms.order
    ways = int(terms.platform[c.P_WAYS])
    for k in range(len(users)):
        users[k] = 0
    cpu = way = jobs = 0
    for i in range(len(room.rows)):
        place = room.places[i]
        if terms.kinds[nodes.present[node, place], K_LC] == 0.0:
            jobs |= 1 << i
            continue
        for _ in range(nodes.cores[node, place]):
            users[order[cpu]] = 1 << i
            cpu += 1
        width = nodes.ways[node, place]
        masks[i] = ((1 << width) - 1) << way
        way += width
    if jobs:
        for k in range(cpu, len(order)):
            users[order[k]] = jobs
        rest = ((1 << (ways - way)) - 1) << way
        for i in range(len(room.rows)):
            if jobs >> i & 1:
                masks[i] = rest


@lean
def _gather(node: int, terms: Terms, nodes: Nodes, loads: FloatArray, room: Room) -> None:
    """The tenants of a node, wherever their places are, into the rows of `room`: services, then jobs, as the engine.

    Loops, because slices cost more.
    """
    i = 0
    for wanted in (1.0, 0.0):
        for place in range(nodes.present.shape[1]):
            kind = nodes.present[node, place]
            if kind < 0 or terms.kinds[kind, K_LC] != wanted:
                continue
            room.places[i] = place
            for k in range(c.TENANT_COLUMNS):
                room.rows[i, k] = terms.rows[kind, k]
            for k in range(c.GRANT_COLUMNS):
                room.limits[i, k] = nodes.limits[node, place, k]
            for k in range(c.STATE_COLUMNS):
                room.state[i, k] = nodes.state[node, place, k]
            for k in range(nodes.occupancy.shape[2]):
                room.occupancy[i, k] = nodes.occupancy[node, place, k]
            room.arrivals[i] = loads[node, place] * terms.kinds[kind, K_MAX_LOAD] if wanted > 0.0 else 0.0
            i += 1


@lean
def _scatter(node: int, nodes: Nodes, room: Room) -> None:
    """The rows of `room` back to their places."""
    for i in range(len(room.rows)):
        place = room.places[i]
        for k in range(c.STATE_COLUMNS):
            nodes.state[node, place, k] = room.state[i, k]
        for k in range(nodes.occupancy.shape[2]):
            nodes.occupancy[node, place, k] = room.occupancy[i, k]
        for k in range(c.FLOW_COLUMNS):
            nodes.flows[node, place, k] = room.flows[i, k]


@lean
def forget(node: int, nodes: Nodes) -> None:
    """What was measured where nobody is (any more)."""
    for place in range(nodes.present.shape[1]):
        if nodes.present[node, place] >= 0:
            continue
        for k in range(MEASURED_COLUMNS):
            nodes.measured[node, place, k] = math.nan
        for k in range(c.FLOW_COLUMNS):
            nodes.flows[node, place, k] = 0.0


@lean
def step_nodes(
    which: IntArray,
    terms: Terms,
    nodes: Nodes,
    loads: FloatArray,
    dt: float,
    noise: bool,
    importance: float,
    room: Room,
) -> None:
    """Let `dt` seconds pass on the nodes `which`, all with as many tenants as `room` has rows.

    `loads` (nodes, places) are fractions of max load. State, flows, measurements and entropy of these nodes move on.
    """
    for at in range(len(which)):
        node = which[at]
        forget(node, nodes)
        if len(room.rows) > 0:
            _gather(node, terms, nodes, loads, room)
            _lay_out(node, terms, nodes, room)
            for i in range(len(room.rows)):
                room.state[i, c.S_SHOCK] = normal(nodes.streams, node) if noise else math.nan
            step_node(
                terms.platform,
                room.rows,
                terms.tables,
                room.limits,
                room.users,
                room.masks,
                room.arrivals,
                dt,
                room.state,
                room.occupancy,
                room.flows,
                room.work,
            )
            _scatter(node, nodes, room)
        for i in range(len(room.rows)):
            is_service = room.rows[i, c.T_LC] > 0.0
            measure_tenant(room.flows, i, is_service, dt, noise, nodes.streams, nodes.measured, node, room.places[i])
        node_entropy(terms.kinds, nodes.present, nodes.measured, importance, node, nodes.entropy)
