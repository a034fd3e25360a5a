"""What really is on a hidden node: its own world in a scene, and what an edit really changes over its record."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from osml.domain import Assignment
from osml.lab.twins.hidden import Hidden, loads_then
from osml.records import Record, only_watched
from osml.simulator import columns as c
from osml.simulator.closed_loop import grant_of
from osml.simulator.engine import plan_of, room_for
from osml.simulator.physics.step import step_node
from osml.simulator.state import Node, initial_state
from osml.twin.edits import Edit
from osml.twin.scenes import Scene
from osml.twin.world import World, tail_ms

TRUE_MEMBER = 2**31 - 1
"""Number of the hidden node where an edit differs from member to member: none of a twin's has it."""


def mean_node(one: Hidden) -> Node:
    """The node with the mean of its drifting work."""
    if one.drift is None:
        return one.node
    usual = 1.0 / (1.0 + one.drift.amplitude)
    services = tuple(replace(s, instructions=s.instructions * usual) for s in one.node.services)
    return Node(one.node.platform, services, one.node.jobs)


def world_in(one: Hidden, node: Node, given: dict[str, Assignment], rates: dict[str, float]) -> World:
    """The hidden node with these assignments and requests/s."""
    watched = dict(zip(one.node.names, one.grants(), strict=True))
    grants = {n: grant_of(given[n], node.platform) if n in given else watched[n] for n in node.names}
    return World(node, grants, rates, {service.name: service.percentile for service in node.services})


def true_world(one: Hidden, scene: Scene) -> World:
    """The hidden node as it was in a scene of its record, with the mean of its work."""
    return world_in(one, mean_node(one), dict(scene.grants), dict(scene.rates))


def true_outcomes(one: Hidden, record: Record, scenes: Sequence[Scene], edits: Sequence[Edit]) -> dict[str, float]:
    """What the hidden node shows over the scenes of its record after edits: with its drift, its chance, its loads.

    Latency in ms of services (mean of logarithms within a scene, mean over scenes by length), and instructions/s of
    jobs. All intervals up to the last scene are run.
    """
    node = _edited(one, record, 0, edits).node
    names = node.names
    state = initial_state(node)
    rows, occupancy = state.rows.copy(), state.occupancy_mib.copy()
    flows = np.empty((len(names), c.FLOW_COLUMNS))
    place = {at: number for number, scene in enumerate(scenes) for at in scene.intervals}
    logs: list[dict[str, list[float]]] = [{name: [] for name in names} for _ in scenes]
    shaken = np.random.default_rng([one.seed, 1])
    for at in range(max(place) + 1):
        world = _edited(one, record, at, edits)
        tenants = node.tenant_rows.copy()
        factors = {} if one.drift is None else dict(
            zip((s.name for s in one.node.services), one.drift.factors(float(at)), strict=True)
        )  # fmt: skip
        for i, name in enumerate(names):
            tenants[i, c.T_INSTRUCTIONS] *= factors.get(name, 1.0)
        shocks = dict(zip(one.node.names, shaken.standard_normal(len(one.node.names)).tolist(), strict=True))
        rows[:, c.S_SHOCK] = [shocks.get(name, 0.0) for name in names]
        plan = plan_of(node, [world.grants[name] for name in names])
        step_node(
            node.platform_row, tenants, node.tables, plan.limits, plan.users, plan.masks,
            np.array([world.rates.get(name, 0.0) for name in names]), 1.0, rows, occupancy, flows, room_for(node),
        )  # fmt: skip
        if at in place:
            for i, name in enumerate(names):
                value = (
                    tail_ms(flows[i], world.percentiles.get(name, "p99"))
                    if i < len(node.services)
                    else float(flows[i, c.F_INSTRUCTIONS])
                )
                logs[place[at]][name].append(math.log(max(value, 1e-9)))
    found: dict[str, float] = {}
    for name in names:
        known = [(len(one_scene[name]), math.exp(statistics.fmean(one_scene[name]))) for one_scene in logs]
        found[name] = sum(n * value for n, value in known) / sum(n for n, _ in known)
    return found


def _rates(one: Hidden, at: int) -> dict[str, float]:
    """Requests/s of an interval, as they really were."""
    loads = loads_then(one, float(at))
    return {service.name: loads[service.name] * service.max_load for service in one.node.services}


def _edited(one: Hidden, record: Record, at: int, edits: Sequence[Edit]) -> World:
    observation = record.lines[at].observation
    given = {} if only_watched(observation) else {a.service: a for a in observation.assignments}
    world = world_in(one, one.node, given, _rates(one, at))
    for edit in edits:
        world = edit(world, TRUE_MEMBER)
    return world
