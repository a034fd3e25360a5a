"""`python -m osml.simulator.precompile`: compiles what a virtual node needs, so that its first start is quick.

Takes about 20 s of CPU once for each version of the sources, and a second where everything is there.
"""

from __future__ import annotations

from osml.simulator import catalogs, sockets
from osml.simulator.engine import advance
from osml.simulator.state import Grant, Node, initial_state
from osml.simulator.surface import ideal_ms, solo_speed, whole_node


def precompile() -> None:
    """Run every compiled entry point once."""
    platform = catalogs.platform("e5-2697v4")
    service, job = catalogs.service("moses", platform.id), catalogs.job("stream")
    node = Node(platform, (service,), (job,))
    _, flows = advance(node, initial_state(node), whole_node(node), {service.name: 0.4}, 1.0)
    _ = flows[0].quantiles_ms
    ccx = catalogs.platform("epyc-7742")
    several = Node(ccx, (catalogs.service("moses", ccx.id),))
    sockets.advance(several, 1, sockets.initial(several, 1), [Grant(frozenset(range(8)), 1)], {service.name: 0.4}, 1.0)
    ideal_ms(platform, service, 0.4)
    solo_speed(platform, job)


if __name__ == "__main__":
    precompile()
