"""Prints the simulated kernel beside the analytic node and beside the short laws, case by case.

python -m osml.lab.studies.scheduler.compare [D3 D4 D6 D8 D10 EEVDF]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from osml.lab.studies.scheduler import columns as c
from osml.lab.studies.scheduler import laws
from osml.lab.studies.scheduler.analytic import law_quantile, node_flows
from osml.lab.studies.scheduler.model import Job, Kernel, Machine, Service, cfs, eevdf
from osml.lab.studies.scheduler.simulation import Outcome, simulate

_CV2 = 0.3
_REQUESTS = 30_000


def _run(
    machine: Machine, kernel: Kernel, service: Service, jobs: Job | None = None, requests: int = _REQUESTS
) -> Outcome:
    """The service after a warm-up of a fifth of the run, which is a second at least and a minute at most."""
    seconds = min(max(requests / service.rate, 1.0), 60.0)
    tenants = [service] if jobs is None else [service, jobs]
    return simulate(machine, kernel, tenants, seconds, seconds * 0.2, bin_s=seconds / 100.0).tenants[0]


def _line(*cells: object) -> None:
    print("| " + " | ".join(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in cells) + " |")


def _head(title: str, *columns: str) -> None:
    print(f"\n{title}\n")
    _line(*columns)
    _line(*("---" for _ in columns))


def beside_jobs() -> None:
    """D3: a redis-like service beside a growing job."""
    _head(
        "D3: work 0.03 ms, 36 CPUs, CFS; p99 in ms",
        "groups", "threads", "CPUs used", "job threads", "simulated", "node", "law", "simulated mean wait", "law",
    )  # fmt: skip
    for grouped in (False, True):
        for threads, used in ((4, 1.2), (6, 2.5), (8, 3.2)):
            for jobs in (1, 8, 16, 24, 30, 32, 33, 34, 35, 36, 37, 40):
                rate = used / 0.03e-3
                service = Service(threads, rate=rate, work_ms=0.03, cv2=_CV2, grouped=grouped)
                seen = _run(Machine(36), cfs(36), service, Job(jobs, grouped=grouped), 60_000)
                node = node_flows([1.0] * 3, 36, rate, 0.03, _CV2, threads, jobs=jobs, grouped=grouped)[-1].p99_ms
                law = laws.beside_jobs(36, jobs, used, threads, 0.03, _CV2, grouped)
                p99 = law_quantile(0.99, 0.03, _CV2, law)
                wait = seen.mean_ms - float(seen.work_ms.mean())
                _line(grouped, threads, used, jobs, seen.quantile(0.99), node, p99, max(wait, 0.0), law.mean_ms)


def quotas() -> None:
    """D4: quota in fine steps."""
    _head(
        "D4: work 1.34 ms, 8 threads, 16 CPUs, CFS; p99 in ms",
        "period ms", "quota", "load", "simulated", "node", "law", "times throttled/s",
    )  # fmt: skip
    for period in (100.0, 10.0):
        for quota in (1.5, 1.75, 1.95, 2.0, 2.01, 2.05, 2.25, 2.5, 2.75, 3.0):
            for load in (0.3, 0.6, 0.8, 0.9):
                rate = load * quota / 1.34e-3
                service = Service(
                    8, rate=rate, work_ms=1.34, cv2=_CV2, grouped=True, quota=quota, period_ms=period
                )  # fmt: skip
                seen = _run(Machine(16), cfs(16), service)
                node = node_flows([1.0] * 3, 16, rate, 1.34, _CV2, 8, quota=quota, period_ms=period)[-1].p99_ms
                law = law_quantile(0.99, 1.34, _CV2, laws.throttled(quota, period, load, 1.34, _CV2, 8))
                _line(
                    period, quota, load, seen.quantile(0.99), node, law, float(seen.sums[c.A_THROTTLES]) / seen.seconds
                )


def many_threads() -> None:
    """D6: 36 threads on few CPUs."""
    _head("D6: 36 threads, CFS; p99 in ms", "CPUs", "work ms", "utilisation", "simulated", "node", "law")
    for cpus in (4, 8):
        for work in (0.3, 1.34, 5.0, 20.0):
            for load in (0.5, 0.75, 0.85, 0.92):
                rate = load * cpus / work * 1000.0
                seen = _run(Machine(cpus), cfs(36), Service(36, rate=rate, work_ms=work, cv2=_CV2), None, 60_000)
                node = node_flows([1.0] * 3, cpus, rate, work, _CV2, 36)[-1].p99_ms
                law = law_quantile(0.99, work, _CV2, laws.time_sharing(cpus, 36, load, work, _CV2))
                _line(cpus, work, load, seen.quantile(0.99), node, law)


def load_steps() -> None:
    """D8: a step of load, requests of one second; pooled over 60 seeds."""
    cpus, before, shown = 8, 20, (0, 1, 2, 4, 6, 9, 14, 19, 29, 49)
    _head(
        "D8: work 1 s, 8 threads on 8 CPUs, load 0.3 until second 0; p99 by completion, p95 of waits by arrival, in s",
        "load", "second", "simulated p99", "node p99", "simulated p95 of waits", "law",
    )  # fmt: skip
    for load in (0.97, 1.05):
        service = Service(cpus, rate=0.3 * cpus, work_ms=1000.0, cv2=_CV2, steps=((float(before), load * cpus),))
        arrived, took, works = list[float](), list[float](), list[float]()
        for seed in range(60):
            seen = simulate(Machine(cpus), cfs(cpus), [service], before + 70.0, seed=seed, bin_s=1.0).tenants[0]
            done = np.isfinite(seen.response_ms)
            took += (seen.response_ms[done] / 1000.0).tolist()
            works += (seen.work_ms[done] / 1000.0).tolist()
            arrived += (seen.arrived_s[done] - before).tolist()
        at, values, waits = np.array(arrived), np.array(took), np.array(took) - np.array(works)
        flows = node_flows([0.3 / load] * before + [1.0] * 60, cpus, load * cpus, 1000.0, _CV2, cpus)
        for second in shown:
            node = flows[before + second].p99_ms
            ended, came = np.floor(at + values) == second, np.floor(at) == second
            law = laws.wait_after_step(0.95, second + 0.5, cpus, 0.3, load, 1000.0, _CV2) / 1000.0
            _line(
                load, second, float(np.quantile(values[ended], 0.99)), (node or 0.0) / 1000.0,
                float(np.quantile(waits[came], 0.95)), law,
            )  # fmt: skip


def siblings() -> None:
    """D10: more cores with hyperthreads."""
    _head(
        "D10: work 1.34 ms, twice as many threads as CPUs, a busy sibling costs 35 %; CFS",
        "cores", "CPUs wanted", "p99 ms simulated", "node", "busy sibling simulated", "law", "idle core first", "law",
    )  # fmt: skip
    for wanted in (3.0, 6.0, 9.0):
        for cores in range(2, 19):
            if wanted > 0.85 * 1.3 * cores:
                continue
            rate = wanted / 1.34e-3
            machine, service = Machine(2 * cores, True, 0.65), Service(4 * cores, rate=rate, work_ms=1.34, cv2=_CV2)
            seen = _run(machine, cfs(36), service)
            packed = _run(machine, replace(cfs(36), core_first=True), service)
            node = node_flows([1.0] * 3, 2 * cores, rate, 1.34, _CV2, 4 * cores, smt=True, smt_speed=0.65)[-1].p99_ms
            found = [
                laws.sibling_share(min(run.cpus / (2 * cores), 1.0), cores, first, 1.34)
                for run, first in ((seen, False), (packed, True))
            ]
            _line(
                cores, wanted, seen.quantile(0.99), node, seen.sibling_busy, found[0], packed.sibling_busy, found[1]
            )  # fmt: skip


def wake_ups() -> None:
    """EEVDF: a memcached-like service on two CPUs beside jobs."""
    _head(
        "EEVDF: 4 threads on 2 CPUs, slices 3 ms, ticks 1 ms; p95 in ms",
        "groups", "work ms", "job threads", "weight", "CPUs used", "simulated", "node", "law",
    )  # fmt: skip
    kernel = eevdf(36, tick_ms=1.0)
    for grouped in (False, True):
        for work in (0.05, 1.0):
            for jobs in (2, 4):
                for weight in (1.0, 44.0):
                    for used in (0.1, 0.4, 0.7):
                        rate = used / work * 1000.0
                        service = Service(4, rate=rate, work_ms=work, cv2=_CV2, grouped=grouped, weight=weight)
                        seen = _run(Machine(2), kernel, service, Job(jobs, grouped=grouped))
                        node = node_flows(
                            [1.0] * 3, 2, rate, work, _CV2, 4, jobs=jobs, weight=weight, grouped=grouped
                        )[-1].p95_ms  # fmt: skip
                        law = laws.eevdf_wake_up(2, jobs, used, 4, work, _CV2, weight, grouped)
                        _line(
                            grouped, work, jobs, weight, used, seen.quantile(0.95), node,
                            law_quantile(0.95, work, _CV2, law),
                        )  # fmt: skip


TABLES: dict[str, Callable[[], None]] = {
    "D3": beside_jobs, "D4": quotas, "D6": many_threads, "D8": load_steps, "D10": siblings, "EEVDF": wake_ups,
}  # fmt: skip


def main(names: list[str]) -> None:
    """Print the tables of these names, or all."""
    for name in names or list(TABLES):
        TABLES[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
