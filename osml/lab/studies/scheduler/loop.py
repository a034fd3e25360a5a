"""The loop over all events: arrivals, completions, ticks, balances, refills of quota, and snapshots of the sums."""

from __future__ import annotations

import math

from osml.base.jit import lean
from osml.lab.studies.scheduler.balance import balance
from osml.lab.studies.scheduler.columns import (
    A_THROTTLED,
    E_LEFT,
    I_END,
    I_FIRST,
    I_SERVICE,
    I_TAIL,
    I_THINKING,
    I_THREADS,
    K_BALANCE,
    K_EVENTS,
    K_NOISE,
    K_QUOTA_SLICE,
    L_CPU,
    L_REQUEST,
    MAX_TENANTS,
    N_COUNT,
    N_RUNNABLE,
    N_SIBLING,
    N_THREAD,
    N_THROTTLED,
    Q_QUOTA,
    Q_SINCE,
    Q_TICK,
    S_CPUS,
    S_TENANTS,
    SOURCES,
    T_NEXT,
    T_PERIOD,
    T_POOL,
    T_QUOTA,
    T_REFILL,
    T_SLACK,
    T_THINK,
    FloatArray,
    Node,
)
from osml.lab.studies.scheduler.cpu import account, plan_event
from osml.lab.studies.scheduler.events import arrival_source, balance_source, cpu_source, put
from osml.lab.studies.scheduler.groups import attach_group, enqueue, group_queue
from osml.lab.studies.scheduler.schedule import after_enqueue, arrive, finish, reschedule, tick

_DONE = 1e-9
"""Less work than this, in ms, is none."""


@lean
def _distribute(node: Node, requests: FloatArray, t: int, now: float) -> None:
    """Give throttled CPUs just enough quota to go on (distribute_cfs_runtime)."""
    row = node.tenant[t]
    for c in range(node.sizes[S_CPUS]):
        q = group_queue(t, c)
        if node.number[q, N_THROTTLED] == 0:
            continue
        given = min(1e-6 - node.queue[q, Q_QUOTA], row[T_POOL])
        row[T_POOL] -= given
        node.queue[q, Q_QUOTA] += given
        if node.queue[q, Q_QUOTA] <= 0.0:
            continue
        node.number[q, N_THROTTLED] = 0
        node.sums[t, A_THROTTLED] += now - node.queue[q, Q_SINCE]
        if node.number[q, N_COUNT] == 0:
            continue
        account(node, c, now)
        attach_group(node, t, c, now)
        if node.number[c, N_THREAD] < 0:
            reschedule(node, requests, c, now)
        else:
            plan_event(node, c, now)


@lean
def _quota_timer(node: Node, requests: FloatArray, t: int, now: float) -> None:
    row = node.tenant[t]
    if now >= row[T_REFILL]:
        row[T_REFILL] += row[T_PERIOD]
        row[T_POOL] = row[T_QUOTA]
        _distribute(node, requests, t, now)
    if now >= row[T_SLACK]:
        row[T_SLACK] = 1e18
        if row[T_POOL] > node.kernel[K_QUOTA_SLICE]:
            _distribute(node, requests, t, now)
    put(node, t, min(row[T_REFILL], row[T_SLACK]))


@lean
def _arrival(node: Node, requests: FloatArray, t: int, now: float) -> None:
    row, info = node.tenant[t], node.info[t]
    request = info[I_TAIL]
    following = math.inf
    if info[I_THINKING] >= 0:
        requests[request, 0] = now
        info[I_THINKING] -= 1
        if info[I_THINKING] > 0 and request + 1 < info[I_END]:
            following = now + requests[request + 1, 2] * row[T_THINK] / info[I_THINKING]
        row[T_NEXT] = following
    elif request + 1 < info[I_END]:
        following = requests[request + 1, 0]
    requests[request, 2] = math.nan
    put(node, arrival_source(t), following)
    arrive(node, requests, t, now)


@lean
def _cpu_event(node: Node, requests: FloatArray, c: int, now: float) -> None:
    account(node, c, now)
    h = node.number[c, N_THREAD]
    if h < 0:
        plan_event(node, c, now)
        return
    due = now >= node.queue[c, Q_TICK]
    if node.link[h, L_REQUEST] >= 0 and node.entity[h, E_LEFT] <= _DONE:
        finish(node, requests, c, now)
        return
    if due:
        tick(node, requests, c, now)
    else:
        plan_event(node, c, now)


@lean
def _start(node: Node, requests: FloatArray) -> None:
    """Jobs begin at time 0, each thread where fewest are, on idle cores first; threads of services sleep."""
    cpus = node.sizes[S_CPUS]
    for t in range(node.sizes[S_TENANTS]):
        for k in range(node.info[t, I_THREADS]):
            h, best, least = node.info[t, I_FIRST] + k, -1, math.inf
            if node.info[t, I_SERVICE] > 0:
                continue
            for c in range(cpus):
                sibling = node.number[c, N_SIBLING]
                beside = node.number[sibling, N_RUNNABLE] if sibling >= 0 else 0
                crowd = node.number[c, N_RUNNABLE] + 0.1 * beside
                if node.may[t, c] > 0 and crowd < least:
                    best, least = c, crowd
            node.link[h, L_CPU] = best
            enqueue(node, h, best, 0.0, False)
            after_enqueue(node, requests, h, best, 0.0)


@lean
def _snapshot(node: Node, now: float, out: FloatArray) -> None:
    cpus = node.sizes[S_CPUS]
    for c in range(cpus):
        account(node, c, now)
        plan_event(node, c, now)
    for t in range(node.sizes[S_TENANTS]):
        for c in range(cpus):
            q = group_queue(t, c)
            if node.number[q, N_THROTTLED] > 0:
                node.sums[t, A_THROTTLED] += now - node.queue[q, Q_SINCE]
                node.queue[q, Q_SINCE] = now
        for k in range(out.shape[1]):
            out[t, k] = node.sums[t, k]


@lean
def simulate_node(node: Node, requests: FloatArray, bin_ms: float, snapshots: FloatArray) -> None:
    """Run until all snapshots (bins, tenants, SUM_COLUMNS) are taken, one every `bin_ms`."""
    tenants, cpus = node.sizes[S_TENANTS], node.sizes[S_CPUS]
    winners, times = node.winners, node.times
    taken, first_cpu, first_balance, last = 0, cpu_source(0), balance_source(0), SOURCES - 1
    _start(node, requests)
    for t in range(tenants):
        if node.tenant[t, T_QUOTA] < math.inf:
            put(node, t, node.tenant[t, T_REFILL])
        if node.info[t, I_SERVICE] > 0 and node.info[t, I_TAIL] < node.info[t, I_END]:
            closed = node.info[t, I_THINKING] >= 0
            first = node.tenant[t, T_NEXT] if closed else requests[node.info[t, I_TAIL], 0]
            put(node, arrival_source(t), first)
    for c in range(cpus):
        if node.kernel[K_BALANCE] > 0.0:  # not all at the same time
            put(node, balance_source(c), node.kernel[K_BALANCE] * (c + 0.5) / cpus)
    put(node, last, bin_ms)
    while taken < len(snapshots):
        source = int(winners[1])
        now = float(times[source])
        node.kernel[K_EVENTS] += 1.0
        if source < MAX_TENANTS:
            _quota_timer(node, requests, source, now)
        elif source < first_cpu:
            _arrival(node, requests, source - MAX_TENANTS, now)
        elif source < first_balance:
            _cpu_event(node, requests, source - first_cpu, now)
        elif source < last:
            # Balances at even intervals would run in step with ticks, and always move the same threads.
            node.kernel[K_NOISE] = (node.kernel[K_NOISE] * 16807.0) % 2147483647.0  # Park and Miller
            put(node, source, now + node.kernel[K_BALANCE] * (0.5 + node.kernel[K_NOISE] / 2147483647.0))
            balance(node, requests, source - first_balance, now)
        else:
            _snapshot(node, now, snapshots[taken])
            taken += 1
            put(node, last, bin_ms * (taken + 1))
