"""Where a thread that wakes goes, and which waiting thread an idle CPU pulls (select_idle_sibling, newidle_balance)."""

from __future__ import annotations

import math

from osml.base.jit import lean
from osml.lab.studies.scheduler.columns import (
    E_LAST,
    E_V,
    E_WEIGHT,
    I_GROUP,
    I_IDLE,
    I_PRIORITY,
    K_ANY_IDLE,
    K_CORE_FIRST,
    K_EEVDF,
    K_HOT,
    K_IDLE_CPUS,
    L_CPU,
    L_TENANT,
    MAX_CPUS,
    MAX_THREADS,
    N_COUNT,
    N_IDLERS,
    N_RUNNABLE,
    N_SIBLING,
    N_THREAD,
    N_THROTTLED,
    Q_FLOOR,
    Q_LOAD,
    REALTIME,
    S_CPUS,
    Node,
)
from osml.lab.studies.scheduler.groups import dequeue, enqueue, group_entity, group_queue, home_queue


@lean
def _free(node: Node, c: int, idle_class: bool) -> bool:
    """Nobody runs or waits there, or only SCHED_IDLE does."""
    runnable = node.number[c, N_RUNNABLE]
    return runnable == 0 or (not idle_class and node.number[c, N_IDLERS] == runnable)


@lean
def place_to_wake(node: Node, h: int) -> int:
    """CPU for a thread that wakes: where it was if that is idle, else an idle core, an idle CPU, or where it was.

    A real-time thread then looks for a CPU where somebody of lower priority runs.
    """
    t, before, cpus = node.link[h, L_TENANT], node.link[h, L_CPU], node.sizes[S_CPUS]
    idle_class = node.info[t, I_IDLE] > 0
    here = node.may[t, before] > 0 and _free(node, before, idle_class)
    if here and node.kernel[K_CORE_FIRST] == 0.0:
        return before
    found = -1
    scanned = cpus if node.kernel[K_IDLE_CPUS] + node.kernel[K_ANY_IDLE] > 0.0 else 0
    for k in range(scanned):
        c = before + k
        c = c - cpus if c >= cpus else c
        if node.may[t, c] == 0 or not _free(node, c, idle_class):
            continue
        sibling = node.number[c, N_SIBLING]
        if sibling < 0 or node.number[sibling, N_RUNNABLE] == 0:
            return c
        found = c if found < 0 else found
    if found >= 0:
        return found
    priority = node.info[t, I_PRIORITY]
    if priority > 0:
        least, at = priority, -1
        for k in range(cpus):
            c = before + k
            c = c - cpus if c >= cpus else c
            r = node.number[c, N_THREAD]
            level = node.info[node.link[r, L_TENANT], I_PRIORITY] if r >= 0 else 0
            if node.may[t, c] > 0 and level < least:
                least, at = level, c
        if at >= 0:
            return at
    return before


@lean
def move(node: Node, h: int, c: int, now: float) -> None:
    """Move a waiting thread to the queue of another CPU; both CPUs are accounted up to now."""
    source = home_queue(node, h, node.link[h, L_CPU])
    dequeue(node, h, now)
    shift(node, h, source, home_queue(node, h, c))
    enqueue(node, h, c, now, False)


@lean
def shift(node: Node, h: int, source: int, target: int) -> None:
    """CFS: virtual runtime is relative to that of the queue."""
    if node.kernel[K_EEVDF] == 0.0:
        node.entity[h, E_V] += node.queue[target, Q_FLOOR] - node.queue[source, Q_FLOOR]


@lean
def _movable(node: Node, h: int, source: int, c: int, now: float) -> bool:
    t = node.link[h, L_TENANT]
    if node.may[t, c] == 0 or node.number[source, N_THREAD] == h:
        return False
    # A group that is throttled on the target would not run there.
    throttled = node.info[t, I_GROUP] > 0 and node.number[group_queue(t, c), N_THROTTLED] > 0
    return not throttled and now - node.entity[h, E_LAST] >= node.kernel[K_HOT]


@lean
def load_of(node: Node, h: int) -> float:
    """Weight of a waiting thread in the root queue: its part of its group's (task_h_load)."""
    t, c = node.link[h, L_TENANT], node.link[h, L_CPU]
    if node.info[t, I_GROUP] == 0:
        return node.entity[h, E_WEIGHT]
    q = group_queue(t, c)
    return node.entity[group_entity(t, c), E_WEIGHT] * node.entity[h, E_WEIGHT] / node.queue[q, Q_LOAD]


@lean
def waiting_for(node: Node, source: int, c: int, most: float, now: float) -> int:
    """The thread that waits longest on CPU `source` and may move to c, of those with a load of at most `most`."""
    best, at = -1, math.inf
    for k in range(node.number[source, N_COUNT]):
        e = node.lists[source, k]
        if e < MAX_THREADS:
            if node.entity[e, E_LAST] < at and _movable(node, e, source, c, now) and load_of(node, e) <= most:
                best, at = e, node.entity[e, E_LAST]
            continue
        q = group_queue((e - MAX_THREADS) // MAX_CPUS, source)
        for j in range(node.number[q, N_COUNT]):
            h = node.lists[q, j]
            if node.entity[h, E_LAST] < at and _movable(node, h, source, c, now) and load_of(node, h) <= most:
                best, at = h, node.entity[h, E_LAST]
    realtime = REALTIME + source
    for k in range(node.number[realtime, N_COUNT]):
        h = node.lists[realtime, k]
        if node.entity[h, E_LAST] < at and _movable(node, h, source, c, now):
            best, at = h, node.entity[h, E_LAST]
    return best


@lean
def pull_to_idle(node: Node, c: int, now: float) -> int:
    """The waiting thread that an idle CPU pulls, from its sibling or else the busiest CPU; -1: none."""
    sibling = node.number[c, N_SIBLING]
    if sibling >= 0 and node.number[sibling, N_RUNNABLE] > 1:
        h = waiting_for(node, sibling, c, math.inf, now)
        if h >= 0:
            return h
    below = 1 << 30
    while True:  # the busiest first, then whoever is less busy
        busiest, most = -1, 1
        for k in range(node.sizes[S_CPUS]):
            n = node.number[k, N_RUNNABLE]
            if k != c and most < n < below:
                busiest, most = k, n
        if busiest < 0:
            return -1
        for k in range(node.sizes[S_CPUS]):
            if k != c and node.number[k, N_RUNNABLE] == most:
                h = waiting_for(node, k, c, math.inf, now)
                if h >= 0:
                    return h
        below = most


@lean
def pull_realtime(node: Node, c: int, now: float) -> int:
    """A real-time thread that waits elsewhere while this CPU has none (pull_rt_task); -1: none."""
    for k in range(node.sizes[S_CPUS]):
        q = REALTIME + k
        if k == c or node.number[q, N_COUNT] < 2:
            continue
        for j in range(node.number[q, N_COUNT]):
            h = node.lists[q, j]
            if node.number[k, N_THREAD] != h and node.may[node.link[h, L_TENANT], c] > 0:
                return h
    return -1
