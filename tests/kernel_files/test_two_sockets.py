"""The emulated kernel of a node with two sockets: two cache domains, each with the tenants that are on it."""

import pytest

from osml.simulator import catalogs
from osml.simulator.kernel.machine import Machine
from osml.simulator.mount.simulation import STEPS_PER_INTERVAL, Simulation
from osml.simulator.state import Node

SOCKET = catalogs.platform("e5-2697v4")
FIRST, SECOND = "0-17,36-53", "18-35,54-71"


@pytest.fixture
def machine() -> Machine:
    node = Node(SOCKET, (catalogs.service("moses"), catalogs.service("xapian")), (catalogs.job("stream"),))
    return Machine(node, "/node", sockets=2)


def own_group(machine: Machine, tenant: int, name: str, schemata: str) -> None:
    machine.tree.mkdir(f"resctrl/{name}")
    machine.tree.write(f"resctrl/{name}/schemata", schemata.encode())
    pid, threads = machine.pids[tenant], machine.node.tenants[tenant].threads
    for tid in range(pid, pid + threads):
        machine.tree.write(f"resctrl/{name}/tasks", f"{tid}\n".encode())


def test_sysfs_and_resctrl_have_the_same_two_domains(machine: Machine) -> None:
    cpus = "sys/devices/system/cpu"
    shared = [machine.tree.read(f"{cpus}/cpu{cpu}/cache/index3/shared_cpu_list").decode() for cpu in (0, 18, 71)]
    assert shared == [f"{FIRST}\n", f"{SECOND}\n", f"{SECOND}\n"]
    assert machine.tree.read(f"{cpus}/cpu54/cache/index3/id") == b"1\n"
    assert machine.tree.read(f"{cpus}/cpu20/topology/thread_siblings_list") == b"20,56\n"
    assert machine.tree.read("sys/devices/system/node/node1/cpulist").decode() == f"{SECOND}\n"
    assert machine.tree.read(f"{cpus}/online") == b"0-71\n"
    assert machine.tree.read("resctrl/schemata") == b"    L3:0=fffff;1=fffff\n"


def test_a_mask_holds_in_the_domain_of_the_cpus(machine: Machine) -> None:
    machine.tree.write("cgroup/lc/moses/cpuset.cpus", f"{SECOND}\n".encode())
    own_group(machine, 0, "one", "L3:0=1;1=ff0\n")
    assert machine.grants()[0].way_mask == 0xFF0
    machine.tree.write("cgroup/lc/moses/cpuset.cpus", b"0-3,18\n")
    assert machine.grants()[0].way_mask == 0x1


def test_traffic_and_occupancy_are_counted_where_a_tenant_runs(machine: Machine) -> None:
    machine.tree.write("cgroup/lc/moses/cpuset.cpus", b"18-25,54-61\n")
    own_group(machine, 0, "one", "L3:0=ff;1=ff\n")
    simulation = Simulation(machine.node, machine, {"moses": 0.3, "xapian": 0.2}, 1.0, seed=1)
    for _ in range(3 * STEPS_PER_INTERVAL):
        measured = simulation.step()
    assert measured is not None
    read = {
        (group, domain, event): int(machine.tree.read(f"resctrl/{group}mon_data/mon_L3_0{domain}/{event}"))
        for group in ("one/", "") for domain in (0, 1) for event in ("mbm_local_bytes", "llc_occupancy")
    }  # fmt: skip
    for event in ("mbm_local_bytes", "llc_occupancy"):
        assert read["one/", 0, event] == 0 < read["one/", 1, event]
        assert min(read["", domain, event] for domain in (0, 1)) > 0
    sums = sum(read["one/", domain, "llc_occupancy"] for domain in (0, 1)) / 2**20
    assert sums == pytest.approx(measured[0].llc_occupancy_mib, abs=0.2)
