"""The part of sysfs that tells the topology: CPUs, hyperthreads, the last-level cache, the memory node."""

from __future__ import annotations

from osml.domain.cpulist import format_cpulist
from osml.simulator.board import cpus_of, domain_count, whole_platform
from osml.simulator.kernel import numbers
from osml.simulator.kernel.kernfs import Directory, directory, file
from osml.simulator.models import PlatformModel


def add_constants(where: Directory, values: dict[str, str]) -> None:
    """Read-only files with fixed contents; names may have directories ('cache/index3/id')."""
    for name, text in values.items():
        here = where
        *parents, leaf = name.split("/")
        for parent in parents:
            below = here.children.get(parent) or here.add(parent, directory())
            assert isinstance(below, Directory)  # noqa: S101 - names above are directories throughout
            here = below
        here.add(leaf, file(lambda text=text: text + "\n", constant=True))


def sysfs(socket: PlatformModel, sockets: int = 1) -> Directory:
    """Directories devices/system/cpu and devices/system/node of so many sockets, each with a memory of its own.

    A socket has one L3 cache or more (AMD).
    """
    root = directory()
    platform = whole_platform(socket, sockets)
    everything = format_cpulist(range(platform.cpus))
    caches = {
        cpu: number for number in range(domain_count(socket, sockets)) for cpu in cpus_of(socket, sockets, number)
    }
    smt = platform.cpus > platform.physical_cores
    cache_kib = round(platform.ways * platform.way_mib * 1024)
    top = "devices/system/cpu/"
    values = {
        top + "online": everything,
        top + "possible": everything,
        top + "present": everything,
        top + "offline": "",
        top + "isolated": "",
        top + "smt/active": str(int(smt)),
        top + "smt/control": "on" if smt else "notsupported",
        "devices/system/node/online": format_cpulist(range(sockets)),
    }
    for number in range(sockets):
        here = f"devices/system/node/node{number}/"
        values[here + "cpulist"] = format_cpulist([cpu for cpu, n in caches.items() if n // socket.domains == number])
        values[here + "meminfo"] = f"Node {number} MemTotal: {round(socket.memory_gib * 2**20)} kB"
    for core, cpus in enumerate(platform.siblings):
        for cpu in cpus:
            here = f"{top}cpu{cpu}/"
            siblings = format_cpulist(cpus)
            shared = cpus_of(socket, sockets, caches[cpu])
            values |= {
                here + "topology/core_id": str(core),
                here + "topology/physical_package_id": str(caches[cpu] // socket.domains),
                here + "topology/thread_siblings_list": siblings,
                here + "topology/core_cpus_list": siblings,
                here + "cache/index3/id": str(caches[cpu]),
                here + "cache/index3/level": "3",
                here + "cache/index3/type": "Unified",
                here + "cache/index3/size": f"{cache_kib}K",
                here + "cache/index3/ways_of_associativity": str(platform.ways),
                here + "cache/index3/number_of_sets": str(cache_kib * 1024 // platform.ways // 64),
                here + "cache/index3/coherency_line_size": "64",
                here + "cache/index3/shared_cpu_list": format_cpulist(shared),
                here + "cache/index3/shared_cpu_map": numbers.format_mask(shared, platform.cpus),
                here + "cpufreq/base_frequency": str(round(platform.frequency_ghz * 1e6)),
                here + "cpufreq/cpuinfo_max_freq": str(round(platform.turbo_ghz * 1e6)),
            }
    add_constants(root, values)
    return root
