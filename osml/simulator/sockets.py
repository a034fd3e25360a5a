"""A virtual node of several equal sockets, each of one or more cache domains with CPUs and a cache of its own.

Memory, disk and network belong to a socket: its domains share them, other sockets do not. A tenant runs in the domains
of its CPUs. Where it has CPUs in several, its requests, threads, streams and memory are divided among them in
proportion to its CPUs. Within a socket its parts wait in one queue: an idle thread takes the next request, in whatever
domain it is. The parts in different sockets have queues of their own. That is assumed, not measured: a real service may
move a request to an idle CPU of another socket, and pays for memory of another socket, which is free here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import numpy as np

from osml.simulator import columns as c
from osml.simulator import engine
from osml.simulator.board import cpus_of, domain_count, whole_platform
from osml.simulator.columns import FloatArray
from osml.simulator.engine import Turn
from osml.simulator.models import JobModel, PlatformModel, ServiceModel
from osml.simulator.socket_flows import merged
from osml.simulator.state import Flow, Grant, Node, NodeState, initial_state

Tenant = ServiceModel | JobModel


class Part(NamedTuple):
    """One cache domain: which of the node's tenants are on it, with which shares of their CPUs, and its memory.

    `arriving`: shares of their requests, which are those of the CPUs where each part can serve as much. `speeds`:
    requests/s that each could get through in the last step, for each share of 1 of the CPUs; 0 where unknown.
    """

    tenants: tuple[int, ...]
    shares: tuple[float, ...]
    state: NodeState
    arriving: tuple[float, ...] = ()
    speeds: tuple[float, ...] = ()


@dataclass(frozen=True)
class BoardState:
    """The memory of a node of several cache domains between two steps."""

    time_s: float
    parts: tuple[Part, ...]


State = NodeState | BoardState


def initial(node: Node, sockets: int) -> State:
    """An idle node with empty caches. `node.platform` is one domain of a socket."""
    count = domain_count(node.platform, sockets)
    if count == 1:
        return initial_state(node)
    nothing = NodeState(0.0, np.empty((0, c.STATE_COLUMNS)), np.empty((0, node.platform.ways)))
    return BoardState(0.0, tuple(Part((), (), nothing) for _ in range(count)))


def advance(
    node: Node,
    sockets: int,
    state: State,
    grants: Sequence[Grant],
    loads: Mapping[str, float],
    dt: float,
    shocks: FloatArray | None = None,
) -> tuple[State, list[Flow]]:
    """As `engine.advance`, in every cache domain. `node.platform` is one, CPUs of grants are those of the node."""
    if isinstance(state, NodeState):
        return engine.advance(node, state, grants, loads, dt, shocks)
    engine.check_grants(replace(node, platform=whole_platform(node.platform, sockets)), grants)
    engine.checked_loads(node, loads)
    placed = [_placed(node, sockets, number, grants) for number in range(len(state.parts))]
    moved = _moved_backlog(state, placed, len(node.tenants))
    after = [
        Part(*there, _carried(node, part, *there, moved), there[1], _kept_speeds(part, there[0]))
        for part, there in zip(state.parts, placed, strict=True)
    ]
    for first in range(0, len(after), node.platform.domains):
        socket = slice(first, first + node.platform.domains)
        after[socket] = _in_one_queue(node, after[socket], loads)
    flows: list[list[Flow]] = [[] for _ in node.tenants]
    turns = {
        number: _turn(node, sockets, number, part, grants, loads, shocks)._replace(
            elsewhere=_elsewhere(after, number, node)
        )
        for number, part in enumerate(after)
        if part.tenants
    }
    for number, (now, found) in _advanced(turns, node.platform.domains, dt).items():
        here = after[number]
        speeds = [
            _speed(node, tenant, loads.get(node.names[tenant], 0.0) * arriving, flow, share, old)
            for tenant, arriving, flow, share, old in zip(
                here.tenants, here.arriving, found, here.shares, here.speeds, strict=True
            )
        ]
        after[number] = here._replace(state=now, speeds=tuple(speeds))
        for tenant, flow in zip(after[number].tenants, found, strict=True):
            flows[tenant].append(flow)
    return BoardState(state.time_s + dt, tuple(after)), [merged(found) for found in flows]


def _kept_speeds(part: Part, tenants: tuple[int, ...]) -> tuple[float, ...]:
    known = dict(zip(part.tenants, part.speeds, strict=True))
    return tuple(known.get(tenant, 0.0) for tenant in tenants)


def _speed(node: Node, tenant: int, arriving: float, flow: Flow, share: float, before: float) -> float:
    """Requests/s that a part could get through, for each share of 1 of the CPUs; as before where it was not asked."""
    if tenant >= len(node.services) or flow.utilisation <= 0.0:
        return before
    return arriving * node.services[tenant].max_load / flow.utilisation / share


def _in_one_queue(node: Node, parts: Sequence[Part], loads: Mapping[str, float]) -> list[Part]:
    """The parts of one socket, with what waits and what arrives divided as one queue would: an idle thread is next."""
    rows = [part.state.rows.copy() for part in parts]
    arriving = [list(part.shares) for part in parts]
    places: dict[int, list[tuple[int, int]]] = {}
    for number, part in enumerate(parts):
        for row, tenant in enumerate(part.tenants):
            places.setdefault(tenant, []).append((number, row))
    for tenant, at in places.items():
        if len(at) < 2 or tenant >= len(node.services):
            continue
        speeds = [parts[number].speeds[row] for number, row in at]
        shares = [parts[number].shares[row] for number, row in at]
        usual = max(speeds) or 1.0
        rates = [(speed or usual) * share for speed, share in zip(speeds, shares, strict=True)]
        waiting = sum(float(rows[number][row, c.S_BACKLOG]) for number, row in at)
        asked = loads.get(node.names[tenant], 0.0) * node.services[tenant].max_load
        full = max(speeds) > 0.0 and any(asked * s > rate for s, rate in zip(shares, rates, strict=True))
        for (number, row), rate in zip(at, rates, strict=True):
            rows[number][row, c.S_BACKLOG] = waiting * rate / sum(rates)
            if full:
                arriving[number][row] = sum(shares) * rate / sum(rates)
    return [
        part._replace(state=replace(part.state, rows=here), arriving=tuple(shares))
        for part, here, shares in zip(parts, rows, arriving, strict=True)
    ]


def without(state: State, tenants: Sequence[int]) -> State:
    """The state where some tenants have nothing more to do and no line in a cache: they have left."""
    if isinstance(state, NodeState):
        return _emptied(state, tenants)
    return replace(state, parts=tuple(_part_without(part, tenants) for part in state.parts))


def _part_without(part: Part, tenants: Sequence[int]) -> Part:
    here = [row for row, tenant in enumerate(part.tenants) if tenant in tenants]
    return part._replace(state=_emptied(part.state, here))


def _emptied(state: NodeState, at: Sequence[int]) -> NodeState:
    rows, occupancy = state.rows.copy(), state.occupancy_mib.copy()
    for row in at:
        rows[row, [c.S_BACKLOG, c.S_QUEUED, c.S_SCORE]] = 0.0
        occupancy[row] = 0.0
    return replace(state, rows=rows, occupancy_mib=occupancy)


def _turn(
    node: Node,
    sockets: int,
    number: int,
    part: Part,
    grants: Sequence[Grant],
    loads: Mapping[str, float],
    shocks: FloatArray | None,
) -> Turn:
    """A domain as a node of its own, with the parts of its tenants and of their grants and loads."""
    here = list(zip(part.tenants, part.shares, strict=True))
    return Turn(
        _node(node.platform, tuple(_divided(node.tenants[i], share) for i, share in here)),
        part.state,
        [_local(grants[i], share, node.platform, sockets, number) for i, share in here],
        {
            node.names[i]: loads[node.names[i]] * share
            for i, share in zip(part.tenants, part.arriving, strict=True)
            if node.names[i] in loads
        },
        None if shocks is None else shocks[list(part.tenants)],
    )


def _elsewhere(parts: Sequence[Part], number: int, node: Node) -> list[float]:
    """What each tenant of a domain gets done in the others of its socket, for each request here."""
    here, first = parts[number], number - number % node.platform.domains
    whole = dict.fromkeys(here.tenants, 0.0)
    for part in parts[first : first + node.platform.domains]:
        for tenant, share in zip(part.tenants, part.arriving, strict=True):
            if tenant in whole:
                whole[tenant] += share
    return [whole[tenant] / share - 1.0 for tenant, share in zip(here.tenants, here.arriving, strict=True)]


def _advanced(turns: Mapping[int, Turn], domains: int, dt: float) -> dict[int, tuple[NodeState, list[Flow]]]:
    """Every domain after `dt`; those of one socket, `domains` each, agree on what they share."""
    if domains == 1:
        return {number: engine.advance(*turn[:4], dt, turn.shocks) for number, turn in turns.items()}
    found: dict[int, tuple[NodeState, list[Flow]]] = {}
    for _, numbers in groupby(turns, lambda number: number // domains):
        same = list(numbers)
        found |= zip(same, engine.advance_together([turns[number] for number in same], dt), strict=True)
    return found


@lru_cache(maxsize=1024)
def _node(socket: PlatformModel, tenants: tuple[Tenant, ...]) -> Node:
    services = tuple(one for one in tenants if isinstance(one, ServiceModel))
    return Node(socket, services, tuple(one for one in tenants if isinstance(one, JobModel)))


@lru_cache(maxsize=1024)
def _divided(tenant: Tenant, share: float) -> Tenant:
    """The part of a tenant that is in one domain."""
    if share == 1.0:
        return tenant
    memory = replace(tenant.memory, footprint_mib=tenant.memory.footprint_mib * share)
    part = replace(tenant, threads=max(1, round(tenant.threads * share)), memory=memory)
    if isinstance(part, ServiceModel):
        return replace(part, queue_limit_s=part.queue_limit_s * share)
    streams = {"disk_mbps": part.disk_mbps, "network_gbps": part.network_gbps, "flows": part.flows}
    return replace(part, **{name: whole * share for name, whole in streams.items()})


def _placed(
    node: Node, sockets: int, number: int, grants: Sequence[Grant]
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Tenants that have CPUs in a domain, and the shares of their CPUs there."""
    cpus = frozenset(cpus_of(node.platform, sockets, number))
    shares = [len(grant.cpus & cpus) / len(grant.cpus) for grant in grants]
    tenants = tuple(i for i, share in enumerate(shares) if share > 0)
    return tenants, tuple(shares[i] for i in tenants)


def _local(grant: Grant, share: float, socket: PlatformModel, sockets: int, number: int) -> Grant:
    """The grant in CPU ids of the domain; limits of the whole tenant are divided as its CPUs are."""
    own = {cpu: index for index, cpu in enumerate(cpus_of(socket, sockets, number))}

    def part(limit: float | None) -> float | None:
        return None if limit is None else limit * share

    return replace(
        grant,
        cpus=frozenset(own[cpu] for cpu in grant.cpus if cpu in own),
        cpu_quota=part(grant.cpu_quota),
        # MBA is set in each cache, the software regulator counts what all threads move.
        mba_gbps=grant.mba_gbps if socket.mba else part(grant.mba_gbps),
        memory_gib=part(grant.memory_gib),
        disk_iops=part(grant.disk_iops),
        network_gbps=part(grant.network_gbps),
    )


def _moved_backlog(
    state: BoardState, parts: Sequence[tuple[tuple[int, ...], tuple[float, ...]]], n_tenants: int
) -> FloatArray:
    """Requests of each tenant that wait in domains which it has left, (tenants, 2): S_BACKLOG and S_QUEUED."""
    moved = np.zeros((n_tenants, 2))
    for part, (tenants, _) in zip(state.parts, parts, strict=True):
        for row, tenant in enumerate(part.tenants):
            if tenant not in tenants:
                moved[tenant] += part.state.rows[row, [c.S_BACKLOG, c.S_QUEUED]]
    return moved


def _carried(
    node: Node, part: Part, tenants: tuple[int, ...], shares: tuple[float, ...], moved: FloatArray
) -> NodeState:
    """The memory of a domain for the tenants that are in it now: who comes finds no line of its own in the cache."""
    if tenants == part.tenants and not moved.any():
        return part.state
    rows = c.initial_rows(len(tenants), node.platform_row)
    occupancy = np.zeros((len(tenants), node.platform.ways))
    for row, (tenant, share) in enumerate(zip(tenants, shares, strict=True)):
        if tenant in part.tenants:
            old = part.tenants.index(tenant)
            rows[row], occupancy[row] = part.state.rows[old], part.state.occupancy_mib[old]
        rows[row, [c.S_BACKLOG, c.S_QUEUED]] += moved[tenant] * share
    return NodeState(part.state.time_s, rows, occupancy)
