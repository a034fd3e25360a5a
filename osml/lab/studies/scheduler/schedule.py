"""What happens to a CPU: it chooses again, a thread wakes there, a request ends, a tick comes."""

from __future__ import annotations

from osml.base.jit import lean
from osml.lab.studies.scheduler.columns import (
    A_COMPLETED,
    A_MOVES,
    A_WAKES,
    E_DEBT,
    E_LAST,
    E_LEFT,
    E_PARITY,
    I_ASLEEP,
    I_BOUND,
    I_END,
    I_GROUP,
    I_HEAD,
    I_IDLE,
    I_LIFO,
    I_PRIORITY,
    I_RING,
    I_SERVICE,
    I_TAIL,
    I_THINKING,
    I_THREADS,
    K_ANY_RT,
    K_NEWIDLE,
    L_CPU,
    L_POSITION,
    L_QUEUE,
    L_REQUEST,
    L_TENANT,
    N_CURRENT,
    N_NEXT,
    N_THREAD,
    Q_MEAN_IDLE,
    T_COOL,
    T_NEXT,
    T_THINK,
    T_WAKE,
    FloatArray,
    Node,
)
from osml.lab.studies.scheduler.cpu import account, out_of_quota, pick, plan_event, run_thread, slice_ends
from osml.lab.studies.scheduler.events import arrival_source, put
from osml.lab.studies.scheduler.fair import preempts
from osml.lab.studies.scheduler.groups import dequeue, enqueue, group_entity, home_queue
from osml.lab.studies.scheduler.placement import (
    move,
    place_to_wake,
    pull_realtime,
    pull_to_idle,
    shift,
)


@lean
def _take(node: Node, requests: FloatArray, h: int, request: int) -> None:
    node.link[h, L_REQUEST] = request
    node.entity[h, E_LEFT] = requests[request, 1]


@lean
def _take_next(node: Node, requests: FloatArray, t: int, h: int) -> bool:
    """Take the next request of the queue, if there is one."""
    head = node.info[t, I_HEAD]
    if head >= node.info[t, I_TAIL]:
        return False
    _take(node, requests, h, head)
    node.info[t, I_HEAD] = head + 1
    return True


@lean
def _fall_asleep(node: Node, t: int, h: int) -> None:
    info = node.info[t]
    slots = info[I_THREADS] + 1
    node.asleep[t, (info[I_RING] + info[I_ASLEEP]) % slots] = h
    info[I_ASLEEP] += 1


@lean
def _sleeper(node: Node, t: int) -> int:
    """Take a sleeping thread out of the ring: who slept longest, or last."""
    info = node.info[t]
    slots = info[I_THREADS] + 1
    info[I_ASLEEP] -= 1
    if info[I_LIFO] > 0:
        return node.asleep[t, (info[I_RING] + info[I_ASLEEP]) % slots]
    h = node.asleep[t, info[I_RING]]
    info[I_RING] = (info[I_RING] + 1) % slots
    return h


@lean
def reschedule(node: Node, requests: FloatArray, c: int, now: float) -> None:
    """Let a CPU choose again. Idle, it pulls a waiting thread from elsewhere."""
    account(node, c, now)
    out_of_quota(node, c, now, True)
    pulled = False
    while True:
        h = pick(node, c)
        realtime = h >= 0 and node.info[node.link[h, L_TENANT], I_PRIORITY] > 0
        if not pulled and node.kernel[K_ANY_RT] > 0.0 and not realtime:
            other = pull_realtime(node, c, now)
            if other >= 0:
                pulled = True
                move(node, other, c, now)
                continue
        if h < 0 and not pulled and node.queue[c, Q_MEAN_IDLE] >= node.kernel[K_NEWIDLE]:
            other = pull_to_idle(node, c, now)
            if other >= 0:
                pulled = True
                account(node, node.link[other, L_CPU], now)
                move(node, other, c, now)
                node.sums[node.link[other, L_TENANT], A_MOVES] += 1.0
                continue
        if h >= 0 and node.link[h, L_REQUEST] < 0 and node.info[node.link[h, L_TENANT], I_SERVICE] > 0:
            t = node.link[h, L_TENANT]
            if not _take_next(node, requests, t, h):  # another thread was faster
                dequeue(node, h, now)
                _fall_asleep(node, t, h)
                continue
        break
    run_thread(node, c, h, now)


@lean
def _beats(node: Node, h: int, c: int, now: float) -> bool:
    """Whether a thread that has just joined the queues of a CPU preempts what runs there (check_preempt_curr)."""
    r = node.number[c, N_THREAD]
    t, s, info = node.link[h, L_TENANT], node.link[r, L_TENANT], node.info
    if info[t, I_PRIORITY] != info[s, I_PRIORITY]:
        return info[t, I_PRIORITY] > info[s, I_PRIORITY]
    if info[t, I_PRIORITY] > 0:
        return False
    if info[t, I_IDLE] != info[s, I_IDLE]:
        if info[s, I_IDLE] > 0:  # no slice protects SCHED_IDLE (cancel_protect_slice)
            node.entity[r, E_PARITY] = -1.0
            node.entity[group_entity(s, c), E_PARITY] = -1.0
        return info[s, I_IDLE] > 0
    q = home_queue(node, h, c)
    if t == s:
        first, second = h, r
    else:
        q = c
        first = group_entity(t, c) if info[t, I_GROUP] > 0 else h
        second = group_entity(s, c) if info[s, I_GROUP] > 0 else r
    if node.link[first, L_POSITION] < 0:  # a throttled group
        return False
    if node.number[q, N_CURRENT] != second or node.link[first, L_QUEUE] != q:
        return False
    if not preempts(node, first, second, q):
        return False
    node.number[q, N_NEXT] = first
    if info[t, I_GROUP] > 0:
        node.number[home_queue(node, h, c), N_NEXT] = h
    return True


@lean
def after_enqueue(node: Node, requests: FloatArray, h: int, c: int, now: float) -> None:
    """A thread joined a CPU: it starts, preempts, or waits."""
    if node.number[c, N_THREAD] < 0 or _beats(node, h, c, now):
        reschedule(node, requests, c, now)
    else:
        plan_event(node, c, now)


@lean
def wake(node: Node, requests: FloatArray, h: int, now: float) -> None:
    """Wake a sleeping thread (try_to_wake_up)."""
    before, c = node.link[h, L_CPU], place_to_wake(node, h)
    row = node.tenant[node.link[h, L_TENANT]]
    if row[T_WAKE] > 0.0 and now - node.entity[h, E_LAST] > row[T_COOL]:
        node.entity[h, E_DEBT] += row[T_WAKE]
    node.sums[node.link[h, L_TENANT], A_WAKES] += 1.0
    account(node, c, now)
    if c != before:
        shift(node, h, home_queue(node, h, before), home_queue(node, h, c))
    enqueue(node, h, c, now, True)
    after_enqueue(node, requests, h, c, now)


@lean
def arrive(node: Node, requests: FloatArray, t: int, now: float) -> None:
    """A request joins its queue, and wakes a thread if one sleeps."""
    request = node.info[t, I_TAIL]
    node.info[t, I_TAIL] = request + 1
    if node.info[t, I_ASLEEP] == 0:
        return
    h = _sleeper(node, t)
    if node.info[t, I_BOUND] > 0:
        node.info[t, I_HEAD] = request + 1  # nobody sleeps while the queue holds a request
        _take(node, requests, h, request)
    wake(node, requests, h, now)


@lean
def _think(node: Node, requests: FloatArray, t: int, now: float) -> None:
    """Closed loop: one client more thinks. Exponential times have no memory, so the next arrival just comes sooner."""
    row, thinking, following = node.tenant[t], node.info[t, I_THINKING], node.info[t, I_TAIL]
    if thinking > 0:
        row[T_NEXT] = now + (row[T_NEXT] - now) * thinking / (thinking + 1.0)
    elif following < node.info[t, I_END]:
        row[T_NEXT] = now + requests[following, 2] * row[T_THINK]
    node.info[t, I_THINKING] = thinking + 1
    put(node, arrival_source(t), row[T_NEXT])


@lean
def finish(node: Node, requests: FloatArray, c: int, now: float) -> None:
    """The request that a CPU, accounted up to now, runs is done: take the next one, or sleep."""
    h = node.number[c, N_THREAD]
    t, request = node.link[h, L_TENANT], node.link[h, L_REQUEST]
    requests[request, 2] = now - requests[request, 0]
    node.sums[t, A_COMPLETED] += 1.0
    node.link[h, L_REQUEST] = -1
    node.entity[h, E_LEFT] = 0.0
    if node.info[t, I_THINKING] >= 0:
        _think(node, requests, t, now)
    if _take_next(node, requests, t, h):
        plan_event(node, c, now)
        return
    dequeue(node, h, now)
    _fall_asleep(node, t, h)
    reschedule(node, requests, c, now)


@lean
def tick(node: Node, requests: FloatArray, c: int, now: float) -> None:
    """The timer of a CPU, which is accounted up to now."""
    if slice_ends(node, c, now):
        reschedule(node, requests, c, now)
    else:
        plan_event(node, c, now)
