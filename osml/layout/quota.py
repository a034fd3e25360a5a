"""CPU time where no whole CPUs are handed out: cgroup quotas and weights for core units of less than one CPU."""

from __future__ import annotations

from collections.abc import Sequence

from osml.domain import Assignment, Partition, Platform


def quota_assignments(partition: Partition, platform: Platform, n_cpus: int, names: Sequence[str]) -> list[Assignment]:
    """Quota = all core units that a service reaches, in logical CPUs; the weights divide what is shared.

    A quota only bounds a service from above, so several services can be bounded to the same shared units. While they
    all want them, the scheduler divides CPU time by weight; a service's weight is its own units plus an equal part of
    each shared region, scaled so that equal services have 100 (the kernel's default).
    """
    fair = {
        name: sum(region.cores / len(region.owners) for region in partition.regions if name in region.owners)
        for name in names
    }
    total = sum(fair.values())
    return [
        Assignment(
            service=name,
            cpu_quota=round(min(platform.core_quantum * partition.cores_of(name), n_cpus), 6),
            cpu_weight=max(1, min(10_000, round(100 * len(names) * fair[name] / total))),
        )
        for name in names
    ]
