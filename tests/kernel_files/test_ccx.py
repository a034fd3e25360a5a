"""The emulated kernel of an AMD machine: several L3 domains a socket, masks with holes, MB in eighths of a GB/s."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from osml.simulator import catalogs
from osml.simulator.kernel.machine import Machine
from osml.simulator.mount.agent_config import agent_config
from osml.simulator.state import Node

MILAN = catalogs.platform("epyc-7763")
OPEN = ";".join(f"{number}=2048" for number in range(8))


@pytest.fixture
def machine() -> Machine:
    return Machine(Node(MILAN, (catalogs.service("moses", MILAN.id),)), "/node")


def own_group(machine: Machine, schemata: str) -> None:
    machine.tree.mkdir("resctrl/one")
    machine.tree.write("resctrl/one/schemata", schemata.encode())
    for tid in range(machine.pids[0], machine.pids[0] + machine.node.tenants[0].threads):
        machine.tree.write("resctrl/one/tasks", f"{tid}\n".encode())


def read(machine: Machine, name: str) -> str:
    return machine.tree.read(name).decode()


def test_resctrl_is_that_of_amd(machine: Machine) -> None:
    found = {name: read(machine, f"resctrl/info/MB/{name}").strip() for name in ("min_bandwidth", "bandwidth_gran")}
    assert found == {"min_bandwidth": "0", "bandwidth_gran": "1"}
    assert read(machine, "resctrl/info/MB/delay_linear") == "0\n"
    assert "thread_throttle_mode" not in machine.tree.listdir("resctrl/info/MB")
    assert read(machine, "resctrl/info/L3/cbm_mask") == "ffff\n"
    assert read(machine, "resctrl/info/L3/sparse_masks") == "1\n"
    assert read(machine, "resctrl/schemata").splitlines()[0] == f"    MB:{OPEN}"


def test_sysfs_has_a_cache_for_each_ccx_and_one_memory_for_the_socket(machine: Machine) -> None:
    cpus = "sys/devices/system/cpu"
    assert read(machine, f"{cpus}/cpu9/cache/index3/shared_cpu_list") == "8-15,72-79\n"
    assert read(machine, f"{cpus}/cpu127/cache/index3/id") == "7\n"
    assert read(machine, f"{cpus}/cpu127/topology/physical_package_id") == "0\n"
    assert read(machine, f"{cpus}/cpu9/cache/index3/size") == "32768K\n"
    assert read(machine, "sys/devices/system/node/node0/cpulist") == "0-127\n"
    two = Machine(machine.node, "/node", sockets=2)
    assert read(two, f"{cpus}/cpu64/topology/physical_package_id") == "1\n"
    assert read(two, "sys/devices/system/node/node1/cpulist") == "64-127,192-255\n"


def test_a_throttle_holds_in_the_domain_of_the_cpus_and_the_highest_value_is_none(machine: Machine) -> None:
    machine.tree.write("cgroup/lc/moses/cpuset.cpus", b"8-15\n")
    own_group(machine, "MB:1=20\nL3:1=f0f\n")
    [grant] = machine.grants()
    assert (grant.way_mask, grant.mba_gbps, grant.mba_percent) == (0xF0F, 2.5, None)
    machine.tree.write("cgroup/lc/moses/cpuset.cpus", b"0-7\n")
    [grant] = machine.grants()
    assert (grant.way_mask, grant.mba_gbps, grant.mba_percent) == (0xFFFF, None, None)


def test_a_value_above_the_highest_is_refused_as_the_kernel_does(machine: Machine) -> None:
    machine.tree.mkdir("resctrl/one")
    with pytest.raises(OSError, match="Invalid argument"):
        machine.tree.write("resctrl/one/schemata", b"MB:0=2049\n")
    assert read(machine, "resctrl/info/last_cmd_status") == "MB value 2049 out of range [0,2048]\n"


def test_the_agent_is_told_to_place_services(machine: Machine) -> None:
    text = agent_config(
        machine, Path("/node"), {"moses": 0.2}, speed=1.0, interval_s=1.0, server_url="http://x", policy=None
    )
    config = yaml.safe_load(text)
    assert config["cpu"]["cache_domains"] == "place"
    assert config["platform"]["bandwidth_gbps"] == 204.8
