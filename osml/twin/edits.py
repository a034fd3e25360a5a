"""What can be changed in a world: who is there, what they may use, how fast the machine is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from osml.base.failure import InputError
from osml.simulator import catalogs
from osml.simulator import columns as c
from osml.simulator.models import JobModel, MemoryBehaviour, PlatformModel, ServiceModel, on_platform
from osml.simulator.state import Grant, Node, NodeInputError
from osml.twin.world import World, flows_in, outcome

Edit = Callable[[World, int], World]
"""A change; the number is that of the member, for what differs between members."""

_BUSY = 0.6
"""Share of their own CPUs that services use at most where they get CPUs of their own."""

NEWER_IPC, NEWER_BANDWIDTH, NEWER_CACHE = 1.19, 1.45, 1.09
"""From Xeon Scalable of the second generation (Cascade Lake) to the third (Ice Lake): 8 channels of DDR4-3200 after 6
of DDR4-2933, and 1.5 MiB of cache a core after 1.375. The gain in instructions a cycle is assumed."""

_NEWER_SPREAD = 0.06


@dataclass(frozen=True)
class Newcomer:
    """Somebody who comes: `model` of a member, and of a service its requests/s.

    These are `rate`, or where that is None a `share` of the max load that the model has on the machine. `quota` is the
    CPU limit of its own that it brings, in a member; None: no limit.
    """

    model: Callable[[int, PlatformModel], ServiceModel | JobModel]
    rate: float | None
    percentile: str = "p99"
    share: float = 0.0
    quota: Callable[[int], float | None] | None = None


def whole(platform: PlatformModel) -> Grant:
    """All CPUs and all ways."""
    return Grant(frozenset(range(platform.cpus)), (1 << platform.ways) - 1)


def _checked(node: Node, services: tuple[ServiceModel, ...], jobs: tuple[JobModel, ...]) -> Node:
    try:
        return Node(node.platform, services, jobs)
    except NodeInputError as error:
        raise InputError(str(error)) from None


def removed(name: str) -> Edit:
    """Somebody goes."""

    def edit(world: World, _member: int) -> World:
        _known(world, name)
        node = world.node
        services = tuple(one for one in node.services if one.name != name)
        jobs = tuple(one for one in node.jobs if one.name != name)
        return replace(
            world,
            node=_checked(node, services, jobs),
            grants={other: grant for other, grant in world.grants.items() if other != name},
        )

    return edit


def added(newcomer: Newcomer) -> Edit:
    """Somebody comes; where there is one of that name, as NAME-added, NAME-added-2 and so on."""

    def edit(world: World, member: int) -> World:
        node = world.node
        model = newcomer.model(member, node.platform)
        model = replace(model, name=_free(model.name, node.names))
        rates, services, jobs = dict(world.rates), node.services, node.jobs
        if isinstance(model, ServiceModel):
            services = (*services, model)
            rates[model.name] = newcomer.share * model.max_load if newcomer.rate is None else newcomer.rate
        else:
            jobs = (*jobs, model)
        limit = None if newcomer.quota is None else newcomer.quota(member)
        grants = {**world.grants, model.name: replace(whole(node.platform), cpu_quota=limit)}
        percentiles = {**world.percentiles, model.name: newcomer.percentile}
        return World(_checked(node, services, jobs), grants, rates, percentiles)

    return edit


def _free(name: str, taken: Sequence[str]) -> str:
    """The name, or that of one more of the same where it is taken."""
    found, number = name, 1
    while found in taken:
        found, number = f"{name}-added" + (f"-{number}" if number > 1 else ""), number + 1
    return found


def catalog_newcomer(name: str, load: float | None) -> Newcomer:
    """A service of the catalog at a share of its max load, or a job of it. InputError lists what is known."""
    if load is None:
        if name not in catalogs.job_names():
            raise InputError(f"job '{name}' is not in the catalog; known are {', '.join(catalogs.job_names())}")
        return Newcomer(lambda _member, platform: on_platform(catalogs.job(name), platform), None)
    if name not in catalogs.service_names():
        raise InputError(f"service '{name}' is not in the catalog; known are {', '.join(catalogs.service_names())}")
    home = catalogs.service(name)

    def model(_member: int, platform: PlatformModel) -> ServiceModel:
        return catalogs.scaled_to(home, catalogs.platform(home.platform), platform)

    return Newcomer(model, None, home.percentile, load)


def _known(world: World, name: str) -> Grant:
    if name not in world.grants:
        raise InputError(f"'{name}' is not on the machine; there are {', '.join(world.node.names)}")
    return world.grants[name]


def granted(name: str, change: Callable[[Grant, PlatformModel], Grant]) -> Edit:
    """Another grant of one tenant."""

    def edit(world: World, _member: int) -> World:
        return world.with_grant(name, change(_known(world, name), world.node.platform))

    return edit


def quota(name: str, cpus: float | None) -> Edit:
    """Another CPU quota; None: no limit."""
    return granted(name, lambda grant, _platform: replace(grant, cpu_quota=cpus))


def weight(name: str, value: float) -> Edit:
    """Another cpu.weight (1 to 10000; 100 is usual)."""
    return granted(name, lambda grant, _platform: replace(grant, cpu_weight=value))


def first_ways(name: str, count: int) -> Edit:
    """So many ways, from the first on; others may use them too."""

    def change(grant: Grant, platform: PlatformModel) -> Grant:
        if not 1 <= count <= platform.ways:
            raise InputError(f"ways of '{name}' are {count}, expected 1 to {platform.ways}")
        return replace(grant, way_mask=(1 << count) - 1)

    return granted(name, change)


def cpu_count(name: str, count: int) -> Edit:
    """So many CPUs, siblings together, from the first on; others may use them too."""

    def change(grant: Grant, platform: PlatformModel) -> Grant:
        if not 1 <= count <= platform.cpus:
            raise InputError(f"CPUs of '{name}' are {count}, expected 1 to {platform.cpus}")
        return replace(grant, cpus=frozenset(platform.cpu_order()[:count]))

    return granted(name, change)


def bandwidth(name: str, percent: float) -> Edit:
    """Memory bandwidth throttled to a share (MBA)."""
    return granted(name, lambda grant, _platform: replace(grant, mba_percent=percent))


def jobs_bandwidth(percent: float) -> Edit:
    """Memory bandwidth of all jobs throttled to a share (MBA)."""
    return _of_jobs(lambda grant: replace(grant, mba_percent=percent))


def jobs_bandwidth_at_most(percent: float) -> Edit:
    """Memory bandwidth of all jobs throttled to a share, but for those that have less already (MBA)."""
    return _of_jobs(lambda grant: replace(grant, mba_percent=min(percent, grant.mba_percent or percent)))


def jobs_weight(value: float) -> Edit:
    """Another cpu.weight of all jobs."""
    return _of_jobs(lambda grant: replace(grant, cpu_weight=value))


def _of_jobs(change: Callable[[Grant], Grant]) -> Edit:
    def edit(world: World, _member: int) -> World:
        grants = {name: change(grant) if name in world.jobs else grant for name, grant in world.grants.items()}
        return replace(world, grants=grants)

    return edit


def load(name: str, factor: float) -> Edit:
    """So many times the requests."""

    def edit(world: World, _member: int) -> World:
        _known(world, name)
        if name in world.jobs:
            raise InputError(f"'{name}' is a job, which has no load; services are {', '.join(world.services)}")
        return replace(world, rates={**world.rates, name: world.rates.get(name, 0.0) * factor})

    return edit


def newer_cpu() -> Edit:
    """One CPU generation newer: more instructions a cycle, more bandwidth and cache a CPU, the same clock and CPUs.

    What a program gains from a generation differs: members differ by it, too.
    """

    def edit(world: World, member: int) -> World:
        node = world.node
        gain = NEWER_IPC * math.exp(_NEWER_SPREAD * float(np.random.default_rng(member).standard_normal()))
        machine = replace(
            node.platform,
            way_mib=node.platform.way_mib * NEWER_CACHE,
            bandwidth_gbps=node.platform.bandwidth_gbps * NEWER_BANDWIDTH,
            llc_gbps=node.platform.llc_gbps * gain,
        )
        services = tuple(replace(one, memory=_faster(one.memory, gain)) for one in node.services)
        jobs = tuple(replace(one, memory=_faster(one.memory, gain)) for one in node.jobs)
        return replace(world, node=Node(machine, services, jobs))

    return edit


def _faster(memory: MemoryBehaviour, gain: float) -> MemoryBehaviour:
    return replace(memory, cpi=memory.cpi / gain)


def own_cpus(world: World) -> Edit:
    """CPUs of its own for every service, as many as it needs, and the rest for all jobs; found on this world."""
    platform, names = world.node.platform, world.services
    rows = flows_in(world)
    left = platform.cpus - (2 if world.jobs else 0)
    wants = [max(1.0, float(rows[at, c.F_CPU_S]) / _BUSY) for at in range(len(names))]
    if sum(wants) < left:  # what nobody needs is divided, but jobs keep half of it
        spare = (left - sum(wants)) * (0.5 if world.jobs else 1.0)
        wants = [want + spare * want / sum(wants) for want in wants]
    scale = min(1.0, left / sum(wants)) if wants else 1.0
    counts = [max(1, math.floor(want * scale)) for want in wants]
    order, at = platform.cpu_order(), 0
    given: dict[str, frozenset[int]] = {}
    for name, count in zip(names, counts, strict=True):
        given[name] = frozenset(order[at : at + count] or order[-1:])
        at += count
    rest = frozenset(order[at:] or order[-1:])

    def edit(other: World, _member: int) -> World:
        grants = {name: replace(grant, cpus=given.get(name, rest)) for name, grant in other.grants.items()}
        return replace(other, grants=grants)

    return edit


def _masks(counts: Mapping[str, int], jobs: list[str]) -> dict[str, int]:
    """Adjacent ways for each; all jobs have the same."""
    found: dict[str, int] = {}
    at = 0
    for name, count in counts.items():
        mask = ((1 << count) - 1) << at
        at += count
        if name:
            found[name] = mask
        else:
            found.update(dict.fromkeys(jobs, mask))
    return found


def own_ways(world: World, targets: Mapping[str, float]) -> Edit:
    """Cache ways of its own for every service and for all jobs together (CAT), as the twin finds best.

    A way is moved from one to another as long as the latencies over their targets fall; found on this world.
    """
    names, jobs = world.services, world.jobs
    places = [*names, *([""] if jobs else [])]
    ways = world.node.platform.ways
    if len(places) > ways:
        raise InputError(f"{len(places)} services and jobs for {ways} ways, expected at most one each")
    counts = {name: ways // len(places) + (at < ways % len(places)) for at, name in enumerate(places)}

    def given(split: Mapping[str, int], other: World) -> World:
        masks = _masks(split, other.jobs)
        full = (1 << ways) - 1
        grants = {name: replace(grant, way_mask=masks.get(name, full)) for name, grant in other.grants.items()}
        return replace(other, grants=grants)

    def cost(split: Mapping[str, int]) -> float:
        found = outcome(given(split, world))
        late = sum(math.log(found[name] / goals[name]) for name in names)
        over = sum(max(0.0, math.log(found[name] / goals[name])) for name in names)
        return late + 10.0 * over - 0.3 * sum(found[name] for name in jobs)

    goals = {**outcome(given(counts, world)), **targets}  # who has no target is to keep what an even split gives
    best = cost(counts)
    for _ in range(2 * ways):
        moves = [(a, b) for a in places for b in places if a != b and counts[a] > 1]
        tried = [({**counts, a: counts[a] - 1, b: counts[b] + 1}) for a, b in moves]
        costs = [cost(split) for split in tried]
        if not costs or min(costs) >= best - 1e-3:
            break
        best = min(costs)
        counts = tried[costs.index(best)]
    chosen = dict(counts)
    return lambda other, _member: given(chosen, other)
