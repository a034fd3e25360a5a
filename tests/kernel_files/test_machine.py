"""cgroup v2, sysfs and proc of the emulated kernel, and how files become grants and flows become counters."""

import errno

import pytest

from osml.simulator import catalogs
from osml.simulator.engine import advance
from osml.simulator.kernel.counter import Clock, Counter
from osml.simulator.kernel.kernfs import Caller
from osml.simulator.kernel.machine import Machine
from osml.simulator.state import Node, initial_state

MOSES = "cgroup/lc/moses"


@pytest.fixture
def machine() -> Machine:
    node = Node(
        catalogs.platform("e5-2697v4"),
        (catalogs.service("moses"), catalogs.service("xapian")),
        (catalogs.job("stream"),),
    )
    return Machine(node, "/node")


@pytest.mark.parametrize(
    ("name", "data", "code"),
    [
        ("cpuset.cpus", "abc", errno.EINVAL),
        ("cpuset.cpus", "0-36", errno.ERANGE),
        ("cpuset.cpus", "5-2", errno.EINVAL),
        ("cpuset.mems", "1", errno.EINVAL),
        ("cpu.max", "-1", errno.EINVAL),
        ("cpu.max", "999", errno.EINVAL),
        ("cpu.max", "5000 1000001", errno.EINVAL),
        ("cpu.max", "", errno.EINVAL),
        ("cpu.max", "5000 max", errno.EINVAL),
        ("cpu.weight", "0", errno.ERANGE),
        ("cpu.weight", "10001", errno.ERANGE),
        ("cpu.weight", "x", errno.EINVAL),
        ("memory.max", "-1", errno.EINVAL),
        ("cgroup.procs", "4999999", errno.ESRCH),
        ("cgroup.procs", "x", errno.EINVAL),
        ("cgroup.threads", "4200060", errno.EOPNOTSUPP),
        ("cgroup.type", "threaded", errno.EOPNOTSUPP),
        ("cgroup.subtree_control", "cpu", errno.EINVAL),
        ("cgroup.subtree_control", "+io", errno.EINVAL),
        ("cgroup.subtree_control", "+memory", errno.EBUSY),
        ("cpu.stat", "1", errno.EINVAL),
    ],
)
def test_a_wrong_cgroup_command_gets_the_kernels_errno(machine, name, data, code):
    before = machine.grants()
    with pytest.raises(OSError) as caught:
        machine.tree.write(f"{MOSES}/{name}", f"{data}\n".encode())
    assert caught.value.errno == code
    assert machine.grants() == before


@pytest.mark.parametrize(
    ("name", "data", "shown"),
    [
        ("cpuset.cpus", "0-3,18-21", "0-3,18-21\n"),
        ("cpuset.cpus", "", "\n"),
        ("cpu.max", "150000", "150000 100000\n"),
        ("cpu.max", "max 50000", "max 50000\n"),
        ("cpu.weight", "200", "200\n"),
        ("memory.max", "1G", "1073741824\n"),
        ("memory.max", "max", "max\n"),
    ],
)
def test_a_right_cgroup_command_is_shown(machine, name, data, shown):
    machine.tree.write(f"{MOSES}/{name}", f"{data}\n".encode())
    assert machine.tree.read(f"{MOSES}/{name}").decode() == shown


def test_effective_cpus_fall_back_to_the_parents(machine):
    tree = machine.tree
    tree.write("cgroup/lc/cpuset.cpus", b"0-7\n")
    tree.write(f"{MOSES}/cpuset.cpus", b"4-11\n")
    assert tree.read(f"{MOSES}/cpuset.cpus.effective") == b"4-7\n"
    tree.write(f"{MOSES}/cpuset.cpus", b"20\n")
    assert tree.read(f"{MOSES}/cpuset.cpus.effective") == b"0-7\n"


def test_the_root_has_no_limits_and_controllers_come_and_go(machine):
    tree = machine.tree
    assert "cpu.max" not in tree.listdir("cgroup")
    assert tree.read("cgroup/cgroup.controllers") == b"cpuset cpu memory\n"
    tree.mkdir("cgroup/mine")
    tree.mkdir("cgroup/mine/part")
    assert "cpu.max" not in tree.listdir("cgroup/mine/part")
    tree.write("cgroup/mine/cgroup.subtree_control", b"+cpu +cpuset\n")
    assert {"cpu.max", "cpuset.cpus"} <= set(tree.listdir("cgroup/mine/part"))
    with pytest.raises(OSError) as caught:
        tree.write("cgroup/mine/part/cgroup.subtree_control", b"+memory\n")
    assert caught.value.errno == errno.ENOENT
    tree.write("cgroup/mine/cgroup.subtree_control", b"-cpu\n")
    assert "cpu.max" not in tree.listdir("cgroup/mine/part")
    with pytest.raises(OSError) as caught:
        tree.rmdir("cgroup/mine")
    assert caught.value.errno == errno.EBUSY
    tree.rmdir("cgroup/mine/part")
    tree.rmdir("cgroup/mine")


def test_a_group_with_processes_stays_until_they_leave(machine):
    tree, pid = machine.tree, machine.pids[0]
    with pytest.raises(OSError) as caught:
        tree.rmdir(MOSES)
    assert caught.value.errno == errno.EBUSY
    tree.mkdir("cgroup/mine")
    tree.write("cgroup/mine/cgroup.procs", f"{pid + 5}\n".encode())  # any thread moves its process
    assert tree.read("cgroup/mine/cgroup.procs").decode() == f"{pid}\n"
    assert len(tree.read("cgroup/mine/cgroup.threads").split()) == 36
    tree.rmdir(MOSES)


def test_files_become_grants(machine):
    tree, pid = machine.tree, machine.pids[0]
    tree.write(f"{MOSES}/cpuset.cpus", b"0-5\n")
    tree.write(f"{MOSES}/cpu.max", b"150000 100000\n")
    tree.write("cgroup/lc/cpu.max", b"100000 100000\n")
    tree.write(f"{MOSES}/cpu.weight", b"400\n")
    tree.mkdir("resctrl/moses")
    tree.write("resctrl/moses/schemata", b"L3:0=ff\n")
    tree.write("resctrl/moses/tasks", ",".join(str(pid + i) for i in range(36)).encode() + b"\n")
    grant, other, _ = machine.grants()
    assert (grant.cpus, grant.way_mask, grant.cpu_weight) == (frozenset(range(6)), 0xFF, 400.0)
    assert grant.cpu_quota == 1.0  # the tightest on the way up
    assert grant.mba_percent is None
    assert (len(other.cpus), other.way_mask) == (36, 0xFFFFF)


def test_flows_become_counters_of_the_right_groups(machine):
    tree, pid = machine.tree, machine.pids[0]
    tree.mkdir("resctrl/moses")
    tree.write("resctrl/moses/tasks", ",".join(str(pid + i) for i in range(36)).encode() + b"\n")
    state, total = initial_state(machine.node), 0.0
    for _ in range(8):
        state, flows = advance(machine.node, state, machine.grants(), {"moses": 0.4, "xapian": 0.5}, 0.25)
        machine.account(flows, state.time_s)
        total += flows[0].memory_bytes
    machine.clock.set(state.time_s + 10.0)
    read = lambda path: int(tree.read(path))  # noqa: E731
    assert read("resctrl/moses/mon_data/mon_L3_00/mbm_local_bytes") == pytest.approx(total, rel=1e-6)
    assert read("resctrl/mon_data/mon_L3_00/mbm_local_bytes") > total  # stream and xapian
    occupancy = flows[0].occupancy_mib * 2**20
    assert read("resctrl/moses/mon_data/mon_L3_00/llc_occupancy") == pytest.approx(occupancy, abs=65536)
    stat = dict(line.split() for line in tree.read(f"{MOSES}/cpu.stat").decode().splitlines())
    parent = dict(line.split() for line in tree.read("cgroup/lc/cpu.stat").decode().splitlines())
    assert int(stat["usage_usec"]) == pytest.approx(8 * flows[0].cpu_s * 1e6, rel=0.2)
    assert int(parent["usage_usec"]) > int(stat["usage_usec"])
    assert int(tree.read(f"proc/{pid}/stat").split()[13]) > 0


def test_a_counter_glides_and_never_goes_back():
    clock = Clock()
    counter = Counter(clock)
    counter.add(100.0, 1.0)
    seen = []
    for tenth in range(15):
        clock.set(tenth / 10)
        seen.append(counter.value())
    assert seen == sorted(seen)
    assert seen[5] == pytest.approx(50.0)
    assert seen[-1] == 100.0


def test_sysfs_and_proc_tell_the_topology_and_the_processes(machine):
    tree, pid = machine.tree, machine.pids[1]
    cpu = "sys/devices/system/cpu"
    assert tree.read(f"{cpu}/online") == b"0-35\n"
    assert tree.read(f"{cpu}/cpu3/topology/thread_siblings_list") == b"3,21\n"
    assert tree.read(f"{cpu}/cpu3/cache/index3/size") == b"46080K\n"
    assert tree.read(f"{cpu}/cpu3/cache/index3/id") == b"0\n"
    assert len(tree.listdir(f"proc/{pid}/task")) == 36
    status = tree.read(f"proc/{pid}/status").decode()
    assert "Threads:\t36\n" in status
    assert f"Tgid:\t{pid}\n" in status
    assert tree.read(f"proc/{pid}/cgroup") == b"0::/lc/xapian\n"
    assert tree.read(f"proc/{pid}/cpu_resctrl_groups") == b"res:/\nmon:\n"
    assert b"resctrl /node/resctrl resctrl" in tree.read("proc/mounts")
    assert pid > 2**22  # no real process has such an id


def test_whoever_runs_the_node_may_move_its_tasks_and_strangers_may_not(machine):
    owned = Machine(machine.node, "/node", uid=1000)
    owner, stranger = Caller(1000, 1000, 1), Caller(1001, 1001, 1)
    owned.tree.mkdir("resctrl/g", owner)
    with pytest.raises(PermissionError):
        owned.tree.write("resctrl/g/tasks", f"{owned.pids[0]}\n".encode(), stranger)
    owned.tree.write("resctrl/g/tasks", f"{owned.pids[0]}\n".encode(), owner)
    assert str(owned.pids[0]) in owned.tree.read("resctrl/g/tasks").decode().split()
