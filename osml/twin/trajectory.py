"""Members of a twin along a record: its loads and allocations go in, latencies of every interval come out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from osml.domain import Observation
from osml.records import Record
from osml.simulator.columns import FloatArray
from osml.simulator.engine import MAX_LOAD, advance
from osml.simulator.state import Flow, Node, NodeState, initial_state
from osml.twin.ensemble import Ensemble, grants_for, node_of
from osml.twin.forward import only
from osml.twin.scenes import LATENCIES, grants_in, rate_of


def with_rates_of(ensemble: Ensemble, record: Record) -> Ensemble:
    """The same twin that also knows the loads of this record."""
    rates = dict(ensemble.rates)
    for line in record.lines:
        for service in (one for one in line.observation.services if one.kind == "lc"):
            rates[service.name] = max(rates.get(service.name, 1e-6), rate_of(service) or 0.0)
    return replace(ensemble, rates=rates)


def names_of(ensemble: Ensemble) -> list[str]:
    """Services with requests, in the order of the twin."""
    return [one.name for one in ensemble.tenants if one.kind == "lc"]


def along(ensemble: Ensemble, record: Record) -> FloatArray:
    """Logarithms of the latencies in ms, (members, intervals, services, LATENCIES); NaN where nothing was answered.

    The members' queues and caches go on from interval to interval, and begin anew after a gap. Who comes has none.
    """
    known = with_rates_of(ensemble, record)
    names = names_of(known)
    found = np.full((known.size, len(record.lines), len(names), len(LATENCIES)), np.nan)
    for member in range(known.size):
        values, node = known.values(member), node_of(known, member)
        here, state = node, initial_state(node)
        loads: dict[str, float] = {}
        for at, line in enumerate(record.lines):
            observation = line.observation
            present = {service.name for service in observation.services}
            if at in record.gaps or present != set(here.names):
                before, here = here, only(node, sorted(present))
                state = initial_state(here) if at in record.gaps else _carried(before, here, state)
            loads = _loads(observation, loads, known)
            grants = grants_for(known, values, grants_in(observation))
            state, flows = advance(here, state, [grants[name] for name in here.names], loads, observation.interval_s)
            for place, name in enumerate(names):
                if name in loads:
                    found[member, at, place] = _latencies(flows[here.names.index(name)])
    return found


def _carried(before: Node, here: Node, state: NodeState) -> NodeState:
    """The memory of a node on which others are now: who stays keeps its queue and its part of the cache."""
    fresh = initial_state(here)
    rows, occupancy = fresh.rows.copy(), fresh.occupancy_mib.copy()
    for at, name in enumerate(here.names):
        if name in before.names:
            old = before.names.index(name)
            rows[at], occupancy[at] = state.rows[old], state.occupancy_mib[old]
    return NodeState(state.time_s, rows, occupancy)


def _loads(observation: Observation, before: dict[str, float], known: Ensemble) -> dict[str, float]:
    """Shares of the highest rate of the services that are there; where nobody counted, the last ones."""
    found: dict[str, float] = {}
    for service in observation.services:
        if service.kind == "lc":
            rate = rate_of(service)
            share = before.get(service.name, 0.0) if rate is None else rate / known.rates[service.name]
            found[service.name] = min(share, MAX_LOAD)
    return found


def _latencies(flow: Flow) -> Sequence[float]:
    values = (flow.p50_ms, flow.p95_ms, flow.p99_ms, flow.mean_ms)
    return [math.nan if value is None or not value > 0 else math.log(value) for value in values]


def measured_along(record: Record, names: Sequence[str]) -> FloatArray:
    """What the record has in the same form, (intervals, services, LATENCIES)."""
    found = np.full((len(record.lines), len(names), len(LATENCIES)), np.nan)
    for at, line in enumerate(record.lines):
        for service in line.observation.services:
            if service.name in names and service.latency is not None and service.kind == "lc":
                latency = service.latency
                values = (latency.p50_ms, latency.p95_ms, latency.p99_ms, latency.mean_ms)
                found[at, names.index(service.name)] = [math.log(x) if x else math.nan for x in values]
    return found
