"""What a CPU offers through resctrl."""

from __future__ import annotations

from dataclasses import dataclass

from osml.simulator.board import cpus_of, domain_count
from osml.simulator.models import PlatformModel
from osml.simulator.node_platform import UNLIMITED_EIGHTHS


@dataclass(frozen=True)
class Throttle:
    """Memory-bandwidth throttle from `low` to `high` in steps of `step`: percent, or AMD's eighths of a GB/s."""

    low: int = 10
    step: int = 10
    high: int = 100
    eighths: bool = False


@dataclass(frozen=True)
class RdtProfile:
    """One machine as resctrl sees it. `domains` are (L3 cache id, its CPUs) in ascending order."""

    n_cpus: int
    domains: tuple[tuple[int, frozenset[int]], ...]
    cache_bytes: int
    cbm_bits: int
    n_closids: int
    shareable_bits: int = 0
    min_cbm_bits: int = 1
    sparse_masks: bool = False
    throttle: Throttle | None = None
    n_rmids: int = 64
    monitor_scale: int = 65536

    @property
    def full_mask(self) -> int:
        """All ways."""
        return (1 << self.cbm_bits) - 1

    @property
    def events(self) -> tuple[str, ...]:
        """The monitored events."""
        return ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes")


PERCENT = Throttle()
EIGHTHS = Throttle(low=0, step=1, high=UNLIMITED_EIGHTHS, eighths=True)


def rdt_profile(platform: PlatformModel, sockets: int = 1) -> RdtProfile:
    """The profile of so many sockets of a platform of the catalog: L3 domains have ids from 0."""
    count, amd = domain_count(platform, sockets), platform.vendor == "amd"
    return RdtProfile(
        n_cpus=platform.cpus * count,
        domains=tuple((number, frozenset(cpus_of(platform, sockets, number))) for number in range(count)),
        cache_bytes=round(platform.ways * platform.way_mib * 2**20),
        cbm_bits=platform.ways,
        n_closids=platform.max_groups,
        min_cbm_bits=0 if amd else 1,
        sparse_masks=amd,
        throttle=(EIGHTHS if amd else PERCENT) if platform.mba else None,
        n_rmids=4 * platform.cpus * count,
    )
