"""A virtual node of several equal sockets: one engine for each, with its own CPUs, cache and memory bandwidth.

A tenant runs on the sockets of its CPUs. Where it has CPUs on several, its requests, threads and memory are divided
among them in proportion to its CPUs, and each part is a queue of its own. That is assumed, not measured: a real service
may move a request to an idle CPU of another socket, and pays for memory of another socket, which is free here. Disk and
network belong to each socket.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from osml.simulator import columns as c
from osml.simulator import engine
from osml.simulator.board import cpus_of, whole_platform
from osml.simulator.columns import FloatArray
from osml.simulator.models import JobModel, PlatformModel, ServiceModel
from osml.simulator.socket_flows import merged
from osml.simulator.state import Flow, Grant, Node, NodeState, initial_state

Tenant = ServiceModel | JobModel


class Part(NamedTuple):
    """One socket: which of the node's tenants are on it, with which shares of their CPUs, and its memory."""

    tenants: tuple[int, ...]
    shares: tuple[float, ...]
    state: NodeState


@dataclass(frozen=True)
class BoardState:
    """The memory of a node of several sockets between two steps."""

    time_s: float
    parts: tuple[Part, ...]


State = NodeState | BoardState


def initial(node: Node, sockets: int) -> State:
    """An idle node with empty caches. `node.platform` is one socket."""
    if sockets == 1:
        return initial_state(node)
    whole_platform(node.platform, sockets)
    nothing = NodeState(0.0, np.empty((0, c.STATE_COLUMNS)), np.empty((0, node.platform.ways)))
    return BoardState(0.0, tuple(Part((), (), nothing) for _ in range(sockets)))


def advance(
    node: Node,
    sockets: int,
    state: State,
    grants: Sequence[Grant],
    loads: Mapping[str, float],
    dt: float,
    shocks: FloatArray | None = None,
) -> tuple[State, list[Flow]]:
    """As `engine.advance`, on every socket. `node.platform` is one socket, CPUs of grants are those of the node."""
    if isinstance(state, NodeState):
        return engine.advance(node, state, grants, loads, dt, shocks)
    engine.check_grants(replace(node, platform=whole_platform(node.platform, sockets)), grants)
    engine.checked_loads(node, loads)
    parts = [_placed(node, sockets, number, grants) for number in range(sockets)]
    moved = _moved_backlog(state, parts, len(node.tenants))
    flows: list[list[Flow]] = [[] for _ in node.tenants]
    after: list[Part] = []
    for number, (tenants, shares) in enumerate(parts):
        here = list(zip(tenants, shares, strict=True))
        now = _carried(node, state.parts[number], tenants, shares, moved)
        if here:
            part = _node(node.platform, tuple(_divided(node.tenants[i], share) for i, share in here))
            own = [_local(grants[i], share, node.platform, sockets, number) for i, share in here]
            given = {node.names[i]: loads[node.names[i]] * share for i, share in here if node.names[i] in loads}
            now, found = engine.advance(part, now, own, given, dt, None if shocks is None else shocks[list(tenants)])
            for tenant, flow in zip(tenants, found, strict=True):
                flows[tenant].append(flow)
        after.append(Part(tenants, shares, now))
    return BoardState(state.time_s + dt, tuple(after)), [merged(found) for found in flows]


@lru_cache(maxsize=1024)
def _node(socket: PlatformModel, tenants: tuple[Tenant, ...]) -> Node:
    services = tuple(one for one in tenants if isinstance(one, ServiceModel))
    return Node(socket, services, tuple(one for one in tenants if isinstance(one, JobModel)))


@lru_cache(maxsize=1024)
def _divided(tenant: Tenant, share: float) -> Tenant:
    """The part of a tenant that is on one socket."""
    if share == 1.0:
        return tenant
    memory = replace(tenant.memory, footprint_mib=tenant.memory.footprint_mib * share)
    return replace(tenant, threads=max(1, round(tenant.threads * share)), memory=memory)


def _placed(
    node: Node, sockets: int, number: int, grants: Sequence[Grant]
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Tenants that have CPUs on a socket, and the shares of their CPUs there."""
    cpus = frozenset(cpus_of(node.platform, sockets, number))
    shares = [len(grant.cpus & cpus) / len(grant.cpus) for grant in grants]
    tenants = tuple(i for i, share in enumerate(shares) if share > 0)
    return tenants, tuple(shares[i] for i in tenants)


def _local(grant: Grant, share: float, socket: PlatformModel, sockets: int, number: int) -> Grant:
    """The grant in CPU ids of the socket; a quota is divided as the CPUs are."""
    own = {cpu: index for index, cpu in enumerate(cpus_of(socket, sockets, number))}
    quota = None if grant.cpu_quota is None else grant.cpu_quota * share
    return replace(grant, cpus=frozenset(own[cpu] for cpu in grant.cpus if cpu in own), cpu_quota=quota)


def _moved_backlog(
    state: BoardState, parts: Sequence[tuple[tuple[int, ...], tuple[float, ...]]], n_tenants: int
) -> FloatArray:
    """What waits of each tenant on sockets which it has left, (tenants, 3): S_BACKLOG, S_QUEUED and S_SPREAD."""
    moved = np.zeros((n_tenants, 3))
    for part, (tenants, _) in zip(state.parts, parts, strict=True):
        for row, tenant in enumerate(part.tenants):
            if tenant not in tenants:
                moved[tenant] += part.state.rows[row, [c.S_BACKLOG, c.S_QUEUED, c.S_SPREAD]]
    return moved


def _carried(
    node: Node, part: Part, tenants: tuple[int, ...], shares: tuple[float, ...], moved: FloatArray
) -> NodeState:
    """The memory of a socket for the tenants that are on it now: who comes finds no line of its own in the cache."""
    if tenants == part.tenants and not moved.any():
        return part.state
    rows = c.initial_rows(len(tenants), node.platform_row)
    occupancy = np.zeros((len(tenants), node.platform.ways))
    for row, (tenant, share) in enumerate(zip(tenants, shares, strict=True)):
        if tenant in part.tenants:
            old = part.tenants.index(tenant)
            rows[row], occupancy[row] = part.state.rows[old], part.state.occupancy_mib[old]
        rows[row, [c.S_BACKLOG, c.S_QUEUED, c.S_SPREAD]] += moved[tenant] * (share, share, share * share)
    return NodeState(part.state.time_s, rows, occupancy)
