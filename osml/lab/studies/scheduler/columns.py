"""The arrays of the simulated kernel. The names here are column numbers. Times are in ms, weights relative to nice 0.

Entities are what a run queue orders: thread h is entity h, the group of tenant t on CPU c is entity
`MAX_THREADS + t * MAX_CPUS + c`. Run queue c is the root queue of CPU c, `MAX_CPUS * (t + 1) + c` that of a group, and
`REALTIME + c` holds the real-time threads of CPU c. Rows of root queues also hold the state of their CPU.

Requests are rows of (arrival, work, response time), NaN while it isn't done; before a request of a closed loop arrives,
its last number is a standard exponential draw.
"""

from __future__ import annotations

from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# -- entities: virtual runtime; deadline (order of arrival of real-time threads); lag kept over a sleep; time since it
# was picked; deadline at that time; work left of the request; lost time to make up for; when it last ran -------------
(E_V, E_WEIGHT, E_DEADLINE, E_LAG, E_RAN, E_PARITY, E_LEFT, E_DEBT, E_LAST, ENTITY_COLUMNS) = range(10)

# queue; position in it (-1: not runnable); CPU; tenant; request in hand (-1: none); 1 where another tenant preempted it
(L_QUEUE, L_POSITION, L_CPU, L_TENANT, L_REQUEST, L_ROBBED, LINK_COLUMNS) = range(7)

# -- run queues: least virtual runtime; weight of what is in it; its average and when that was taken; quota left on
# this CPU; throttled since. Then what belongs to the CPU: time up to which it is accounted; speed; next tick; mean idle
# time; idle since ----------------------------------------------------------------------------------------------------
(
    Q_FLOOR, Q_LOAD, Q_AVERAGE, Q_AVERAGE_AT, Q_QUOTA, Q_SINCE,
    Q_AT, Q_SPEED, Q_TICK, Q_MEAN_IDLE, Q_IDLE_SINCE,
    QUEUE_COLUMNS,
) = range(12)  # fmt: skip

# entities in it; the one that runs (-1); the one to favour (-1); 1 while throttled. Of the CPU: thread that runs (-1);
# runnable threads, those of SCHED_IDLE among them; sibling (-1); balances; busy balances in vain
(
    N_COUNT, N_CURRENT, N_NEXT, N_THROTTLED, N_THREAD, N_RUNNABLE, N_IDLERS, N_SIBLING, N_BALANCES, N_VAIN,
    NUMBER_COLUMNS,
) = range(11)  # fmt: skip

# -- tenants: weight; quota in ms a period (infinite: none), period; what is left of it; next refill; when returned
# quota is handed out; sum over the CPUs of loads' averages, when it was taken, and sum of loads; mean think time; time
# of the next arrival in a closed loop; time lost at a wake-up, and the sleep from which on that is lost. From T_SPEED
# on: speed beside each tenant on the sibling --------------------------------------------------------------------------
(
    T_WEIGHT, T_QUOTA, T_PERIOD, T_POOL, T_REFILL, T_SLACK, T_SUM, T_SUM_AT, T_LOAD, T_THINK, T_NEXT,
    T_WAKE, T_COOL, T_SPEED,
) = range(14)  # fmt: skip

# 1: service; 1: has groups; real-time priority (0: fair); 1: SCHED_IDLE; 1: round robin; first thread, threads; first
# request, end of its requests, next to be taken, next to arrive; clients that think, -1: open; 1: a request belongs to
# the thread that it wakes; 1: the thread that slept last wakes; ring of sleepers: head and how many
(
    I_SERVICE, I_GROUP, I_PRIORITY, I_IDLE, I_ROBIN, I_FIRST, I_THREADS, I_BEGIN, I_END, I_HEAD, I_TAIL, I_THINKING,
    I_BOUND, I_LIFO, I_RING, I_ASLEEP,
    INFO_COLUMNS,
) = range(17)  # fmt: skip

# -- what a tenant has done: CPU ms, those of them with a busy sibling, work done, lost to switches, times switched in,
# throttled ms (over all CPUs), times throttled, completed requests, wake-ups, threads that were balanced -------------
(
    A_CPU, A_BESIDE, A_WORK, A_LOST, A_SWITCHES, A_THROTTLED, A_THROTTLES, A_COMPLETED, A_WAKES, A_MOVES,
    SUM_COLUMNS,
) = range(11)  # fmt: skip

# -- the kernel: its numbers as in model.Kernel; whether there are real-time tenants and such of SCHED_IDLE; CPUs that
# are idle; how many real-time threads have been queued; events; state of the noise -----------------------------------
(
    K_EEVDF, K_TICK, K_LATENCY, K_MIN, K_WAKE, K_BASE, K_PARITY, K_ROBIN, K_SWITCH, K_REFILL, K_HOT, K_NEWIDLE,
    K_BALANCE, K_BUSY_FACTOR, K_ACTIVE, K_CORE_FIRST, K_QUOTA_SLICE, K_ANY_RT, K_ANY_IDLE, K_IDLE_CPUS,
    K_ORDER, K_EVENTS, K_NOISE,
    KERNEL_COLUMNS,
) = range(24)  # fmt: skip


MAX_CPUS, MAX_THREADS, MAX_TENANTS = 64, 256, 8
"""Room of a node. Fixed, so that all of it is one record of known shape: its address is all that a call passes."""

SOURCES = 2 * MAX_TENANTS + 2 * MAX_CPUS + 1
"""Sources of events: a quota timer and an arrival a tenant, a CPU and its balance timer, the snapshot."""

_QUEUES = MAX_CPUS * (MAX_TENANTS + 2)
_ENTITIES = MAX_THREADS + MAX_TENANTS * MAX_CPUS
_LEAVES = 256
REALTIME = MAX_CPUS * (MAX_TENANTS + 1)
"""Where the queues of real-time threads begin."""

S_CPUS, S_TENANTS = range(2)

_RECORD = np.dtype(
    [
        ("sizes", np.int64, (2,)),
        ("entity", np.float64, (_ENTITIES, ENTITY_COLUMNS)),
        ("link", np.int64, (_ENTITIES, LINK_COLUMNS)),
        ("queue", np.float64, (_QUEUES, QUEUE_COLUMNS)),
        ("number", np.int64, (_QUEUES, NUMBER_COLUMNS)),
        ("lists", np.int64, (_QUEUES, MAX_THREADS)),
        ("tenant", np.float64, (MAX_TENANTS, T_SPEED + MAX_TENANTS)),
        ("info", np.int64, (MAX_TENANTS, INFO_COLUMNS)),
        ("may", np.int64, (MAX_TENANTS, MAX_CPUS)),
        ("asleep", np.int64, (MAX_TENANTS, MAX_THREADS + 1)),
        ("sums", np.float64, (MAX_TENANTS, SUM_COLUMNS)),
        ("kernel", np.float64, (KERNEL_COLUMNS,)),
        ("times", np.float64, (_LEAVES,)),
        ("winners", np.int64, (2 * _LEAVES,)),
    ]
)


class Node(Protocol):
    """Everything that the compiled simulation reads and writes but the requests: a record of arrays.

    `sizes` are the CPUs and tenants that there are; `lists[q]` are the entities of queue q; `may[t, c]` is 1 where
    tenant t may run on CPU c; `asleep[t]` is the ring of its sleeping threads; `times` and `winners` are the tournament
    of the next events.
    """

    sizes: IntArray
    entity: FloatArray
    link: IntArray
    queue: FloatArray
    number: IntArray
    lists: IntArray
    tenant: FloatArray
    info: IntArray
    may: IntArray
    asleep: IntArray
    sums: FloatArray
    kernel: FloatArray
    times: FloatArray
    winners: IntArray


def empty_node(cpus: int, tenants: int) -> Node:
    """A node where nobody runs and nobody waits."""
    node = cast(Node, np.zeros(1, _RECORD).view(np.recarray)[0])
    node.sizes[:] = cpus, tenants
    node.entity[:, E_LAST] = -1e9
    node.link[:] = -1
    node.link[:, L_ROBBED] = 0
    for column in (N_CURRENT, N_NEXT, N_THREAD, N_SIBLING):
        node.number[:, column] = -1
    node.queue[:, Q_SPEED], node.queue[:, Q_TICK], node.queue[:, Q_MEAN_IDLE] = 1.0, np.inf, 1.0
    node.times[:] = np.inf
    node.winners[_LEAVES:] = np.arange(_LEAVES)
    for at in range(_LEAVES - 1, 0, -1):
        node.winners[at] = node.winners[2 * at]
    return node
