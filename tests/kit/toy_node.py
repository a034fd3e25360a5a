"""A node in closed form for the policies' tests: no noise, no memory, one formula a service."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from osml.decide.decide import decide
from osml.domain import Counters, Decision, Latency, Observation, Partition, Platform, Service


@dataclass
class Tenant:
    """Speed of an LC service = cores x (its ways)^taste; it is overloaded where the load is not below that."""

    name: str
    load: float
    kind: str = "lc"
    taste: float = 0.3
    target_ms: float = 10.0
    ideal_ms: float = 2.0
    measured: bool = True


@dataclass
class ToyNode:
    """What is shared is divided by its users: cores equally, ways by who wants them."""

    tenants: list[Tenant]
    cores: int = 36
    ways: int | None = 20
    quantum: float = 1.0
    interval_s: float = 1.0
    time_s: float = 100.0
    seq: int = 0
    policy: str = "arq"
    seed: int = 0
    policy_state: str | None = None
    decision: Decision | None = None
    history: list[Decision] = field(default_factory=list)

    def platform(self) -> Platform:
        n_cpus = round(self.cores * self.quantum)
        siblings = [[i, i + n_cpus // 2] for i in range(n_cpus // 2)] if n_cpus % 2 == 0 else []
        return Platform(
            id="toy",
            cores=self.cores,
            cpus=f"0-{n_cpus - 1}",
            ways=self.ways,
            siblings=siblings,
            core_quantum=self.quantum,
        )

    def speed(self, tenant: Tenant, partition: Partition) -> float:
        cores = ways = 0.0
        for region in partition.regions:
            if tenant.name in region.owners:
                cores += region.cores / len(region.owners)
                ways += region.ways / len(region.owners)
        return cores * (max(ways, 0.1) / 20) ** tenant.taste if self.ways else cores

    def measure(self, tenant: Tenant) -> Service:
        service = Service(
            name=tenant.name,
            kind=tenant.kind,
            target_ms=tenant.target_ms if tenant.kind == "lc" else None,
            ideal_ms=tenant.ideal_ms if tenant.kind == "lc" else None,
            ipc_solo=2.0 if tenant.kind == "be" else None,
        )
        if self.decision is None or not tenant.measured:
            return service
        speed = self.speed(tenant, self.decision.partition)
        if tenant.kind == "be":
            return replace(service, counters=Counters(ipc=2.0 * speed / self.cores))
        usage = tenant.load / speed
        # below saturation a queue, above it a line that keeps on rising: one unit more always helps
        p99_ms = tenant.ideal_ms / (1 - usage) if usage < 0.98 else tenant.ideal_ms * 50 * (1 + usage - 0.98)
        return replace(service, latency=Latency(p99_ms=p99_ms, mean_ms=p99_ms / 3, samples=1000))

    def observe(self, **changes: object) -> Observation:
        observation = Observation(
            node="toy",
            seq=self.seq,
            time_s=self.time_s,
            interval_s=self.interval_s,
            platform=self.platform(),
            services=[self.measure(tenant) for tenant in self.tenants],
            policy=self.policy,
            partition=None if self.decision is None else self.decision.partition,
            assignments=[] if self.decision is None else self.decision.assignments,
            policy_state=self.policy_state,
        )
        return replace(observation, **changes)

    def step(self, **changes: object) -> Decision:
        self.decision = decide(self.observe(**changes), seed=self.seed)
        self.policy_state = self.decision.policy_state
        self.history.append(self.decision)
        self.seq += 1
        self.time_s += self.interval_s
        return self.decision

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def slacks(self) -> dict[str, float | None]:
        return {s.name: s.slack for s in map(self.measure, self.tenants) if s.kind == "lc"}

    def steps_to_converge(self, limit: int = 180) -> int | None:
        """Intervals until all targets hold for five of them in a row; None where that does not happen."""
        good = 0
        for step in range(limit):
            self.step()
            good = good + 1 if all(s is not None and s >= 0 for s in self.slacks().values()) else 0
            if good == 5:
                return step - 4
        return None


def demo_tenants() -> list[Tenant]:
    return [
        Tenant("moses", load=5.0, taste=0.5),
        Tenant("img-dnn", load=7.0, taste=0.1),
        Tenant("xapian", load=4.0, taste=0.2),
        Tenant("stream", load=0, kind="be", taste=0.4),
    ]
