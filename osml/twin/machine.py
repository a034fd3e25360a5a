"""The machine of a record as the virtual node has it: a catalog's machine, or one that is like it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from msgspec import structs

from osml.allocation.throttle_units import gbps_of
from osml.domain import Assignment, Knobs, Partition, Platform, usable_domains
from osml.domain.cpu_names import short_name
from osml.domain.cpulist import parse_cpulist
from osml.simulator import catalogs
from osml.simulator.models import PlatformModel
from osml.simulator.state import Grant

_LIKE = ("e5-2697v4", "gold-5220r", "gold-6338")
"""Server machines of three generations, with hyperthreads."""

_WAYS = 16  # of a cache that can't be partitioned: any number that can be shared by all


def machine_of(platform: Platform) -> PlatformModel:
    """The machine: what the record says of it, and the rest from the catalog's machine that is most like it."""
    named = next((name for name in catalogs.platform_names() if short_name(name) == short_name(platform.id)), None)
    if named is not None:
        known = catalogs.platform(named)
        if (known.cpus, known.ways) == (len(parse_cpulist(platform.cpus)), platform.ways):
            return known
    cpus = len(parse_cpulist(platform.cpus))
    clock = platform.frequency_ghz
    models = [catalogs.platform(name) for name in _LIKE]
    like = min(models, key=lambda one: abs(one.frequency_ghz - (clock or one.frequency_ghz)))
    ratio, speed = cpus / like.cpus, 1.0 if clock is None else clock / like.frequency_ghz
    cache_mib = like.ways * like.way_mib * ratio
    ways = platform.ways or _WAYS
    paired = platform.siblings and all(len(pair) == 2 for pair in platform.siblings)
    return replace(
        like,
        id=platform.id,
        cpus=cpus,
        physical_cores=cpus // 2 if paired and cpus % 2 == 0 else cpus,
        frequency_ghz=like.frequency_ghz * speed,
        all_core_ghz=like.all_core_ghz * speed,
        turbo_ghz=like.turbo_ghz * speed,
        ways=ways,
        way_mib=platform.way_mib or cache_mib / ways,
        bandwidth_gbps=platform.bandwidth_gbps or like.bandwidth_gbps * ratio,
        llc_gbps=like.llc_gbps * ratio,
        memory_gib=max(platform.memory_gib or like.memory_gib * ratio, 2.0),
        reserved_gib=min(like.reserved_gib, 0.2 * (platform.memory_gib or like.memory_gib * ratio)),
        mba=platform.mba is not None and platform.mba.unit == "percent",
        cpu_groups=True,
        eevdf=True,
    )


def caches_of(platform: Platform) -> int:
    """Last-level caches behind the CPUs of the machine, 1 where the agent does not tell them. A twin has one."""
    return max(1, len(usable_domains(platform)))


@lru_cache(maxsize=256)
def _numbers(cpus: str, siblings: tuple[tuple[int, ...], ...]) -> Mapping[int, int]:
    """The machine's CPU ids as the virtual node counts them: siblings are i and i + half."""
    known = parse_cpulist(cpus)
    pairs = [pair for pair in siblings if len(pair) == 2]
    if len(pairs) * 2 == len(known):
        half = len(pairs)
        return {cpu: core + thread * half for core, pair in enumerate(pairs) for thread, cpu in enumerate(pair)}
    return {cpu: at for at, cpu in enumerate(known)}


NOT_MODELLED = ("memory_mib", "disk_iops", "network_mbps")
"""Levers that do nothing on a twin: it knows neither memory that is full, nor disks, nor the network."""


def modelled(platform: Platform) -> Platform:
    """The machine of the record as a policy sees it on a twin: without the levers that do nothing there."""
    return structs.replace(platform, regions_in_domains=False, **dict.fromkeys(NOT_MODELLED))


def modelled_partition(partition: Partition) -> Partition:
    """The same without what those levers were set to."""
    knobs = {name: structs.replace(one, **dict.fromkeys(NOT_MODELLED)) for name, one in partition.knobs.items()}
    return structs.replace(partition, knobs={name: one for name, one in knobs.items() if one != Knobs()})


def grant_in_force(
    assignment: Assignment | None, platform: Platform, machine: PlatformModel, quota: float | None = None
) -> Grant:
    """What a tenant may use; without an assignment all CPUs and ways, and `quota` CPUs where it has a limit."""
    every = frozenset(range(machine.cpus))
    full = (1 << machine.ways) - 1
    if assignment is None:
        return Grant(every, full, cpu_quota=quota)
    cpus = every
    if assignment.cpus is not None:
        numbers = _numbers(platform.cpus, tuple(tuple(pair) for pair in platform.siblings))
        cpus = frozenset(numbers[cpu] for cpu in parse_cpulist(assignment.cpus) if cpu in numbers) or every
    mask = full if assignment.way_mask is None else int(assignment.way_mask, 16) & full or full
    knobs = assignment.knobs or Knobs()
    percent: float | None = assignment.mba
    gbps: float | None = None
    if percent is not None and platform.mba is not None and platform.mba.unit == "eighth_gbps":
        percent, gbps = None, None if percent >= platform.mba.max else gbps_of(int(percent), platform.mba, 0.0)
    if percent is not None and (platform.mba is None or platform.mba.unit != "percent"):
        percent = min(100.0, percent / machine.bandwidth_gbps / 10.0)  # MB/s of the software regulator
    limits = [limit for limit in (assignment.cpu_quota, quota) if limit is not None]
    return Grant(
        cpus,
        mask,
        cpu_quota=min(limits) if limits else None,
        cpu_weight=100.0 if assignment.cpu_weight is None else assignment.cpu_weight,
        mba_percent=percent,
        mba_gbps=gbps,
        frequency_ghz=None if knobs.frequency_mhz is None else knobs.frequency_mhz / 1e3,
        priority=knobs.realtime_priority or 0,
        slice_ms=knobs.slice_ms,
    )
