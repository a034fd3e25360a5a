"""A whole node: the engine's tenants as processes in the emulated file systems.

The files decide what the engine grants (`grants`), the engine's flows move the files' counters (`account`).
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence

from osml.simulator.board import whole_platform
from osml.simulator.kernel.cgroup2 import Cgroup, CgroupV2
from osml.simulator.kernel.counter import Clock, Counter
from osml.simulator.kernel.groups import Group
from osml.simulator.kernel.kernfs import Tree, directory
from osml.simulator.kernel.procfs import ProcessFacts, process_directory, procfs
from osml.simulator.kernel.rdt import RdtProfile, rdt_profile
from osml.simulator.kernel.resctrl import Resctrl
from osml.simulator.kernel.sysfs import sysfs
from osml.simulator.kernel.tasks import SimulatedTasks
from osml.simulator.models import ServiceModel
from osml.simulator.state import Flow, Grant, Node

_RESIDENT_SHARE = 0.8  # of the address space, where only the footprint is known


class Machine:
    """Emulated kernel of one virtual node. `tree` has resctrl/, cgroup/, sys/ and proc/."""

    def __init__(
        self,
        node: Node,
        place: str = "",
        profile: RdtProfile | None = None,
        speed: float = 0.0,
        uid: int = 0,
        sockets: int = 1,
    ) -> None:
        """`uid` owns the tenants' processes: only root and their owner may move them between resctrl groups.

        The node's platform is one of so many sockets.
        """
        self.node = node
        self.sockets = sockets
        self.whole = whole_platform(node.platform, sockets)
        self.clock = Clock(speed)
        self.tasks = SimulatedTasks()
        self.profile = profile or rdt_profile(node.platform, sockets)
        self.resctrl = Resctrl(self.profile, self.tasks, self._reading)
        self.cgroup = CgroupV2(self.whole.cpus, self.tasks, self.clock)
        self._traffic: dict[tuple[Group, int], Counter] = {}
        self._occupancy: list[float] = [0.0] * len(node.tenants)
        root = directory()
        proc = procfs(self.whole, place)
        self.pids: list[int] = []
        for tenant in node.tenants:
            pid = self.tasks.spawn(tenant.name[:15], tenant.threads, uid)
            self.pids.append(pid)
            group = self.cgroup.make(self.cgroup_path(len(self.pids) - 1))
            group.pids.add(pid)
            group.memory_bytes = round(tenant.memory.footprint_mib * 2**20)
            resident = group.memory_bytes
            facts = ProcessFacts(
                pid,
                tenant.name[:15],
                tenant.threads,
                lambda g=group: g.usage_us.value() / 1e6,
                resident,
                round(resident / _RESIDENT_SHARE),
            )
            proc.add(str(pid), process_directory(facts, self.cgroup, self.resctrl))
        root.add("resctrl", self.resctrl.root.directory)
        root.add("cgroup", self.cgroup.root.directory)
        root.add("sys", sysfs(node.platform, sockets))
        root.add("proc", proc)
        self.tree = Tree(root)

    def cgroup_path(self, tenant: int) -> str:
        """Where a tenant's processes are, below the cgroup root."""
        model = self.node.tenants[tenant]
        return f"{'lc' if isinstance(model, ServiceModel) else 'be'}/{model.name}"

    def cgroup_of(self, tenant: int) -> Cgroup:
        """The cgroup that a tenant's process is in now."""
        return self.cgroup.group_of(self.pids[tenant])

    def _labels(self, tenant: int) -> Tally[tuple[int, int]]:
        """How many threads of a tenant carry which (CLOSID, RMID)."""
        pid = self.pids[tenant]
        threads = self.node.tenants[tenant].threads
        labels: Tally[tuple[int, int]] = Tally()
        for tid in range(pid, pid + threads):
            task = self.tasks.tasks[tid]
            labels[task.closid, task.rmid] += 1
        return labels

    def grants(self) -> list[Grant]:
        """What each tenant may use according to the files.

        A process whose threads sit in several resctrl groups counts as where most of them are; a service that uses the
        default group on CPUs that were given to another group gets no special treatment. Mask and throttle are those of
        the cache domain that has most of its CPUs.
        """
        grants: list[Grant] = []
        for tenant in range(len(self.pids)):
            group = self.cgroup_of(tenant)
            (closid, _), _ = self._labels(tenant).most_common(1)[0]
            values = self.resctrl.group_of(closid).values
            cpus = self.cgroup.effective_cpus(group)
            domain = max(self.profile.domains, key=lambda one: (len(one[1] & cpus), -one[0]))[0]
            percent, gbps = self._throttle(values["MB"][domain]) if "MB" in values else (None, None)
            grants.append(
                Grant(
                    cpus,
                    values["L3"][domain] or 1,
                    self.cgroup.quota_cpus(group),
                    float(group.weight),
                    mba_percent=percent,
                    mba_gbps=gbps,
                    cpu_period_ms=group.period_us / 1000.0,
                )
            )
        return grants

    def _throttle(self, value: int) -> tuple[float | None, float | None]:
        """A value of MB in percent of the bandwidth, or in GB/s; None where there is no limit."""
        throttle = self.profile.throttle
        if throttle is None or not throttle.eighths:
            return float(value), None
        # The kernel takes 0 as well: something always passes.
        return None, None if value >= throttle.high else max(value, 1) / 8.0

    def account(self, flows: Sequence[Flow], now: float) -> None:
        """Let the counters show what happened in the step that ends at node time `now`."""
        self.clock.set(now)
        moved: dict[tuple[Group, int], float] = {}
        for tenant, flow in enumerate(flows):
            self.cgroup.account(self.cgroup_of(tenant), flow.cpu_s, flow.throttled_s, flow.dt)
            self._occupancy[tenant] = flow.occupancy_mib * 2**20
            labels = self._labels(tenant)
            shares = {domain: self._share(tenant, cpus) for domain, cpus in self.profile.domains}
            for (closid, rmid), threads in labels.items():
                group = self.resctrl.group_of(closid)
                holder = next((m for m in group.monitors.values() if m.rmid == rmid), group)
                for domain, share in shares.items():
                    amount = flow.memory_bytes * share * threads / labels.total()
                    moved[holder, domain] = moved.get((holder, domain), 0.0) + amount
        for place, amount in moved.items():
            self._traffic.setdefault(place, Counter(self.clock)).add(amount, flows[0].dt)
        for place in [place for place in self._traffic if place[0].directory.removed]:
            del self._traffic[place]

    def _reading(self, group: Group, domain: int, event: str) -> str:
        """Content of an event file: own value and those of the monitoring groups below.

        Of a tenant with CPUs in several domains, each domain has the part of its CPUs there.
        """
        cpus = next(cpus for number, cpus in self.profile.domains if number == domain)
        members = [group, *group.monitors.values()]
        if event == "llc_occupancy":
            total = 0.0
            for tenant in range(len(self.pids)):
                labels = self._labels(tenant)
                here = sum(labels[member.closid, member.rmid] for member in members)
                total += self._occupancy[tenant] * self._share(tenant, cpus) * here / labels.total()
            return str(int(total) // self.profile.monitor_scale * self.profile.monitor_scale)
        counters = [self._traffic[member, domain] for member in members if (member, domain) in self._traffic]
        return str(int(sum(counter.value() for counter in counters)))

    def _share(self, tenant: int, cpus: frozenset[int]) -> float:
        """The share of a tenant's CPUs that are among these."""
        own = self.cgroup.effective_cpus(self.cgroup_of(tenant))
        return len(own & cpus) / len(own)
