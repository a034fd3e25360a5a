"""Groups of tenants: their weight on each CPU, and which threads are runnable there (enqueue_task_fair and so on)."""

from __future__ import annotations

import math

from osml.base.jit import lean
from osml.lab.studies.scheduler.bandwidth import ask_quota, return_quota
from osml.lab.studies.scheduler.columns import (
    A_THROTTLES,
    E_DEADLINE,
    E_WEIGHT,
    I_GROUP,
    I_IDLE,
    I_PRIORITY,
    K_EEVDF,
    K_IDLE_CPUS,
    K_ORDER,
    L_CPU,
    L_POSITION,
    L_TENANT,
    MAX_CPUS,
    MAX_THREADS,
    N_COUNT,
    N_IDLERS,
    N_RUNNABLE,
    N_THROTTLED,
    Q_AVERAGE,
    Q_AVERAGE_AT,
    Q_LOAD,
    Q_QUOTA,
    Q_SINCE,
    REALTIME,
    T_LOAD,
    T_QUOTA,
    T_SUM,
    T_SUM_AT,
    T_WEIGHT,
    Node,
)
from osml.lab.studies.scheduler.fair import join, leave, place, reweigh

_MEMORY_MS = 32.0 / math.log(2.0)
"""Load averages halve in 32 ms (PELT)."""

_LEAST = 2.0 / 1024.0**2
"""MIN_SHARES: 2, where weights of nice 0 are scaled up to 1024 * 1024 (kernel/sched/fair.c: calc_group_shares)."""


@lean
def group_queue(tenant: int, cpu: int) -> int:
    """The queue of a tenant's group on a CPU."""
    return MAX_CPUS * (tenant + 1) + cpu


@lean
def group_entity(tenant: int, cpu: int) -> int:
    """The entity that stands for a tenant's group in the root queue of a CPU."""
    return MAX_THREADS + tenant * MAX_CPUS + cpu


@lean
def home_queue(node: Node, thread: int, cpu: int) -> int:
    """The queue that a thread belongs into on a CPU."""
    t = node.link[thread, L_TENANT]
    if node.info[t, I_PRIORITY] > 0:
        return REALTIME + cpu
    return group_queue(t, cpu) if node.info[t, I_GROUP] > 0 else cpu


@lean
def _change_load(node: Node, tenant: int, q: int, change: float, now: float) -> None:
    """Bring the load averages up to date, before the load of a group's queue changes."""
    row, queue = node.tenant[tenant], node.queue
    if now > row[T_SUM_AT]:
        kept = math.exp((row[T_SUM_AT] - now) / _MEMORY_MS)
        row[T_SUM] = row[T_SUM] * kept + row[T_LOAD] * (1.0 - kept)
        row[T_SUM_AT] = now
    if now > queue[q, Q_AVERAGE_AT]:
        kept = math.exp((queue[q, Q_AVERAGE_AT] - now) / _MEMORY_MS)
        queue[q, Q_AVERAGE] = queue[q, Q_AVERAGE] * kept + queue[q, Q_LOAD] * (1.0 - kept)
        queue[q, Q_AVERAGE_AT] = now
    row[T_LOAD] += change


@lean
def share_of(node: Node, tenant: int, q: int, now: float) -> float:
    """Weight of a group on one CPU: its own times what is runnable here over that everywhere (calc_group_shares)."""
    _change_load(node, tenant, q, 0.0, now)
    average = node.queue[q, Q_AVERAGE]
    here = max(node.queue[q, Q_LOAD], average)
    everywhere = max(node.tenant[tenant, T_SUM] - average, 0.0) + here
    whole = node.tenant[tenant, T_WEIGHT]
    if everywhere <= 0.0:
        return whole
    return min(max(whole * here / everywhere, _LEAST), whole)


@lean
def update_group(node: Node, tenant: int, cpu: int, now: float) -> None:
    """Give a group's entity on a CPU the weight that it should have now (update_cfs_group)."""
    q = group_queue(tenant, cpu)
    if node.number[q, N_COUNT] > 0:
        reweigh(node, group_entity(tenant, cpu), share_of(node, tenant, q, now))


@lean
def _count(node: Node, tenant: int, cpu: int, threads: int) -> None:
    before = node.number[cpu, N_RUNNABLE]
    node.number[cpu, N_RUNNABLE] = before + threads
    if before == 0 and threads > 0:
        node.kernel[K_IDLE_CPUS] -= 1.0
    elif threads < 0 and before + threads == 0:
        node.kernel[K_IDLE_CPUS] += 1.0
    if node.info[tenant, I_IDLE] > 0:
        node.number[cpu, N_IDLERS] += threads


@lean
def attach_group(node: Node, tenant: int, cpu: int, now: float) -> None:
    """Put a group's entity into the root queue of a CPU, unless it has no quota left there."""
    q, e = group_queue(tenant, cpu), group_entity(tenant, cpu)
    if node.tenant[tenant, T_QUOTA] < math.inf:
        ask_quota(node, tenant, q)
        if node.queue[q, Q_QUOTA] <= 0.0:
            throttle(node, tenant, cpu, now)
            return
    weight = share_of(node, tenant, q, now)
    reweigh(node, e, weight)
    place(node, e, cpu, node.info[tenant, I_IDLE] > 0)
    join(node, e, cpu)
    _count(node, tenant, cpu, node.number[q, N_COUNT])


@lean
def throttle(node: Node, tenant: int, cpu: int, now: float) -> None:
    """Take a group off a CPU until it has quota again; what it runs there must be replaced by the caller."""
    q, e = group_queue(tenant, cpu), group_entity(tenant, cpu)
    if node.link[e, L_POSITION] >= 0:
        leave(node, e)
        _count(node, tenant, cpu, -node.number[q, N_COUNT])
    if node.number[q, N_THROTTLED] == 0:
        node.number[q, N_THROTTLED] = 1
        node.sums[tenant, A_THROTTLES] += 1.0
        node.queue[q, Q_SINCE] = now


@lean
def enqueue(node: Node, thread: int, cpu: int, now: float, slept: bool) -> None:
    """Make a thread runnable on a CPU. `slept`: it is placed anew, otherwise it comes with its virtual runtime."""
    t, q = node.link[thread, L_TENANT], home_queue(node, thread, cpu)
    node.link[thread, L_CPU] = cpu
    if node.info[t, I_PRIORITY] > 0:
        node.kernel[K_ORDER] += 1.0
        node.entity[thread, E_DEADLINE] = node.kernel[K_ORDER]
        join(node, thread, q)
        _count(node, t, cpu, 1)
        return
    if slept or node.kernel[K_EEVDF] > 0.0:  # EEVDF keeps the lag; the place is always new
        place(node, thread, q, node.info[t, I_IDLE] > 0)
    if node.info[t, I_GROUP] == 0:
        join(node, thread, q)
        _count(node, t, cpu, 1)
        return
    _change_load(node, t, q, node.entity[thread, E_WEIGHT], now)
    join(node, thread, q)
    if node.number[q, N_THROTTLED] > 0:
        return
    e = group_entity(t, cpu)
    if node.link[e, L_POSITION] < 0:
        attach_group(node, t, cpu, now)
    else:
        reweigh(node, e, share_of(node, t, q, now))
        _count(node, t, cpu, 1)


@lean
def dequeue(node: Node, thread: int, now: float) -> None:
    """A thread sleeps or moves away. Its CPU must be accounted up to now."""
    t, cpu = node.link[thread, L_TENANT], node.link[thread, L_CPU]
    q = home_queue(node, thread, cpu)
    if node.info[t, I_PRIORITY] > 0 or node.info[t, I_GROUP] == 0:
        leave(node, thread)
        _count(node, t, cpu, -1)
        return
    _change_load(node, t, q, -node.entity[thread, E_WEIGHT], now)
    leave(node, thread)
    e = group_entity(t, cpu)
    if node.link[e, L_POSITION] < 0:  # throttled
        return
    _count(node, t, cpu, -1)
    if node.number[q, N_COUNT] > 0:
        reweigh(node, e, share_of(node, t, q, now))
        return
    leave(node, e)
    if node.tenant[t, T_QUOTA] < math.inf:
        return_quota(node, t, q, now)
