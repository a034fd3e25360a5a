"""The part of proc that an agent reads: the simulated processes with their threads, and the mounts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from osml.domain.cpulist import format_cpulist
from osml.simulator.kernel.cgroup2 import CgroupV2
from osml.simulator.kernel.kernfs import Directory, directory, file
from osml.simulator.kernel.resctrl import Resctrl
from osml.simulator.kernel.sysfs import add_constants
from osml.simulator.models import PlatformModel

TICKS_PER_S = 100
PAGE = 4096


@dataclass(frozen=True)
class ProcessFacts:
    """What /proc shows of a process and the engine knows."""

    pid: int
    comm: str
    threads: int
    cpu_s: Callable[[], float]
    rss_bytes: int
    vms_bytes: int


def _status(facts: ProcessFacts, tid: int, cgroup: CgroupV2) -> str:
    cpus = format_cpulist(cgroup.effective_cpus(cgroup.group_of(facts.pid)))
    return (
        f"Name:\t{facts.comm}\nState:\tS (sleeping)\nTgid:\t{facts.pid}\nPid:\t{tid}\nPPid:\t1\n"
        "Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n"
        f"VmSize:\t{facts.vms_bytes // 1024} kB\nVmRSS:\t{facts.rss_bytes // 1024} kB\n"
        f"Threads:\t{facts.threads}\nCpus_allowed_list:\t{cpus}\n"
    )


def _stat(facts: ProcessFacts) -> str:
    """The 52 fields of proc(5); those that the model does not know are 0 there as on a process that just started."""
    ticks = int(facts.cpu_s() * TICKS_PER_S)
    fields = ["0"] * 52
    fields[0], fields[1], fields[2], fields[3] = str(facts.pid), f"({facts.comm})", "S", "1"
    fields[13], fields[14] = str(ticks * 9 // 10), str(ticks - ticks * 9 // 10)
    fields[17], fields[19], fields[21] = "20", str(facts.threads), str(facts.pid % 10_000)
    fields[22], fields[23] = str(facts.vms_bytes), str(facts.rss_bytes // PAGE)
    return " ".join(fields) + "\n"


def _resctrl_groups(resctrl: Resctrl, tid: int) -> str:
    task = resctrl.tasks.find(tid)
    if task is None:
        return "res:\nmon:\n"
    group = resctrl.group_of(task.closid)
    monitor = next((m.name for m in group.monitors.values() if m.rmid == task.rmid), "")
    return f"res:{group.name or '/'}\nmon:{monitor}\n"


def process_directory(facts: ProcessFacts, cgroup: CgroupV2, resctrl: Resctrl) -> Directory:
    """The directory proc/<pid> with its threads."""
    here = directory(0o555)
    tasks = directory(0o555)
    here.add("comm", file(lambda: facts.comm + "\n"))
    here.add("cmdline", file(lambda: facts.comm + "\0"))
    here.add("stat", file(lambda: _stat(facts), live=True))
    here.add("status", file(lambda: _status(facts, facts.pid, cgroup)))
    here.add("cgroup", file(lambda: f"0::{cgroup.group_of(facts.pid).path}\n"))
    here.add("cpu_resctrl_groups", file(lambda: _resctrl_groups(resctrl, facts.pid)))
    here.add("task", tasks)
    for tid in range(facts.pid, facts.pid + facts.threads):
        thread = directory(0o555)
        thread.add("comm", file(lambda: facts.comm + "\n"))
        thread.add("status", file(lambda tid=tid: _status(facts, tid, cgroup)))
        tasks.add(str(tid), thread)
    return here


def procfs(platform: PlatformModel, place: str) -> Directory:
    """The proc directory without the processes. `place` is where the node is mounted, for proc/mounts."""
    root = directory(0o555)
    flags = "rdt_a cat_l3 cqm_llc cqm_occup_llc cqm_mbm_total cqm_mbm_local" + (" mba" if platform.mba else "")
    cpus = "\n\n".join(
        f"processor\t: {cpu}\nmodel name\t: {platform.cpu}\nphysical id\t: 0\nflags\t\t: fpu {flags}"
        for cpu in range(platform.cpus)
    )
    mounts = f"resctrl {place}/resctrl resctrl rw,relatime 0 0\ncgroup2 {place}/cgroup cgroup2 rw,relatime 0 0"
    values = {
        "filesystems": "nodev\tcgroup2\nnodev\tresctrl",
        "mounts": mounts,
        "meminfo": f"MemTotal: {round(platform.memory_gib * 2**20)} kB",
        "cpuinfo": cpus + "\n",
    }
    add_constants(root, values)
    return root
