"""One run queue: virtual time, placement and choice, of CFS (kernel/sched/fair.c before 6.6) and of EEVDF (6.6 to 6.8).

Virtual time runs in ms of an entity of weight 1.
"""

from __future__ import annotations

import math

from osml.base.jit import lean
from osml.lab.studies.scheduler.columns import (
    E_DEADLINE,
    E_LAG,
    E_PARITY,
    E_RAN,
    E_V,
    E_WEIGHT,
    K_BASE,
    K_EEVDF,
    K_LATENCY,
    K_MIN,
    K_PARITY,
    K_TICK,
    K_WAKE,
    L_POSITION,
    L_QUEUE,
    N_COUNT,
    N_CURRENT,
    N_NEXT,
    Q_FLOOR,
    Q_LOAD,
    Node,
)

SLICES = 8.0
"""CFS: with more than so many entities the period is one least slice each (sched_nr_latency)."""


@lean
def mean_v(node: Node, q: int) -> float:
    """EEVDF: virtual time of a queue, the mean of its entities by weight (avg_vruntime)."""
    floor, total, weights = node.queue[q, Q_FLOOR], 0.0, 0.0
    for k in range(node.number[q, N_COUNT]):
        e = node.lists[q, k]
        weights += node.entity[e, E_WEIGHT]
        total += node.entity[e, E_WEIGHT] * (node.entity[e, E_V] - floor)
    return floor + total / weights if weights > 0.0 else floor


@lean
def raise_floor(node: Node, q: int) -> None:
    """The least virtual runtime of a queue, which never falls (update_min_vruntime)."""
    low = math.inf
    for k in range(node.number[q, N_COUNT]):
        low = min(low, node.entity[node.lists[q, k], E_V])
    if low < math.inf and low > node.queue[q, Q_FLOOR]:
        node.queue[q, Q_FLOOR] = low


@lean
def place(node: Node, e: int, q: int, idle: bool) -> None:
    """Where an entity that was away joins a queue (place_entity)."""
    entity, kernel = node.entity, node.kernel
    if kernel[K_EEVDF] == 0.0:
        credit = kernel[K_MIN] if idle else 0.5 * kernel[K_LATENCY]
        entity[e, E_V] = max(entity[e, E_V], node.queue[q, Q_FLOOR] - credit)
        return
    lag, load, weight = 0.0, node.queue[q, Q_LOAD], entity[e, E_WEIGHT]
    if node.number[q, N_COUNT] > 0:
        # The newcomer shifts the mean; the lag is stretched, so that it is right after that.
        lag = entity[e, E_LAG] * (load + weight) / load
    entity[e, E_V] = mean_v(node, q) - lag
    entity[e, E_DEADLINE] = entity[e, E_V] + kernel[K_BASE] / weight


@lean
def join(node: Node, e: int, q: int) -> None:
    """Put an entity, which has been placed, into a queue."""
    count = node.number[q, N_COUNT]
    node.lists[q, count] = e
    node.link[e, L_POSITION], node.link[e, L_QUEUE] = count, q
    node.number[q, N_COUNT] = count + 1
    node.queue[q, Q_LOAD] += node.entity[e, E_WEIGHT]


@lean
def leave(node: Node, e: int) -> None:
    """Take an entity out of its queue, and remember its lag (update_entity_lag: two slices or a tick at most)."""
    q, entity, kernel = node.link[e, L_QUEUE], node.entity, node.kernel
    if kernel[K_EEVDF] > 0.0:
        limit = max(2.0 * kernel[K_BASE], kernel[K_TICK]) / entity[e, E_WEIGHT]
        entity[e, E_LAG] = min(max(mean_v(node, q) - entity[e, E_V], -limit), limit)
    last = node.number[q, N_COUNT] - 1
    moved, hole = node.lists[q, last], node.link[e, L_POSITION]
    node.lists[q, hole] = moved
    node.link[moved, L_POSITION] = hole
    node.link[e, L_POSITION] = -1
    node.number[q, N_COUNT] = last
    node.queue[q, Q_LOAD] = node.queue[q, Q_LOAD] - entity[e, E_WEIGHT] if last > 0 else 0.0
    if node.number[q, N_CURRENT] == e:
        node.number[q, N_CURRENT] = -1
    if node.number[q, N_NEXT] == e:
        node.number[q, N_NEXT] = -1
    raise_floor(node, q)


@lean
def reweigh(node: Node, e: int, weight: float) -> None:
    """Give an entity another weight. EEVDF keeps its lag in time, not in virtual time (reweight_eevdf)."""
    entity, before = node.entity, node.entity[e, E_WEIGHT]
    if before == weight:
        return
    if node.link[e, L_POSITION] >= 0:
        q = node.link[e, L_QUEUE]
        if node.kernel[K_EEVDF] > 0.0:
            middle, ratio = mean_v(node, q), before / weight
            protected = entity[e, E_PARITY] == entity[e, E_DEADLINE]
            entity[e, E_V] = middle - (middle - entity[e, E_V]) * ratio
            entity[e, E_DEADLINE] = middle + (entity[e, E_DEADLINE] - middle) * ratio
            if protected:
                entity[e, E_PARITY] = entity[e, E_DEADLINE]
        node.queue[q, Q_LOAD] += weight - before
    elif node.kernel[K_EEVDF] > 0.0 and before > 0.0:
        entity[e, E_LAG] *= before / weight
    entity[e, E_WEIGHT] = weight


@lean
def _earliest_deadline(node: Node, q: int) -> int:
    """EEVDF: the eligible entity with the earliest deadline; the running one first until its slice is over."""
    entity, current = node.entity, node.number[q, N_CURRENT]
    middle = mean_v(node, q)
    tolerance = 1e-9 * (1.0 + abs(middle))
    protected = current >= 0 and entity[current, E_PARITY] == entity[current, E_DEADLINE]
    if protected and node.kernel[K_PARITY] > 0.0 and entity[current, E_V] <= middle + tolerance:
        return current
    best, at = -1, math.inf
    for k in range(node.number[q, N_COUNT]):
        e = node.lists[q, k]
        if entity[e, E_V] <= middle + tolerance and entity[e, E_DEADLINE] < at:
            best, at = e, entity[e, E_DEADLINE]
    return best


@lean
def choose(node: Node, q: int) -> int:
    """The entity of a queue that runs next; -1: none."""
    if node.number[q, N_COUNT] == 0:
        return -1
    if node.number[q, N_COUNT] == 1:
        return node.lists[q, 0]
    if node.kernel[K_EEVDF] > 0.0:
        return _earliest_deadline(node, q)
    best, low = -1, math.inf
    for k in range(node.number[q, N_COUNT]):
        e = node.lists[q, k]
        if node.entity[e, E_V] < low:
            best, low = e, node.entity[e, E_V]
    favoured = node.number[q, N_NEXT]
    if favoured >= 0:
        node.number[q, N_NEXT] = -1
        if node.entity[favoured, E_V] - low <= node.kernel[K_WAKE] / node.entity[best, E_WEIGHT]:
            return favoured
    return best


@lean
def preempts(node: Node, e: int, current: int, q: int) -> bool:
    """Whether an entity that wakes takes the place of the one that runs in the same queue."""
    entity = node.entity
    if node.kernel[K_EEVDF] > 0.0:
        renew(node, current, q)
        return _earliest_deadline(node, q) == e
    ahead = entity[current, E_V] - entity[e, E_V]
    return ahead > node.kernel[K_WAKE] / entity[e, E_WEIGHT]


@lean
def renew(node: Node, e: int, q: int) -> bool:
    """EEVDF: a new deadline where the slice is used up (update_deadline). Whether others should have their turn."""
    entity = node.entity
    if entity[e, E_V] < entity[e, E_DEADLINE] - 1e-9:
        return False
    entity[e, E_DEADLINE] = entity[e, E_V] + node.kernel[K_BASE] / entity[e, E_WEIGHT]
    return node.number[q, N_COUNT] > 1


@lean
def slice_is_over(node: Node, e: int, q: int, runnable: int, share: float) -> bool:
    """CFS, at a tick: whether an entity has run for its slice (check_preempt_tick).

    `runnable` are the threads of the CPU, `share` the part of the CPU that the queues above have.
    """
    entity, kernel = node.entity, node.kernel
    if node.number[q, N_COUNT] < 2:
        return False
    period = max(kernel[K_LATENCY], kernel[K_MIN] * runnable if runnable > SLICES else 0.0)
    ideal = max(period * share * entity[e, E_WEIGHT] / node.queue[q, Q_LOAD], kernel[K_MIN])
    if entity[e, E_RAN] > ideal:
        return True
    if entity[e, E_RAN] < kernel[K_MIN]:
        return False
    low = math.inf
    for k in range(node.number[q, N_COUNT]):
        if node.lists[q, k] != e:
            low = min(low, entity[node.lists[q, k], E_V])
    return entity[e, E_V] - low > ideal
