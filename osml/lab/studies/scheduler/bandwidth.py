"""Quota of CPU time (cpu.max, CFS bandwidth control): a pool a period, slices of it on each CPU, what goes back."""

from __future__ import annotations

from osml.base.jit import lean
from osml.lab.studies.scheduler.columns import K_QUOTA_SLICE, Q_QUOTA, T_POOL, T_REFILL, T_SLACK, Node
from osml.lab.studies.scheduler.events import put

_KEPT_MS = 1.0
"""A CPU keeps so much when it returns quota (min_cfs_rq_runtime)."""

_SLACK_MS = 5.0
"""Returned quota is handed out after so long (cfs_bandwidth_slack_period)."""

_NEAR_REFILL_MS = 2.0
"""... unless the next refill is as near as this (min_bandwidth_expiration)."""


@lean
def ask_quota(node: Node, tenant: int, q: int) -> None:
    """Give a CPU another slice out of the tenant's pool, where it has none left (assign_cfs_rq_runtime)."""
    left, row = node.queue[q, Q_QUOTA], node.tenant[tenant]
    if left <= 0.0:
        given = min(node.kernel[K_QUOTA_SLICE] - left, row[T_POOL])
        row[T_POOL] -= given
        node.queue[q, Q_QUOTA] = left + given


@lean
def return_quota(node: Node, tenant: int, q: int, now: float) -> None:
    """A CPU that no thread of the group needs gives back what it has (return_cfs_rq_runtime)."""
    row, slack = node.tenant[tenant], node.queue[q, Q_QUOTA] - _KEPT_MS
    if slack <= 0.0:
        return
    row[T_POOL] += slack
    node.queue[q, Q_QUOTA] = _KEPT_MS
    wanted = row[T_POOL] > node.kernel[K_QUOTA_SLICE]
    if wanted and row[T_SLACK] > 1e17 and now + _SLACK_MS + _NEAR_REFILL_MS < row[T_REFILL]:
        row[T_SLACK] = now + _SLACK_MS
        put(node, tenant, min(row[T_SLACK], row[T_REFILL]))
