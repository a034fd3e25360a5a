"""Wake-ups beside a job that runs on every CPU: CFS before 6.6, threads of one group or tenants in groups (containers).

Rules of kernel/sched/fair.c: place_entity (a sleeper lags at most sched_latency / 2), find_matching_se and
wakeup_preempt_entity (the entity that wakes preempts where it lags more than wakeup_granularity, stretched by NICE_0 /
its weight), calc_group_shares (a group's weight on a CPU: its shares x runnable threads here / (here + load averages
elsewhere)), check_preempt_tick. A study, not part of the product.
"""
# pyright: basic

import numba as nb
import numpy as np

STEP_MS = 0.05
LATENCY_MS, MIN_MS, WAKE_MS = 24.0, 3.0, 4.0  # 8 and more CPUs
PELT_MS = 32.0 / np.log(2.0)


@nb.njit
def simulate(seed, cpus, threads, rate, mean_ms, cv2, shares, job_shares, grouped, tick_ms, seconds):  # noqa: PLR0912, PLR0915
    """Delays in ms beyond the service time of one service with a thread or more a CPU; one job thread on every CPU."""
    np.random.seed(seed)
    home = np.arange(threads) % cpus
    state, remaining, arrived, idle_since = (
        np.zeros(threads, np.int64),
        np.zeros(threads),
        np.zeros(threads),
        np.zeros(threads),
    )
    work, lag = np.zeros(threads), np.zeros(threads)  # lag: vruntime of a thread (ungrouped)
    own, job, floor = np.zeros(cpus), np.zeros(cpus), np.zeros(cpus)  # vruntime of the group entity, of the job's
    current = np.full(cpus, -1)  # thread, or -1: the job
    ran = np.zeros(cpus)
    average = np.zeros(cpus)
    queue, queue_work, head, tail = np.zeros(2000000), np.zeros(2000000), 0, 0
    out, done = np.zeros(2000000), 0
    sigma = np.sqrt(np.log(1.0 + cv2))
    upcoming, decay, busy = np.random.exponential(1.0 / rate), np.exp(-STEP_MS / PELT_MS), 0.0
    total = 0.0
    for step in range(int(seconds * 1000.0 / STEP_MS)):
        now = step * STEP_MS
        while upcoming <= now:
            size = mean_ms * np.exp(sigma * np.random.normal() - sigma * sigma / 2.0)
            chosen = -1
            for k in range(threads):
                if state[k] == 0 and (chosen < 0 or idle_since[k] < idle_since[chosen]):
                    chosen = k
            if chosen < 0:
                queue[tail], queue_work[tail] = upcoming, size
                tail += 1
            else:
                c = home[chosen]
                here = 0
                for k in range(threads):
                    here += state[k] > 0 and home[k] == c
                remaining[chosen], work[chosen], arrived[chosen], state[chosen] = size, size, upcoming, 1
                if grouped:
                    weight = shares / (here + 1.0 + total - average[c]) * (here + 1.0)
                    if here == 0:
                        own[c] = max(own[c], floor[c] - LATENCY_MS / 2.0)
                        if current[c] < 0 and job[c] - own[c] > WAKE_MS / weight:
                            current[c], ran[c] = chosen, 0.0
                else:
                    lag[chosen] = max(lag[chosen], floor[c] - LATENCY_MS / 2.0)
                    ahead = job[c] if current[c] < 0 else lag[current[c]]
                    if ahead - lag[chosen] > WAKE_MS:
                        current[c], ran[c] = chosen, 0.0
            upcoming += np.random.exponential(1.0 / rate)
        before = total
        total = 0.0
        for c in range(cpus):
            here, first = 0, -1
            for k in range(threads):
                if state[k] > 0 and home[k] == c:
                    here += 1
                    if first < 0 or (lag[k] < lag[first] if not grouped else arrived[k] < arrived[first]):
                        first = k
            elsewhere = max(before - average[c], 0.0)
            average[c] = average[c] * decay + here * (1.0 - decay)
            total += average[c]
            weight = shares * here / (here + elsewhere) if grouped and here else 1.0
            job_weight = job_shares / cpus if grouped else 1.0
            ran[c] += STEP_MS
            k = current[c]
            if k < 0:
                job[c] += STEP_MS / job_weight
            else:
                busy += STEP_MS
                if grouped:
                    own[c] += STEP_MS / weight
                else:
                    lag[k] += STEP_MS
                remaining[k] -= STEP_MS
            least = job[c]
            if here:
                least = min(least, own[c] if grouped else lag[first])
            floor[c] = max(floor[c], least)
            if k >= 0 and remaining[k] <= 0.0:
                out[done] = max(now + STEP_MS - arrived[k] - work[k], 0.0)
                done += 1
                if head < tail:
                    arrived[k], remaining[k], work[k] = queue[head], queue_work[head], queue_work[head]
                    head += 1
                else:
                    state[k], idle_since[k] = 0, now
                    current[c], ran[c] = -1, 0.0
                    best = job[c]
                    for j in range(threads):
                        if state[j] > 0 and home[j] == c and (lag[j] if not grouped else own[c]) < best:
                            current[c], best = j, lag[j] if not grouped else own[c]
            elif here and step % int(tick_ms / STEP_MS) == (c * 7) % int(tick_ms / STEP_MS):
                entities = 2 if grouped else here + 1
                period = LATENCY_MS if entities <= 8 else MIN_MS * entities
                mine = job_weight if k < 0 else weight
                ideal = period * mine / (job_weight + (weight if grouped else here * 1.0))
                leader = own[c] if grouped else lag[first]
                if k < 0:
                    if ran[c] > ideal or (ran[c] > MIN_MS and job[c] - leader > ideal):
                        if leader < job[c]:
                            current[c] = first
                        ran[c] = 0.0
                else:
                    mine_at = own[c] if grouped else lag[k]
                    if ran[c] > ideal or (ran[c] > MIN_MS and mine_at - job[c] > ideal):
                        current[c], ran[c] = (-1 if job[c] < mine_at else k), 0.0
    return out[:done], busy / (seconds * 1000.0)


def beside_programs():
    """Print the tail of the delays of two services of PARTIES beside a burner on each of their eight CPUs.

    The burners are one container (job_shares 1), or programs that have a group each or none at all (8). Lengths of
    requests and CPU use at max load are those of the virtual node on eight CPUs.
    """
    cpus = 8
    print("a service in a container beside eight burners: p99 of the delay")
    for name, mean, cv2, use in (("xapian", 1.34, 0.06, 0.60), ("moses", 4.86, 0.09, 0.56)):
        for job_shares, burners in ((1.0, "in one container"), (8.0, "each on its own")):
            for load in (0.1, 0.2, 0.3):
                rate = load * use * cpus / mean
                delays, busy = simulate(1, cpus, cpus, rate, mean, cv2, 1.0, job_shares, True, 4.0, 20.0)
                p99 = np.percentile(delays[len(delays) // 10 :], 99)
                print(f"  {name:6} {load:3.0%}, burners {burners}: {busy / cpus:5.1%} of the CPUs, {p99:7.1f} ms")


def main():
    """Print how many wait, how long, against the sum of runnable threads, for plain threads and for groups."""
    cpus = 8
    for name, grouped, shares in (
        ("plain threads", False, 1.0),
        ("groups, equal shares", True, 1.0),
        ("groups, 4 x the shares", True, 4.0),
    ):
        print(name)
        for mean in (0.5, 2.0, 8.0):
            for use in (0.05, 0.1, 0.2, 0.3, 0.4, 0.45):
                delays, busy = simulate(1, cpus, cpus, use * cpus / mean, mean, 0.3, shares, 1.0, grouped, 4.0, 60.0)
                delays = delays[len(delays) // 10 :]
                late = delays[delays > 0.2]
                share, mean_late = len(late) / len(delays), late.mean() if len(late) else 0.0
                print(f"  {mean:4} ms, {busy / cpus:4.0%} of {cpus} CPUs: {share:5.1%} wait, mean {mean_late:5.1f} ms")


if __name__ == "__main__":
    main()
    beside_programs()
