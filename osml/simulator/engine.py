"""The virtual node in Python's terms: a pure function of state, grants and loads around the compiled step."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np

from osml.simulator import columns as c
from osml.simulator.columns import FloatArray
from osml.simulator.models import PlatformModel
from osml.simulator.physics.fixed_point import Work, empty_work
from osml.simulator.physics.step import step_node
from osml.simulator.physics.together import Domain, step_domains
from osml.simulator.queueing import Response
from osml.simulator.state import Flow, Grant, Node, NodeInputError, NodeState, Plan, plan

MAX_LOAD = 2.0
_MAX_PLANS = 512
_room = threading.local()


def checked_loads(node: Node, loads: Mapping[str, object]) -> list[float]:
    """Requests/s of every tenant (0 for jobs) from fractions of max load; NodeInputError says what is wrong."""
    services = {service.name: service for service in node.services}
    rates: dict[str, float] = {}
    for name, load in loads.items():
        if name not in services:
            known = ", ".join(services) or "none"
            raise NodeInputError(f"load of '{name}': no such LC service on this node, known are {known}")
        if isinstance(load, bool) or not isinstance(load, int | float) or not math.isfinite(load):
            raise NodeInputError(f"load of '{name}' is {load!r}, expected a number from 0 to {MAX_LOAD:g}")
        if not 0 <= load <= MAX_LOAD:
            raise NodeInputError(f"load of '{name}' is {load}, expected a fraction of max load from 0 to {MAX_LOAD:g}")
        rates[name] = load * services[name].max_load
    return [rates.get(name, 0.0) for name in node.names]


def check_grants(node: Node, grants: Sequence[Grant]) -> None:
    """NodeInputError for a tenant without CPUs or ways, or with some that don't exist."""
    platform = node.platform
    if len(grants) != len(node.tenants):
        raise NodeInputError(f"{len(grants)} grants for {len(node.tenants)} tenants, expected one for each")
    for name, grant in zip(node.names, grants, strict=True):
        if not grant.cpus:
            raise NodeInputError(f"'{name}' has zero cores, it needs at least one")
        if min(grant.cpus) < 0 or max(grant.cpus) >= platform.cpus:
            raise NodeInputError(f"'{name}' has CPU {max(grant.cpus)}, {platform.id} has CPUs 0-{platform.cpus - 1}")
        if not 0 < grant.way_mask < 1 << platform.ways:
            raise NodeInputError(f"'{name}' has way mask {grant.way_mask:x}, expected 1 to {platform.ways} ways")
        if grant.cpu_quota is not None and not grant.cpu_quota > 0:
            raise NodeInputError(f"'{name}' has a CPU quota of {grant.cpu_quota}, expected CPUs above 0")


def plan_of(node: Node, grants: Sequence[Grant]) -> Plan:
    """The grants for the compiled step; NodeInputError on impossible ones. Known ones come from a cache."""
    key = tuple(grants)
    known = node.plans.get(key)
    if known is None:
        check_grants(node, grants)
        if len(node.plans) >= _MAX_PLANS:
            node.plans.clear()
        known = node.plans[key] = plan(node.platform, node.platform_row, key)
    return known


def room_for(node: Node) -> Work:
    """Scratch room of this thread for a node of this size."""
    size = (len(node.tenants), node.platform.ways, node.platform.cpus)
    if getattr(_room, "size", None) != size:
        _room.size, _room.work = size, empty_work(*size)
    return cast(Work, _room.work)


def _response(v: list[float], cv2: float) -> Response:
    return Response(
        v[c.F_SERVICE_MS], cv2, v[c.F_WAIT_PROBABILITY], v[c.F_WAIT_MS], v[c.F_DELAY_PROBABILITY], v[c.F_DELAY_MS]
    )


def flow_of(row: FloatArray, dt: float, cv2: float | None) -> Flow:
    """A row of flows as a Flow; `cv2` is that of the service, None for a job."""
    v: list[float] = row.tolist()
    answered = cv2 is not None and v[c.F_COMPLETED] > 0
    return Flow(
        dt=dt,
        requests=v[c.F_COMPLETED],
        mean_ms=v[c.F_MEAN_MS] if answered else None,
        p50_ms=v[c.F_P50_MS] if answered else None,
        p95_ms=v[c.F_P95_MS] if answered else None,
        p99_ms=v[c.F_P99_MS] if answered else None,
        cpu_s=v[c.F_CPU_S],
        instructions=v[c.F_INSTRUCTIONS],
        cycles=v[c.F_CYCLES],
        llc_accesses=v[c.F_LLC_ACCESSES],
        llc_misses=v[c.F_LLC_MISSES],
        memory_bytes=v[c.F_MEMORY_BYTES],
        occupancy_mib=v[c.F_OCCUPANCY_MIB],
        frequency_ghz=v[c.F_CLOCK],
        throttled_s=v[c.F_THROTTLED_S],
        utilisation=v[c.F_UTILISATION],
        service_ms=None if cv2 is None else v[c.F_SERVICE_MS],
        disk_ios=v[c.F_DISK_IOS],
        network_bytes=v[c.F_NETWORK_BYTES],
        resident_mib=v[c.F_RESIDENT_MIB],
        response=_response(v, cv2) if cv2 is not None and answered else None,
        backlog_ms=(v[c.F_BACKLOG_MS_BEFORE], v[c.F_BACKLOG_MS_AFTER]),
        backlog_share=v[c.F_BACKLOG_SHARE],
    )


def flows_of(node: Node, rows: FloatArray, dt: float) -> list[Flow]:
    """(tenants, FLOW_COLUMNS) as one Flow a tenant."""
    services = node.services
    return [flow_of(row, dt, services[i].cv2 if i < len(services) else None) for i, row in enumerate(rows)]


def advance(
    node: Node,
    state: NodeState,
    grants: Sequence[Grant],
    loads: Mapping[str, float],
    dt: float,
    shocks: FloatArray | None = None,
) -> tuple[NodeState, list[Flow]]:
    """Let `dt` seconds pass. Loads are fractions of max load; a service that isn't named has none.

    `shocks`, a standard normal number for each tenant, move the queues as chance does; without, flows are those of the
    mean.

    Returns the new state and what each tenant did, without noise. Raises NodeInputError on impossible input.
    """
    here = _domain(Turn(node, state, grants, loads, shocks), dt)
    step_node(*here[:7], dt, *here[7:], room_for(node))
    return NodeState(state.time_s + dt, here.state, here.occupancy), flows_of(node, here.flows, dt)


class Turn(NamedTuple):
    """What `advance` takes of one node, or of one cache domain."""

    node: Node
    state: NodeState
    grants: Sequence[Grant]
    loads: Mapping[str, float]
    shocks: FloatArray | None = None
    elsewhere: Sequence[float] | None = None  # T_ELSEWHERE of each tenant


def advance_together(turns: Sequence[Turn], dt: float) -> list[tuple[NodeState, list[Flow]]]:
    """As `advance`, for cache domains of one socket, which share its memory, disk and network."""
    domains = [_domain(turn, dt) for turn in turns]
    model = turns[0].node.platform
    step_domains(_socket_row(model), model.link_gbps, domains, dt)
    return [
        (NodeState(turn.state.time_s + dt, here.state, here.occupancy), flows_of(turn.node, here.flows, dt))
        for turn, here in zip(turns, domains, strict=True)
    ]


@lru_cache(maxsize=64)
def _socket_row(model: PlatformModel) -> FloatArray:
    """The platform row whose memory no link narrows."""
    return c.platform_row(replace(model, link_gbps=math.inf))


def _domain(turn: Turn, dt: float) -> Domain:
    """The arguments of the compiled step, with copies of what it writes to."""
    if not (math.isfinite(dt) and dt > 0):
        raise NodeInputError(f"dt is {dt}, expected a number of seconds above 0")
    node, state = turn.node, turn.state
    given = plan_of(node, turn.grants)
    arrivals = np.array(checked_loads(node, turn.loads))
    rows, occupancy = state.rows.copy(), state.occupancy_mib.copy()
    rows[:, c.S_SHOCK] = math.nan if turn.shocks is None else turn.shocks
    flows = np.empty((len(rows), c.FLOW_COLUMNS))
    tenants = node.tenant_rows
    if turn.elsewhere is not None:
        tenants = tenants.copy()
        tenants[:, c.T_ELSEWHERE] = turn.elsewhere
    return Domain(
        node.platform_row, tenants, node.tables, given.limits, given.users, given.masks, arrivals, rows,
        occupancy, flows,
    )  # fmt: skip
