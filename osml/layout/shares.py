"""The regions of a partition in the form that the layout works on: one share for each set of owners."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from osml.domain import Assignment, Partition
from osml.domain.cpulist import parse_cpulist

Owners = frozenset[str]
NOBODY: Owners = frozenset()


class Share(NamedTuple):
    """`size` CPUs or ways that exactly these services use."""

    owners: Owners
    size: int


def core_shares(partition: Partition) -> list[Share]:
    """Cores by set of owners; regions with the same owners are one share. In the order of the regions."""
    return _merge((frozenset(region.owners), region.cores) for region in partition.regions)


def way_shares(partition: Partition) -> list[Share]:
    """Ways by set of owners."""
    return _merge((frozenset(region.owners), region.ways) for region in partition.regions)


def _merge(parts: Iterable[tuple[Owners, int]]) -> list[Share]:
    merged: dict[Owners, int] = {}
    for owners, count in parts:
        if count:
            merged[owners] = merged.get(owners, 0) + count
    return [Share(owners, count) for owners, count in merged.items()]


def cpu_history(previous: Sequence[Assignment], names: Sequence[str]) -> dict[int, Owners]:
    """CPU id -> services (of those that are still here) that used it. CPUs of nobody are left out."""
    users: dict[int, set[str]] = {}
    for assignment in previous:
        if assignment.cpus and assignment.service in names:
            for cpu in parse_cpulist(assignment.cpus):
                users.setdefault(cpu, set()).add(assignment.service)
    return {cpu: frozenset(owners) for cpu, owners in users.items()}


def mask_history(previous: Sequence[Assignment], names: Sequence[str]) -> dict[str, int]:
    """Service -> the way mask that it had."""
    return {a.service: int(a.way_mask, 16) for a in previous if a.way_mask and a.service in names}


def bit_history(masks: Mapping[str, int], n_ways: int) -> dict[int, Owners]:
    """Bit -> services that had it."""
    return {bit: frozenset(name for name, mask in masks.items() if mask >> bit & 1) for bit in range(n_ways)}
