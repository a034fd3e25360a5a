"""One CPU: time that passes on it, the choice of the next thread, and ticks."""

from __future__ import annotations

import math

from osml.base.jit import lean
from osml.lab.studies.scheduler.bandwidth import ask_quota
from osml.lab.studies.scheduler.columns import (
    A_BESIDE,
    A_CPU,
    A_LOST,
    A_SWITCHES,
    A_WORK,
    E_DEADLINE,
    E_DEBT,
    E_LAST,
    E_LEFT,
    E_PARITY,
    E_RAN,
    E_V,
    E_WEIGHT,
    I_GROUP,
    I_PRIORITY,
    I_ROBIN,
    I_SERVICE,
    K_EEVDF,
    K_ORDER,
    K_REFILL,
    K_ROBIN,
    K_SWITCH,
    K_TICK,
    L_POSITION,
    L_ROBBED,
    L_TENANT,
    MAX_CPUS,
    MAX_THREADS,
    N_COUNT,
    N_CURRENT,
    N_RUNNABLE,
    N_SIBLING,
    N_THREAD,
    Q_AT,
    Q_IDLE_SINCE,
    Q_LOAD,
    Q_MEAN_IDLE,
    Q_QUOTA,
    Q_SPEED,
    Q_TICK,
    REALTIME,
    T_QUOTA,
    T_SPEED,
    Node,
)
from osml.lab.studies.scheduler.events import cpu_source, put
from osml.lab.studies.scheduler.fair import choose, raise_floor, renew, slice_is_over
from osml.lab.studies.scheduler.groups import group_entity, group_queue, throttle, update_group


@lean
def account(node: Node, c: int, now: float) -> None:
    """Let time pass on a CPU up to now: work, virtual runtime and quota of what runs there (update_curr)."""
    queue, entity = node.queue, node.entity
    passed = now - queue[c, Q_AT]
    if passed <= 0.0:
        return
    queue[c, Q_AT] = now
    h = node.number[c, N_THREAD]
    if h < 0:
        return
    t = node.link[h, L_TENANT]
    sums, sibling = node.sums[t], node.number[c, N_SIBLING]
    lost = min(passed, entity[h, E_DEBT])
    done = (passed - lost) * queue[c, Q_SPEED]
    entity[h, E_DEBT] -= lost
    entity[h, E_LEFT] -= done
    entity[h, E_LAST] = now
    sums[A_CPU] += passed
    sums[A_LOST] += lost
    sums[A_WORK] += done
    if sibling >= 0 and node.number[sibling, N_THREAD] >= 0:
        sums[A_BESIDE] += passed
    entity[h, E_RAN] += passed
    if node.info[t, I_PRIORITY] > 0:
        return
    entity[h, E_V] += passed / entity[h, E_WEIGHT]
    if node.info[t, I_GROUP] > 0:
        q, e = group_queue(t, c), group_entity(t, c)
        raise_floor(node, q)
        entity[e, E_V] += passed / entity[e, E_WEIGHT]
        entity[e, E_RAN] += passed
        if node.tenant[t, T_QUOTA] < math.inf:
            queue[q, Q_QUOTA] -= passed
    raise_floor(node, c)


@lean
def plan_event(node: Node, c: int, now: float) -> None:
    """When the CPU has something to do: a request ends, or a tick comes that matters."""
    queue, h = node.queue, node.number[c, N_THREAD]
    if h < 0:
        queue[c, Q_TICK] = math.inf
        put(node, cpu_source(c), math.inf)
        return
    t, end = node.link[h, L_TENANT], math.inf
    if node.info[t, I_SERVICE] > 0:
        end = now + node.entity[h, E_DEBT] + max(node.entity[h, E_LEFT], 0.0) / queue[c, Q_SPEED]
    if node.number[c, N_RUNNABLE] > 1 or node.tenant[t, T_QUOTA] < math.inf:
        if queue[c, Q_TICK] == math.inf or queue[c, Q_TICK] <= now:
            tick = node.kernel[K_TICK]
            queue[c, Q_TICK] = (math.floor(now / tick) + 1.0) * tick
            if queue[c, Q_TICK] <= now:
                queue[c, Q_TICK] += tick
    else:
        queue[c, Q_TICK] = math.inf
    put(node, cpu_source(c), min(end, queue[c, Q_TICK]))


@lean
def _first_realtime(node: Node, c: int) -> int:
    """The real-time thread of the highest priority that waits longest, or runs; -1: none."""
    q = REALTIME + c
    best, level, order = -1, 0, math.inf
    for k in range(node.number[q, N_COUNT]):
        h = node.lists[q, k]
        priority = node.info[node.link[h, L_TENANT], I_PRIORITY]
        if priority > level or (priority == level and node.entity[h, E_DEADLINE] < order):
            best, level, order = h, priority, node.entity[h, E_DEADLINE]
    return best


@lean
def pick(node: Node, c: int) -> int:
    """The thread that a CPU runs next; -1: none is runnable there."""
    h = _first_realtime(node, c)
    if h >= 0 or node.number[c, N_COUNT] == 0:
        return h
    e = choose(node, c)
    if e < MAX_THREADS:
        return e
    return choose(node, group_queue((e - MAX_THREADS) // MAX_CPUS, c))


@lean
def _set_current(node: Node, q: int, e: int) -> None:
    if node.number[q, N_CURRENT] != e:
        node.number[q, N_CURRENT] = e
        if e >= 0:
            node.entity[e, E_RAN] = 0.0
            node.entity[e, E_PARITY] = node.entity[e, E_DEADLINE]


@lean
def _adapt_speed(node: Node, c: int) -> None:
    """Speed of a CPU from who runs on it and on its sibling."""
    h, sibling, speed = node.number[c, N_THREAD], node.number[c, N_SIBLING], 1.0
    if h >= 0 and sibling >= 0 and node.number[sibling, N_THREAD] >= 0:
        other = node.link[node.number[sibling, N_THREAD], L_TENANT]
        speed = node.tenant[node.link[h, L_TENANT], T_SPEED + other]
    node.queue[c, Q_SPEED] = speed


@lean
def _set_all_current(node: Node, c: int, h: int) -> None:
    """Mark a thread (-1: none) and its group as running in their queues."""
    if h < 0 or node.info[node.link[h, L_TENANT], I_PRIORITY] > 0:
        _set_current(node, c, -1)
        return
    t = node.link[h, L_TENANT]
    if node.info[t, I_GROUP] > 0:
        _set_current(node, group_queue(t, c), h)
        _set_current(node, c, group_entity(t, c))
    else:
        _set_current(node, c, h)


@lean
def _step_aside(node: Node, c: int, h: int, now: float) -> None:
    """What ran on a CPU (-1: nothing) makes room for thread h."""
    queue, before = node.queue, node.number[c, N_THREAD]
    if before < 0:
        idle = now - queue[c, Q_IDLE_SINCE]
        queue[c, Q_MEAN_IDLE] = min(queue[c, Q_MEAN_IDLE] + (idle - queue[c, Q_MEAN_IDLE]) / 8.0, 1.0)
        return
    t = node.link[before, L_TENANT]
    if h < 0:
        queue[c, Q_IDLE_SINCE] = now
    elif node.link[before, L_POSITION] >= 0 and node.link[h, L_TENANT] != t:
        node.link[before, L_ROBBED] = 1
    if node.info[t, I_GROUP] > 0 and (h < 0 or node.link[h, L_TENANT] != t):
        _set_current(node, group_queue(t, c), -1)


@lean
def run_thread(node: Node, c: int, h: int, now: float) -> None:
    """Switch a CPU, which is accounted up to now, to a thread (-1: idle) that is in its queues."""
    if h != node.number[c, N_THREAD]:
        _step_aside(node, c, h, now)
        sibling = node.number[c, N_SIBLING]
        if sibling >= 0:
            account(node, sibling, now)
        node.number[c, N_THREAD] = h
        if sibling >= 0 and node.number[sibling, N_THREAD] >= 0:
            _adapt_speed(node, sibling)
            plan_event(node, sibling, now)
        _adapt_speed(node, c)
        if h >= 0:
            node.sums[node.link[h, L_TENANT], A_SWITCHES] += 1.0
            node.entity[h, E_RAN] = 0.0
            node.entity[h, E_DEBT] += node.kernel[K_SWITCH] + node.link[h, L_ROBBED] * node.kernel[K_REFILL]
            node.link[h, L_ROBBED] = 0
    _set_all_current(node, c, h)
    plan_event(node, c, now)


@lean
def out_of_quota(node: Node, c: int, now: float, take_off: bool) -> bool:
    """Whether what runs on a CPU has no quota left, after asking for more; `take_off`: throttle it then."""
    h = node.number[c, N_THREAD]
    if h < 0:
        return False
    t = node.link[h, L_TENANT]
    q = group_queue(t, c)
    if node.tenant[t, T_QUOTA] == math.inf or node.number[q, N_COUNT] == 0:
        return False
    ask_quota(node, t, q)
    if node.queue[q, Q_QUOTA] > 0.0:
        return False
    if take_off:
        throttle(node, t, c, now)
    return True


@lean
def slice_ends(node: Node, c: int, now: float) -> bool:
    """A tick (task_tick_fair, task_tick_rt): whether the CPU must choose again. It is accounted up to now."""
    h = node.number[c, N_THREAD]
    t, number, entity = node.link[h, L_TENANT], node.number, node.entity
    if node.info[t, I_PRIORITY] > 0:
        if node.info[t, I_ROBIN] > 0 and entity[h, E_RAN] >= node.kernel[K_ROBIN]:
            node.kernel[K_ORDER] += 1.0
            entity[h, E_DEADLINE], entity[h, E_RAN] = node.kernel[K_ORDER], 0.0
            return True
        return False
    over = out_of_quota(node, c, now, False)
    grouped = node.info[t, I_GROUP] > 0
    if grouped:
        update_group(node, t, c, now)
    top = group_entity(t, c) if grouped else h
    if node.kernel[K_EEVDF] > 0.0:
        if grouped:
            over = renew(node, h, group_queue(t, c)) or over
        return renew(node, top, c) or over
    share, runnable = 1.0, number[c, N_RUNNABLE]
    if grouped:
        share = entity[top, E_WEIGHT] / max(node.queue[c, Q_LOAD], 1e-9)
        over = over or slice_is_over(node, h, group_queue(t, c), runnable, share)
    return over or slice_is_over(node, top, c, runnable, 1.0)
