"""What a node does whose tenants all share all CPUs and all ways, at constant load."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from osml.simulator import columns as c
from osml.simulator.oracle.partitions import Outcome, outcome
from osml.simulator.oracle.settled import SettledNode, tail_column
from osml.simulator.state import Node
from osml.simulator.surface import solo_speed


def settle_shared(node: Node, loads: Mapping[str, float]) -> Outcome:
    """Tails, slowdowns and E_S once the loads (fractions of max load) have settled."""
    n, tenants = len(node.services), len(node.tenants)
    users = np.full(node.platform.cpus, (1 << tenants) - 1, np.int64)
    masks = np.full(tenants, (1 << node.platform.ways) - 1, np.int64)
    flows = SettledNode(node, loads).flows(users, masks)
    tails = [float(flows[i, tail_column(node, i)]) for i in range(n)]
    rates = flows[n:, c.F_INSTRUCTIONS].tolist()
    slow = [
        1e9 * solo_speed(node.platform, job)[1] / rate if rate > 0 else math.inf
        for job, rate in zip(node.jobs, rates, strict=True)
    ]
    targets = [service.target_ms for service in node.services]
    return outcome([math.inf if math.isnan(tail) else tail for tail in tails], targets, slow)
