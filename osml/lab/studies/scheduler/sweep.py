"""Runs the sweeps that the laws were fitted to, and prints the errors of the laws (python -m ...scheduler.sweep)."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator

import numpy as np

from osml.lab.studies.scheduler import laws
from osml.lab.studies.scheduler.analytic import law_quantile
from osml.lab.studies.scheduler.model import Job, Kernel, Machine, Service, cfs, eevdf
from osml.lab.studies.scheduler.simulation import Outcome, simulate

Error = tuple[str, float]
"""Which part of a sweep a case belongs to, and its error."""

_CV2 = 0.3


def _run(
    machine: Machine, kernel: Kernel, tenants: list[Job | Service], requests: int, least_s: float, most_s: float
) -> Outcome:
    service = tenants[0]
    rate = service.rate if isinstance(service, Service) else 1.0
    seconds = min(max(requests / rate, least_s), most_s)
    return simulate(machine, kernel, tenants, seconds, seconds * 0.1, bin_s=seconds / 100.0).tenants[0]


def _wait_ms(seen: Outcome) -> float:
    return max(float(np.nanmean(seen.response_ms - seen.work_ms)), 0.0)


def beside_jobs() -> Iterator[Error]:
    """D3: mean wait and p99."""
    wide = itertools.product(
        (18, 36), ((4, 1.2), (8, 2.0), (8, 3.2)), (0.03, 0.3, 1.0), (False, True), (8, 5, 4, 3, 2, 1, 0, -2, -6)
    )
    others = ((4, 0.8), (4, 1.6), (6, 1.5), (6, 2.5), (8, 1.2), (12, 2.0), (12, 4.0), (16, 3.0), (16, 6.0))
    close = itertools.product((36,), others, (0.03, 0.3, 1.0, 3.0), (False, True), (6, 4, 3, 2, 1))
    cases = itertools.chain(wide, close)
    for cpus, (threads, used), work, grouped, free in cases:
        service = Service(threads, rate=used / work * 1000.0, work_ms=work, cv2=_CV2, grouped=grouped)
        job = Job(cpus - free, grouped=grouped)
        seen = _run(Machine(cpus), cfs(36), [service, job], 40_000 if work < 0.1 else 15_000, 2.0, 12.0)
        law = laws.beside_jobs(cpus, cpus - free, used, threads, work, _CV2, grouped)
        kind, little = "groups" if grouped else "plain", 0.05 * work + 0.01
        wait = math.log((law.mean_ms + little) / (_wait_ms(seen) + little))
        if free <= 0 and grouped and used == 2.0:
            yield "groups, about 2 CPUs used, no free CPU (both states last): mean wait", wait
            continue
        yield f"{kind}: mean wait", wait
        if 0 < free <= used + 1.5:
            yield f"{kind}, few free CPUs: mean wait", wait
        yield f"{kind}: p99", math.log(law_quantile(0.99, work, _CV2, law) / seen.quantile(0.99))


def quotas() -> Iterator[Error]:
    """D4: p99."""
    cases = itertools.product(
        (10.0, 20.0, 50.0, 100.0), (0.3, 1.3, 5.0), (4, 8, 16), (1.5, 2.0, 2.5, 3.0), (0.3, 0.6, 0.8, 0.9)
    )
    for period, work, threads, quota, load in cases:
        service = Service(
            threads, rate=load * quota / work * 1000.0, work_ms=work, cv2=_CV2, grouped=True, quota=quota,
            period_ms=period,
        )  # fmt: skip
        seen = _run(Machine(16), cfs(16), [service], 0, 30.0, 30.0)
        law = law_quantile(0.99, work, _CV2, laws.throttled(quota, period, load, work, _CV2, threads))
        error = math.log(law / seen.quantile(0.99))
        yield "p99", error
        yield f"period {period:g} ms: p99", error


def many_threads() -> Iterator[Error]:
    """D6: p99 of the law, and of a queue without time sharing."""
    for cpus, work, cv2, load in itertools.product((4, 8), (0.3, 1.0, 5.0, 20.0), (0.3, 1.0), (0.5, 0.75, 0.85, 0.92)):
        service = Service(36, rate=load * cpus / work * 1000.0, work_ms=work, cv2=cv2)
        seen = _run(Machine(cpus), cfs(36), [service], 60_000, 0.0, math.inf).quantile(0.99)
        yield "p99", math.log(law_quantile(0.99, work, cv2, laws.time_sharing(cpus, 36, load, work, cv2)) / seen)
        yield (
            "p99, first come first served",
            math.log(law_quantile(0.99, work, cv2, laws.first_come(cpus, load, work, cv2)) / seen),
        )


def siblings() -> Iterator[Error]:
    """D10: share of time with a busy sibling (difference, not logarithm)."""
    for first, work, cores, tenths in itertools.product((False, True), (1.0, 10.0), (2, 6, 9, 18), range(1, 10)):
        busy, cpus = tenths / 10.0, 2 * cores
        service = Service(2 * cpus, rate=busy * cpus / work * 1000.0, work_ms=work, cv2=_CV2)
        kernel = Kernel(core_first=first)
        seen = _run(Machine(cpus, True, 1.0), kernel, [service], 40_000, 0.0, math.inf).sibling_busy
        yield "share", laws.sibling_share(busy, cores, first, work) - seen
        yield "share, twice the use above half alone", max(0.0, 2.0 * busy - 1.0) / busy - seen


def wake_ups() -> Iterator[Error]:
    """EEVDF: p95."""
    kernel = eevdf(36, tick_ms=1.0)
    sizes = [(n, threads, jobs) for n, threads in ((2, 4), (4, 8), (8, 8)) for jobs in (n, n + n // 2, 2 * n)]
    for (cpus, threads, jobs), work, weight, part, grouped in itertools.product(
        sizes, (0.05, 0.3, 1.0, 3.0), (1.0, 4.0, 44.0), (0.1, 0.3, 0.5, 0.7), (False, True)
    ):
        share = weight / (weight + 1.0) if grouped else weight * threads / (weight * threads + jobs)
        used = part * min(cpus * share, threads)
        service = Service(threads, rate=used / work * 1000.0, work_ms=work, cv2=_CV2, grouped=grouped, weight=weight)
        seen = _run(Machine(cpus), kernel, [service, Job(jobs, grouped=grouped)], 12_000, 2.0, 40.0)
        law = laws.eevdf_wake_up(cpus, jobs, used, threads, work, _CV2, weight, grouped)
        error = math.log(law_quantile(0.95, work, _CV2, law) / seen.quantile(0.95))
        yield "p95", error
        yield "p95, groups" if grouped else "p95, plain threads", error
        yield "p95, work below 0.1 ms" if work < 0.1 else "p95, work from 0.3 ms", error


def load_steps() -> Iterator[Error]:
    """D8: 95th percentile of the wait, by the time of arrival after the step; 60 seeds, requests of one second."""
    for cpus, before, now in itertools.product((4, 8, 16), (0.3, 0.6), (0.85, 0.97, 1.05, 1.2)):
        service = Service(cpus, rate=before * cpus, work_ms=1000.0, cv2=_CV2, steps=((20.0, now * cpus),))
        arrived, waited = list[float](), list[float]()
        for seed in range(60):
            seen = simulate(Machine(cpus), cfs(cpus), [service], 90.0, seed=seed, bin_s=1.0).tenants[0]
            done = np.isfinite(seen.response_ms) & (seen.arrived_s > 20.0)
            arrived += (seen.arrived_s[done] - 20.0).tolist()
            waited += (seen.response_ms - seen.work_ms)[done].tolist()
        at, waits = np.array(arrived), np.array(waited)
        for first, last in ((1, 2), (3, 5), (6, 9), (12, 16), (20, 26), (34, 42)):
            found = float(np.quantile(waits[(at >= first) & (at < last)], 0.95))
            law = laws.wait_after_step(0.95, 0.5 * (first + last), cpus, before, now, 1000.0, _CV2)
            yield "p95 of the wait", math.log((law + 300.0) / (found + 300.0))


SWEEPS: dict[str, Callable[[], Iterator[Error]]] = {
    "D3": beside_jobs, "D4": quotas, "D6": many_threads, "D8": load_steps, "D10": siblings, "EEVDF": wake_ups,
}  # fmt: skip


def main(names: list[str]) -> None:
    """Print cases and mean, median, 90 % and largest error of each part of these sweeps, or of all."""
    print("| sweep | part | cases | mean error | median | 90 % below | largest | bias |\n|" + " --- |" * 8)
    for name in names or list(SWEEPS):
        found: dict[str, list[float]] = {}
        for part, error in SWEEPS[name]():
            found.setdefault(part, []).append(error)
        for part, errors in found.items():
            sizes = np.abs(np.array(errors))
            numbers = (sizes.mean(), np.median(sizes), np.quantile(sizes, 0.9), sizes.max(), np.mean(errors))
            print(f"| {name} | {part} | {len(errors)} | " + " | ".join(f"{x:.3f}" for x in numbers) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
