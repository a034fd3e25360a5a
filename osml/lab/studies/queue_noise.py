"""How much the p99 of a second differs from that of all time: the node's law beside single requests.

python -m osml.lab.studies.queue_noise
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from osml.simulator import catalogs
from osml.simulator.columns import FloatArray
from osml.simulator.engine import advance
from osml.simulator.queueing.event_simulation import Workload, serve
from osml.simulator.state import Flow, Grant, Node, initial_state
from osml.simulator.steady import steady
from osml.simulator.surface import first_cpus

CASES = (
    ("xapian", 2, 0.8), ("xapian", 2, 0.92), ("xapian", 4, 0.95), ("xapian", 2, 0.97), ("moses", 4, 0.92),
    ("moses", 8, 0.97), ("img-dnn", 8, 0.95), ("masstree", 2, 0.9),
)  # fmt: skip
"""Service, CPUs, utilisation."""

_SECONDS, _WARM_UP = 300, 100


def _at(node: Node, grants: list[Grant], utilisation: float) -> tuple[float, Flow]:
    """(load, settled flow) at which the service shows this utilisation."""
    name = node.services[0].name
    low, high = 1e-3, 2.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        flow = steady(node, grants, {name: middle}, 60.0)[0]
        low, high = (middle, high) if flow.utilisation < utilisation else (low, middle)
    return low, steady(node, grants, {name: low}, 60.0)[0]


def _node_seconds(node: Node, grants: list[Grant], load: float) -> FloatArray:
    state, rng, found = initial_state(node), np.random.default_rng(1), list[float]()
    for _ in range(_SECONDS):
        state, flows = advance(node, state, grants, {node.services[0].name: load}, 1.0, rng.standard_normal(1))
        found.append(flows[0].p99_ms or 0.0)
    return np.array(found[_WARM_UP:])


def _event_seconds(workload: Workload) -> FloatArray:
    rng, free, following, found = np.random.default_rng(5), np.zeros(workload.servers), 0.0, list[float]()
    room = np.empty(int(workload.arrivals_per_s * 3) + 1000)
    for second in range(_SECONDS):
        served, _, following = serve(rng, workload.row(), free, following, (second + 1) * 1000.0, 1e18, room)
        found.append(float(np.quantile(room[:served], 0.99)))
    return np.array(found[_WARM_UP:])


def main() -> None:
    """Print the table."""
    platform = replace(catalogs.platform("e5-2697v4"), smt_speed=1.0)
    print("service CPUs utilisation | p99 of all time | of a second, median and CV: node | events")
    for name, cores, utilisation in CASES:
        service = replace(catalogs.service(name), serial_ms=0.0, threads=cores)
        node, grants = Node(platform, (service,)), [Grant(first_cpus(platform, cores), (1 << platform.ways) - 1)]
        load, flow = _at(node, grants, utilisation)
        rate = load * service.max_load
        events = _event_seconds(Workload(flow.service_ms or 0.0, service.cv2, rate, cores, service.burstiness))
        ours = _node_seconds(node, grants, load)
        seen = " | ".join(f"{np.median(x):.3g} ms, {x.std() / x.mean():.2f}" for x in (ours, events))
        print(f"{name} {cores} {utilisation} | {flow.p99_ms:.3g} ms | {seen}")


if __name__ == "__main__":
    main()
