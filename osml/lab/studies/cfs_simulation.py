"""CFS before 6.6, simulated in steps of 50 us: services of four threads beside threads that always run, no groups.

Sleeper credit, wake-up preemption, the search for an idle CPU, new-idle and periodic balancing. A study, not part of
the product; cfs_groups.py has groups, and a job on every CPU.
"""
# pyright: basic

import numba as nb
import numpy as np


@nb.njit(cache=True)
def _runnable(run, cpu, c):
    """How many threads run or wait on CPU c."""
    n = 0
    for j in range(len(run)):
        if run[j] > 0 and cpu[j] == c:
            n += 1
    return n


@nb.njit(cache=True)
def sim(seed, ncpu, nsvc, lam, mean_ms, cv2, be, seconds, lat, mingran, wakegran, hot):  # noqa: PLR0912, PLR0915
    """Waits of `nsvc` services beside `be` threads that always run, on `ncpu` CPUs, for so many `seconds`.

    `lam` (requests/s), `mean_ms` and `cv2` (of the work) have the shape (services,). `lat`, `mingran`, `wakegran`
    (sched_latency, min_granularity, wakeup_granularity) and `hot` (how long a thread is not pulled away) are in ms.
    Gives response times in ms, shape (services, 400,000), how many of each row are filled, and the CPUs of the threads.
    """
    np.random.seed(seed)
    dt = 0.05
    nth = 4 * nsvc + be
    svc = np.full(nth, -1)
    for s in range(nsvc):
        for k in range(4):
            svc[4 * s + k] = s
    cpu = np.zeros(nth, np.int64)
    vr = np.zeros(nth)
    run = np.zeros(nth, np.int64)  # 0 sleep,1 queued,2 running
    rem = np.zeros(nth)
    arr = np.zeros(nth)
    last = np.zeros(nth)
    idle_since = np.zeros(nth)
    cur = np.full(ncpu, -1)
    minv = np.zeros(ncpu)
    start = np.zeros(ncpu)
    for i in range(nth):
        cpu[i] = i % ncpu
    q = np.zeros((nsvc, 200000))
    qw = np.zeros((nsvc, 200000))
    qh = np.zeros(nsvc, np.int64)
    qt = np.zeros(nsvc, np.int64)
    nxt = np.zeros(nsvc)
    sg = np.sqrt(np.log(1 + cv2))
    for s in range(nsvc):
        nxt[s] = np.random.exponential(1000 / lam[s])
    out = np.zeros((nsvc, 400000))
    no = np.zeros(nsvc, np.int64)
    becpu = 0.0
    steps = int(seconds * 1000 / dt)
    nextbal = np.zeros(ncpu)
    for i in range(be):
        run[4 * nsvc + i] = 1
        rem[4 * nsvc + i] = 1e18
    for st in range(steps):
        t = st * dt
        # arrivals
        for s in range(nsvc):
            while nxt[s] <= t:
                w = mean_ms[s] * np.exp(sg[s] * np.random.normal() - sg[s] ** 2 / 2)
                th = -1
                best = 1e18
                for k in range(4):
                    if run[4 * s + k] == 0 and idle_since[4 * s + k] < best:
                        best = idle_since[4 * s + k]
                        th = 4 * s + k
                if th >= 0:
                    rem[th] = w
                    arr[th] = nxt[s]
                    # placement
                    c = cpu[th]
                    tgt = -1
                    if _runnable(run, cpu, c) == 0:
                        tgt = c
                    else:
                        o = np.random.randint(ncpu)
                        for d in range(ncpu):
                            cc = (o + d) % ncpu
                            if _runnable(run, cpu, cc) == 0:
                                tgt = cc
                                break
                    if tgt < 0:
                        tgt = c
                    if tgt != c:
                        vr[th] = vr[th] - minv[c] + minv[tgt]
                    cpu[th] = tgt
                    vr[th] = max(vr[th], minv[tgt] - lat / 2)
                    run[th] = 1
                    k = cur[tgt]
                    if k >= 0 and vr[k] - vr[th] > wakegran:
                        run[k] = 1
                        last[k] = t
                        cur[tgt] = -1
                else:
                    q[s, qt[s] % 200000] = nxt[s]
                    qw[s, qt[s] % 200000] = w
                    qt[s] += 1
                nxt[s] += np.random.exponential(1000 / lam[s])
        for c in range(ncpu):
            if cur[c] < 0:
                b = -1
                bv = 1e18
                for j in range(nth):
                    if run[j] == 1 and cpu[j] == c and vr[j] < bv:
                        bv = vr[j]
                        b = j
                if b < 0:
                    # newidle: pull from the busiest
                    busiest = -1
                    mx = 1
                    for cc in range(ncpu):
                        n = _runnable(run, cpu, cc)
                        if n > mx:
                            mx = n
                            busiest = cc
                    if busiest >= 0:
                        for j in range(nth):
                            if run[j] == 1 and cpu[j] == busiest and t - last[j] > hot:
                                b = j
                                break
                        if b >= 0:
                            vr[b] = vr[b] - minv[busiest] + minv[c]
                            cpu[b] = c
                if b >= 0:
                    cur[c] = b
                    run[b] = 2
                    start[c] = t
            elif t >= nextbal[c]:
                nextbal[c] = t + 64 + np.random.random() * 10
                me = 0
                busiest = -1
                mx = 0
                for cc in range(ncpu):
                    n = _runnable(run, cpu, cc)
                    if cc == c:
                        me = n
                    elif n > mx:
                        mx = n
                        busiest = cc
                if mx >= me + 2:
                    for j in range(nth):
                        if run[j] == 1 and cpu[j] == busiest and t - last[j] > hot:
                            vr[j] = vr[j] - minv[busiest] + minv[c]
                            cpu[j] = c
                            break
            k = cur[c]
            if k >= 0:
                vr[k] += dt
                rem[k] -= dt
                if svc[k] < 0:
                    becpu += dt
                # min_vruntime
                lo = vr[k]
                n = 1
                lv = 1e18
                for j in range(nth):
                    if run[j] == 1 and cpu[j] == c:
                        n += 1
                        lv = min(lv, vr[j])
                lo = min(lo, lv)
                minv[c] = max(minv[c], lo)
                if rem[k] <= 0:
                    s = svc[k]
                    out[s, no[s]] = t + dt - arr[k]
                    no[s] += 1
                    if qh[s] < qt[s]:
                        arr[k] = q[s, qh[s] % 200000]
                        rem[k] = qw[s, qh[s] % 200000]
                        qh[s] += 1
                    else:
                        run[k] = 0
                        idle_since[k] = t
                        cur[c] = -1
                        last[k] = t
                elif n > 1 and st % 20 == 0:  # tick, HZ=1000
                    period = max(lat, n * mingran)
                    ideal = period / n
                    ran = t - start[c]
                    if ran > ideal or (ran > mingran and vr[k] - lv > ideal):
                        run[k] = 1
                        last[k] = t
                        cur[c] = -1
    return out, no, becpu / (seconds * 1000)
