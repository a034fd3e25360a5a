"""Several equal cache domains on one board: what the system counts, and which CPUs are in which domain.

A socket is one domain, or has several that share its memory (`PlatformModel.domains`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

from osml.simulator.models import PlatformModel

MOST_SOCKETS = 8
MOST_DOMAINS = 64
"""Of a node."""


def domain_count(socket: PlatformModel, sockets: int) -> int:
    """Cache domains of a node of so many sockets; ValueError where there are too many."""
    if not 1 <= sockets <= MOST_SOCKETS:
        raise ValueError(f"the node has {sockets} sockets, expected 1 to {MOST_SOCKETS}")
    count = sockets * socket.domains
    if count > MOST_DOMAINS:
        raise ValueError(f"the node has {count} cache domains, expected at most {MOST_DOMAINS}: take fewer sockets")
    return count


def whole_platform(socket: PlatformModel, sockets: int) -> PlatformModel:
    """All domains of all sockets as the system counts them; ways and their size are those of each cache."""
    count = domain_count(socket, sockets)
    if count == 1:
        return socket
    return replace(
        socket,
        cpus=socket.cpus * count,
        physical_cores=socket.physical_cores * count,
        bandwidth_gbps=socket.bandwidth_gbps * sockets,
        memory_gib=socket.memory_gib * sockets,
        reserved_gib=socket.reserved_gib * sockets,
        domains=1,
        link_gbps=math.inf,
    )


@lru_cache(maxsize=256)
def cpus_of(socket: PlatformModel, sockets: int, number: int) -> tuple[int, ...]:
    """CPU ids of a domain in the order of its own: as Linux numbers them, first threads of all cores, then second."""
    cores, threads = socket.physical_cores, socket.cpus // socket.physical_cores
    first, step = number * cores, cores * domain_count(socket, sockets)
    return tuple(thread * step + first + core for thread in range(threads) for core in range(cores))
