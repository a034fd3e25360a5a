"""Observations of a node with two cache domains, as tests of the placement need them."""

from __future__ import annotations

from typing import Any

from osml.domain import (
    CacheDomain,
    Counters,
    Decision,
    Latency,
    MbaRange,
    Observation,
    Partition,
    Platform,
    Service,
)  # fmt: skip


def platform(per_domain: int = 8, **changes: Any) -> Platform:
    """Domains 0 and 1, with 16 ways each."""
    n_cpus = 2 * per_domain
    known: dict[str, Any] = {
        "id": "two", "cores": n_cpus, "cpus": f"0-{n_cpus - 1}", "ways": 16, "regions_in_domains": True,
        "domains": [CacheDomain(0, f"0-{per_domain - 1}"), CacheDomain(1, f"{per_domain}-{n_cpus - 1}")],
        "bandwidth_gbps": 100.0, "max_groups": 9, "mba": MbaRange(10, 100, 10),
    }  # fmt: skip
    return Platform(**(known | changes))


def lc(name: str, used: float | None = None, tail_ms: float | None = 5.0, **limits: Any) -> Service:
    """A service with a target of 10 ms."""
    latency = None if tail_ms is None else Latency(p99_ms=tail_ms, requests_per_s=100.0, samples=100)
    return Service(name, "lc", target_ms=10.0, latency=latency, counters=Counters(cpu_usage_cores=used), **limits)


def be(name: str, used: float | None = None, **limits: Any) -> Service:
    """A job."""
    return Service(name, "be", counters=Counters(cpu_usage_cores=used, ipc=1.0), ipc_solo=1.0, **limits)


def observation(services: list[Service], node: Platform | None = None, **changes: Any) -> Observation:
    """The first one of a node."""
    return Observation(
        "n", changes.pop("seq", 0), changes.pop("time_s", 0.0), 1.0, node or platform(), services, **changes
    )


def answered(seen: Observation, decision: Decision, services: list[Service] | None = None) -> Observation:
    """The next observation of a node that has applied the decision."""
    return observation(
        services or seen.services, seen.platform, seq=seen.seq + 1, time_s=seen.time_s + 1.0, policy=seen.policy,
        partition=decision.partition, assignments=decision.assignments, policy_state=decision.policy_state,
    )  # fmt: skip


def homes(partition: Partition) -> dict[str, int]:
    """The domain of each service."""
    return {owner: domain for domain, regions in partition.by_domain.items() for one in regions for owner in one.owners}
