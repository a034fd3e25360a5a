"""CPU time: who gets how much of which CPUs (CFS), and what hyperthreads and turbo make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from osml.virtual.models import PlatformModel

_EPSILON = 1e-9


@dataclass(frozen=True)
class CpuMap:
    """The CPUs of a node cut into areas, one for each set of tenants that may run on the same CPUs.

    `members[a]` are the tenants of area a, `sizes[a]` its CPUs, `pairs[(a, b)]` the physical cores with one sibling in
    a and the other in b (a <= b), `areas_of[i]` the areas of tenant i.
    """

    members: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    pairs: dict[tuple[int, int], int]
    areas_of: tuple[tuple[int, ...], ...]

    def cpus_of(self, tenant: int) -> int:
        """How many CPUs a tenant may run on."""
        return sum(self.sizes[area] for area in self.areas_of[tenant])

    def shared(self, tenant: int) -> bool:
        """True where another tenant may run on a CPU of this one."""
        return any(len(self.members[area]) > 1 for area in self.areas_of[tenant])


def cpu_map(cpu_sets: Sequence[frozenset[int]], platform: PlatformModel) -> CpuMap:
    """Areas of a node out of the CPU set of each tenant. CPUs of nobody belong to no area."""
    by_members: dict[tuple[int, ...], list[int]] = {}
    for cpu in range(platform.cpus):
        users = tuple(i for i, cpus in enumerate(cpu_sets) if cpu in cpus)
        if users:
            by_members.setdefault(users, []).append(cpu)
    members = tuple(sorted(by_members))
    area_of = {cpu: area for area, users in enumerate(members) for cpu in by_members[users]}
    pairs: dict[tuple[int, int], int] = {}
    for core in platform.siblings:
        areas = sorted(area_of[cpu] for cpu in core if cpu in area_of)
        if len(areas) == 2:
            pairs[areas[0], areas[1]] = pairs.get((areas[0], areas[1]), 0) + 1
    return CpuMap(
        members,
        tuple(len(by_members[users]) for users in members),
        pairs,
        tuple(tuple(a for a, users in enumerate(members) if i in users) for i in range(len(cpu_sets))),
    )


def fair_shares(areas: CpuMap, demands: Sequence[float], weights: Sequence[float]) -> list[list[float]]:
    """CPUs that each tenant uses in each area: weighted max-min fairness by progressive filling.

    Everybody who wants more grows in proportion to its weight, wherever there is room, until an area is full or the
    tenant has what it wants. This is what CFS with load balancing tends to. Returns [tenant][area].
    """
    used = [[0.0] * len(areas.sizes) for _ in demands]
    left = [float(size) for size in areas.sizes]
    open_demand = list(demands)
    for _ in range(len(demands) + len(areas.sizes) + 1):
        growth: list[tuple[int, int, float]] = []
        inflow = [0.0] * len(left)
        for tenant, wanted in enumerate(open_demand):
            if wanted <= _EPSILON:
                continue
            # Room that fewer compete for is taken first: an idle CPU of one's own beats a crowded one.
            room = [(a, left[a] / len(areas.members[a]) ** 2) for a in areas.areas_of[tenant] if left[a] > _EPSILON]
            total = sum(weight for _, weight in room)
            for area, weight in room:
                rate = weights[tenant] * weight / total
                growth.append((tenant, area, rate))
                inflow[area] += rate
        if not growth:
            break
        growing = {tenant for tenant, _, _ in growth}
        step = min(
            *(open_demand[tenant] / weights[tenant] for tenant in growing),
            *(left[a] / rate for a, rate in enumerate(inflow) if rate > 0),
        )
        for tenant, area, rate in growth:
            used[tenant][area] += rate * step
            open_demand[tenant] -= rate * step
            left[area] -= rate * step
    return used


def sibling_busy(areas: CpuMap, used: Sequence[Sequence[float]]) -> list[float]:
    """Share of each tenant's running time in which the sibling hyperthread of its CPU is busy too.

    Siblings in one area: the scheduler fills idle cores first, so they overlap only where it has to. Siblings in
    different areas know nothing of each other: they overlap as independent events.
    """
    busy = [sum(row[a] for row in used) / size for a, size in enumerate(areas.sizes)]
    beside = [0.0] * len(busy)  # per area: share of its running time beside a busy sibling
    for (a, b), count in areas.pairs.items():
        if a == b:
            overlap = max(0.0, 2.0 * busy[a] - 1.0)
            beside[a] += 2 * count / areas.sizes[a] * overlap / max(busy[a], _EPSILON)
        else:
            beside[a] += count / areas.sizes[a] * busy[b]
            beside[b] += count / areas.sizes[b] * busy[a]
    shares: list[float] = []
    for row in used:
        total = sum(row)
        shares.append(sum(x * beside[a] for a, x in enumerate(row)) / total if total > _EPSILON else 0.0)
    return shares


def frequency_ghz(platform: PlatformModel, busy_cpus: float) -> float:
    """Clock under turbo: from the single-core turbo down to the base frequency when all physical cores are active."""
    active = min(1.0, busy_cpus / platform.physical_cores)
    return platform.turbo_ghz - (platform.turbo_ghz - platform.frequency_ghz) * active


@dataclass(frozen=True)
class Crowding:
    """What the other tenants on the same CPUs do to a thread that wakes up.

    `probability` that no CPU is idle and somebody else runs, `competitors` the other runnable threads per CPU.
    """

    probability: float
    competitors: float


def crowding(areas: CpuMap, used: Sequence[Sequence[float]], runnable: Sequence[float], tenant: int) -> Crowding:
    """How crowded a tenant's CPUs are. `runnable[j]` are the threads of tenant j that want to run at one time."""
    cpus = areas.cpus_of(tenant)
    mine = areas.areas_of[tenant]
    busy = sum(sum(row[a] for row in used) for a in mine) / cpus
    own = sum(used[tenant][a] for a in mine) / cpus
    competitors = 0.0
    for other, threads in enumerate(runnable):
        if other == tenant:
            continue
        common = sum(areas.sizes[a] for a in mine if other in areas.members[a])
        competitors += common * threads / max(areas.cpus_of(other), 1)
    busy = min(busy, 1.0)
    return Crowding(busy**cpus * max(busy - own, 0.0) / max(busy, _EPSILON), competitors / cpus)
