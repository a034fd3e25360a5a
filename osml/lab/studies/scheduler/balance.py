"""The periodic balance between CPUs (load_balance)."""

from __future__ import annotations

from osml.base.jit import lean
from osml.lab.studies.scheduler.columns import (
    A_MOVES,
    I_PRIORITY,
    K_ACTIVE,
    K_BUSY_FACTOR,
    L_CPU,
    L_TENANT,
    N_BALANCES,
    N_RUNNABLE,
    N_SIBLING,
    N_THREAD,
    N_VAIN,
    Q_LOAD,
    S_CPUS,
    FloatArray,
    Node,
)
from osml.lab.studies.scheduler.cpu import account
from osml.lab.studies.scheduler.placement import move, pull_to_idle, waiting_for
from osml.lab.studies.scheduler.schedule import after_enqueue, reschedule

_UNEVEN = 1.25
"""A busy CPU only pulls from one that has so much more weight (imbalance_pct)."""

_PATIENCE = 4
"""After so many balances in vain it also takes threads that just swap the imbalance (nr_balance_failed)."""


@lean
def _spread(node: Node, requests: FloatArray, c: int, now: float) -> None:
    """Active balance: an idle core takes one of two threads that run on the siblings of another core."""
    for k in range(node.sizes[S_CPUS]):
        s, h = node.number[k, N_SIBLING], node.number[k, N_THREAD]
        if s < 0 or s == c or h < 0 or node.number[s, N_THREAD] < 0 or node.may[node.link[h, L_TENANT], c] == 0:
            continue
        if node.info[node.link[h, L_TENANT], I_PRIORITY] > 0:
            continue
        account(node, k, now)
        move(node, h, c, now)
        node.sums[node.link[h, L_TENANT], A_MOVES] += 1.0
        reschedule(node, requests, c, now)  # first, or k would pull it back
        reschedule(node, requests, k, now)
        return


@lean
def balance(node: Node, requests: FloatArray, c: int, now: float) -> None:
    """The periodic balance of one CPU: idle, it takes any waiting thread; busy, it evens out the weights."""
    number = node.number
    number[c, N_BALANCES] += 1
    if number[c, N_RUNNABLE] == 0:
        h = pull_to_idle(node, c, now)
        if h >= 0:
            account(node, node.link[h, L_CPU], now)
            move(node, h, c, now)
            node.sums[node.link[h, L_TENANT], A_MOVES] += 1.0
            reschedule(node, requests, c, now)
            return
        every, sibling = node.kernel[K_ACTIVE], number[c, N_SIBLING]
        if (
            every > 0.0
            and sibling >= 0
            and number[sibling, N_RUNNABLE] == 0
            and number[c, N_BALANCES] % int(every) == 0
        ):
            _spread(node, requests, c, now)
        return
    if number[c, N_BALANCES] % int(node.kernel[K_BUSY_FACTOR]) != 0:
        return
    mine, busiest, most = node.queue[c, Q_LOAD], -1, 0.0
    for k in range(node.sizes[S_CPUS]):
        if k != c and number[k, N_RUNNABLE] > 1 and node.queue[k, Q_LOAD] > most:
            busiest, most = k, node.queue[k, Q_LOAD]
    if busiest < 0 or most <= _UNEVEN * mine:
        number[c, N_VAIN] = 0
        return
    patient = number[c, N_VAIN] < _PATIENCE
    number[c, N_VAIN] += 1
    movable = (most - mine) * (0.5 if patient else 1.0) * (1.0 + 1e-9)
    h = waiting_for(node, busiest, c, movable, now)
    if h >= 0:
        number[c, N_VAIN] = 0
        account(node, c, now)
        account(node, busiest, now)
        move(node, h, c, now)
        node.sums[node.link[h, L_TENANT], A_MOVES] += 1.0
        after_enqueue(node, requests, h, c, now)
