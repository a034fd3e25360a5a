"""Memory: latency under load, and the fixed point between traffic and the programs that it slows down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from osml.virtual.models import PlatformModel

MAX_UTILISATION = 0.95  # the controllers keep some order beyond this: the rest of the wait is each program's own


@dataclass(frozen=True)
class Traffic:
    """What one tenant asks of the memory.

    A closed tenant (a BE job) runs `busy` CPUs all the time and moves bytes_per_event each
    compute_ns + stall * latency; an open one (an LC service) moves `open_gbps` whatever the latency is.
    """

    busy: float
    bytes_per_event: float
    compute_ns: float
    stall: float
    open_gbps: float | None = None
    cap_gbps: float | None = None

    def gbps(self, latency_ns: float) -> float:
        """Traffic at a memory latency; bytes per ns are GB/s."""
        if self.open_gbps is not None:
            return self.open_gbps
        return self.busy * self.bytes_per_event / (self.compute_ns + self.stall * latency_ns)

    def latency_for(self, gbps: float) -> float:
        """The latency in ns at which `busy` CPUs move just `gbps`."""
        if self.stall <= 0 or gbps <= 0:
            return 0.0
        return max(0.0, (self.busy * self.bytes_per_event / gbps - self.compute_ns) / self.stall)


def latency_ns(platform: PlatformModel, utilisation: float) -> float:
    """t(u) = t0 (1 + a u^b/(1 - u)), the utilisation taken no higher than MAX_UTILISATION."""
    u = min(max(utilisation, 0.0), MAX_UTILISATION)
    return platform.memory_latency_ns * (1.0 + platform.latency_rise * u**platform.latency_power / (1.0 - u))


def fair_bandwidth(demands: Sequence[float], weights: Sequence[float], capacity: float) -> list[float]:
    """Max-min fair split of the capacity: who asks for less than its share gets all of it."""
    granted = [0.0] * len(demands)
    waiting: list[int] = [i for i, demand in enumerate(demands) if demand > 0]
    left = capacity
    while waiting:
        level = left / sum(weights[i] for i in waiting)
        modest = [i for i in waiting if demands[i] <= level * weights[i]]
        if not modest:
            for i in waiting:
                granted[i] = level * weights[i]
            break
        for i in modest:
            granted[i] = demands[i]
            left -= demands[i]
        waiting = [i for i in waiting if demands[i] > level * weights[i]]
    return granted


def settle(platform: PlatformModel, tenants: Sequence[Traffic]) -> list[float]:
    """The memory latency in ns that each tenant sees once traffic and latency agree.

    Below saturation all see t(u). At saturation who asks for more than its fair share waits longer, until its traffic
    fits; the same holds for a tenant at its own cap (MBA).
    """
    usable = platform.bandwidth_gbps * platform.usable_bandwidth

    def asked(latency: float) -> list[float]:
        return [min(t.gbps(latency), t.cap_gbps or float("inf")) for t in tenants]

    low, high = 0.0, MAX_UTILISATION
    if sum(asked(latency_ns(platform, high))) >= usable * high:
        low = high
    else:
        for _ in range(20):
            middle = (low + high) / 2.0
            if sum(asked(latency_ns(platform, middle))) > usable * middle:
                low = middle
            else:
                high = middle
    common = latency_ns(platform, low)
    demands = asked(common)
    granted = demands
    if low >= MAX_UTILISATION:
        granted = fair_bandwidth(demands, [max(t.busy, 0.01) for t in tenants], usable * MAX_UTILISATION)
    seen: list[float] = []
    for tenant, grant in zip(tenants, granted, strict=True):
        own = common
        if tenant.cap_gbps is not None:  # a throttled tenant queues for its own slice of the memory
            own *= latency_ns(platform, tenant.gbps(common) / tenant.cap_gbps) / platform.memory_latency_ns
        if tenant.gbps(common) > grant * 1.000001:
            own = max(own, tenant.latency_for(grant))
        seen.append(own)
    return seen
