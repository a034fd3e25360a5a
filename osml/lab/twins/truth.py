"""What really is on a hidden node: its own world in a scene of its record."""

from __future__ import annotations

from dataclasses import replace

from osml.domain import Assignment
from osml.lab.twins.hidden import Hidden
from osml.simulator.closed_loop import grant_of
from osml.simulator.state import Node
from osml.twin.scenes import Scene
from osml.twin.world import World


def mean_node(one: Hidden) -> Node:
    """The node with the mean of its drifting work."""
    if one.drift is None:
        return one.node
    usual = 1.0 / (1.0 + one.drift.amplitude)
    services = tuple(replace(s, instructions=s.instructions * usual) for s in one.node.services)
    return Node(one.node.platform, services, one.node.jobs)


def true_world(one: Hidden, scene: Scene) -> World:
    """The hidden node as it was in a scene of its record."""
    node = mean_node(one)
    given: dict[str, Assignment] = dict(scene.grants)
    watched = dict(zip(node.names, one.grants(), strict=True))
    grants = {n: grant_of(given[n], node.platform) if n in given else watched[n] for n in node.names}
    percentiles = {service.name: service.percentile for service in node.services}
    return World(node, grants, scene.rates, percentiles)
