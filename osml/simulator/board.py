"""Several equal sockets on one board: what the system counts, and which CPUs are on which socket."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from osml.simulator.models import PlatformModel

MOST_SOCKETS = 8


def whole_platform(socket: PlatformModel, sockets: int) -> PlatformModel:
    """All sockets as the system counts them; ways and their size are those of each cache."""
    if sockets == 1:
        return socket
    if not 1 < sockets <= MOST_SOCKETS:
        raise ValueError(f"the node has {sockets} sockets, expected 1 to {MOST_SOCKETS}")
    return replace(
        socket,
        cpus=socket.cpus * sockets,
        physical_cores=socket.physical_cores * sockets,
        bandwidth_gbps=socket.bandwidth_gbps * sockets,
        memory_gib=socket.memory_gib * sockets,
        reserved_gib=socket.reserved_gib * sockets,
    )


@lru_cache(maxsize=64)
def cpus_of(socket: PlatformModel, sockets: int, number: int) -> tuple[int, ...]:
    """CPU ids of a socket in the order of its own: as Linux numbers them, first threads of all cores, then second."""
    cores, threads = socket.physical_cores, socket.cpus // socket.physical_cores
    return tuple(thread * cores * sockets + number * cores + core for thread in range(threads) for core in range(cores))
