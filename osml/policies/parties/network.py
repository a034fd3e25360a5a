"""PARTIES' adjust_network_bandwidth_partition (ASPLOS 2019, section 4.2.1): a threshold, not a resource to trade.

Below 0.5 Gbps of bandwidth slack a service gets one step more, above 1 Gbps it gives one step back.
"""

from __future__ import annotations

from collections.abc import Mapping

from osml.allocation.division import Division
from osml.allocation.holding import POOL
from osml.domain import Reason, Service

GROW_BELOW_MBPS, SHRINK_ABOVE_MBPS = 500.0, 1000.0


def adjust_network(division: Division, services: Mapping[str, Service], pool_label: str) -> list[Reason]:
    """Adjust all services at once; those who give first, then those who take, the smallest slack first.

    A service whose traffic is not measured keeps what it has.
    """
    holding = division.holdings.get("network")
    if holding is None or holding.scale is None:
        return []
    slack: dict[str, float] = {}
    for name, service in services.items():
        if service.counters.network_mbps is not None:
            slack[name] = holding.scale.amount(holding.own.get(name, 0)) - service.counters.network_mbps
    reasons: list[Reason] = []
    for name in sorted(slack, key=lambda name: (-slack[name], name)):
        if slack[name] > SHRINK_ABOVE_MBPS and division.move("network", name, POOL):
            text = (
                f"{name} gives 1 unit of network to {pool_label}: "
                f"it has {slack[name]:.0f} Mbit/s unused, above {SHRINK_ABOVE_MBPS:g}"
            )
            reasons.append(Reason(text=text, service=name, resource="network", change=-1))
    for name in sorted(slack, key=lambda name: (slack[name], name)):
        if slack[name] >= GROW_BELOW_MBPS:
            continue
        left = f"it has {slack[name]:.0f} Mbit/s unused, below {GROW_BELOW_MBPS:g}"
        if division.move("network", POOL, name):
            text = f"{name} gets 1 unit of network from {pool_label}: {left}"
            reasons.append(Reason(text=text, service=name, resource="network", change=1))
        else:
            text = f"{name}: {left}, and {pool_label} has no network bandwidth left"
            reasons.append(Reason(text=text, service=name))
    return reasons
