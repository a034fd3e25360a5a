"""Memory bandwidth by predicted need (OSML section 5.1: BW_j / sum of BW_i), where the platform throttles it (MBA)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from osml.domain import Partition
from osml.layout.arrange import legal_throttle
from osml.policies.osml_node import Node

_ROOM = 1.2  # bandwidth of the OAA is a mean: seconds need more


def with_bandwidth(node: Node, partition: Partition, gbps: Mapping[str, float | None]) -> Partition:
    """The partition with a throttle for everybody, where the platform has them and all needs are predicted.

    Services get the platform's bandwidth in proportion to that of their OAAs, GB/s; BE jobs what these needs leave. As
    long as the cells are the same, the throttles stay as they are: predictions differ a little in every interval.
    """
    platform, before = node.observation.platform, node.observation.partition
    needs = {name: need for service in node.lc if (need := gbps.get(name := service.name)) is not None}
    if platform.mba is None:
        return partition
    if before is not None and before.mba and before.regions == partition.regions:
        return replace(partition, mba=before.mba)
    if not needs or len(needs) < len(node.lc):
        return partition
    total, most = sum(needs.values()), platform.mba.max
    mba = {name: legal_throttle(max(1, round(most * need / total)), platform.mba) for name, need in needs.items()}
    if node.be and platform.bandwidth_gbps is not None:
        left = max(1, round(most * (1.0 - _ROOM * total / platform.bandwidth_gbps)))  # 0 is no throttle
        left = legal_throttle(left, platform.mba)
        mba |= dict.fromkeys(node.be, left)
    return replace(partition, mba=mba)
