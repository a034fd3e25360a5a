"""Programs and machines that differ from the catalog in what a policy can't see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from osml.simulator.models import JobModel, MemoryBehaviour, PlatformModel, ServiceModel
from osml.simulator.state import Node
from osml.simulator.variation.spread import factor, log_uniform

_SLOWEST_SIBLING = 0.5
"""Speed of a thread whose sibling computes: two threads are never slower together than one alone."""

_FEWEST_THREADS, _LEAST_THREADS, _MOST_THREADS = 2, 0.5, 3.0
"""A service has so many threads at least, and from half to three times those of the catalog (log-uniform)."""


def varied_memory(memory: MemoryBehaviour, spread: float, rng: np.random.Generator) -> MemoryBehaviour:
    """Another working set and other misses per instruction."""
    return replace(
        memory, working_set_mib=memory.working_set_mib * factor(rng, spread), apki=memory.apki * factor(rng, spread)
    )


def varied_service(service: ServiceModel, spread: float, rng: np.random.Generator) -> ServiceModel:
    """The service with other memory behaviour, and other variability of its work and of its arrivals."""
    return replace(
        service,
        memory=varied_memory(service.memory, spread, rng),
        cv2=service.cv2 * factor(rng, spread),
        burstiness=service.burstiness * factor(rng, spread),
    )


def varied_platform(platform: PlatformModel, spread: float, rng: np.random.Generator) -> PlatformModel:
    """The machine with other memory and hyperthreads behind the same data sheet: what a policy reads stays the same."""
    return replace(
        platform,
        memory_latency_ns=platform.memory_latency_ns * factor(rng, spread),
        usable_bandwidth=platform.usable_bandwidth * factor(rng, spread),
        smt_speed=min(max(platform.smt_speed * factor(rng, spread), _SLOWEST_SIBLING), 1.0),
    )


def varied_node(node: Node, spread: float, rng: np.random.Generator) -> Node:
    """Machine, services and jobs, each parameter by a factor of its own."""
    return Node(
        varied_platform(node.platform, spread, rng),
        tuple(varied_service(service, spread, rng) for service in node.services),
        tuple(replace(job, memory=varied_memory(job.memory, spread, rng)) for job in node.jobs),
    )


def other_curves(node: Node, spread: float, rng: np.random.Generator) -> Node:
    """Other miss curves: from flat ones, as caches make that resist streams, to cliffs, as LRU makes them."""

    def curved(memory: MemoryBehaviour) -> MemoryBehaviour:
        return replace(memory, steepness=memory.steepness * factor(rng, spread))

    return Node(
        node.platform,
        tuple(replace(service, memory=curved(service.memory)) for service in node.services),
        tuple(replace(job, memory=curved(job.memory)) for job in node.jobs),
    )


def other_threads(node: Node, rng: np.random.Generator) -> Node:
    """Services with fewer or more threads than in the catalog."""
    threads = [round(s.threads * log_uniform(rng, _LEAST_THREADS, _MOST_THREADS)) for s in node.services]
    services = zip(node.services, threads, strict=True)
    return Node(node.platform, tuple(replace(s, threads=max(n, _FEWEST_THREADS)) for s, n in services), node.jobs)


def renamed(node: Node) -> Node:
    """The same services and jobs under names that no model knows."""
    return Node(
        node.platform,
        tuple(replace(service, name=f"service-{i}") for i, service in enumerate(node.services, start=1)),
        tuple(replace(job, name=f"job-{i}") for i, job in enumerate(node.jobs, start=1)),
    )


def with_company(node: Node, job: JobModel) -> Node:
    """One more job, the last of the node."""
    return Node(node.platform, node.services, (*node.jobs, job))
