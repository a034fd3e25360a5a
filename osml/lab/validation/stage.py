"""The stage: services, load generator and cgroups that stay up while one cell after another is measured."""

from __future__ import annotations

import os
import time
from collections.abc import Generator as Iterates
from collections.abc import Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from osml.base.failure import MachineError
from osml.domain.cpulist import format_cpulist
from osml.lab.trials.children import Child, Children, free_port, interrupt_on_signals, wait_until
from osml.lab.trials.live import enter, machine
from osml.lab.trials.live.cgroups import LiveGroups, end_tasks, find_hierarchies
from osml.lab.trials.live.generator import Generator, find_generator
from osml.lab.trials.live.jobs import job_named
from osml.lab.trials.live.services import LOOPBACK, Service, try_fill
from osml.lab.validation.cells import Cell, Measured
from osml.lab.validation.noise import usage, wait_for_quiet
from osml.lab.validation.statistics import Histogram, order_interval, quantiles_of

N_CPUS = 2
COMPANY = "company"
PERIOD_MS = 10.0
WARM_S = 0.5
JOB_START_S = 0.7
GIVE_UP_S = 10.0
"""After which the load generator gives a request up (Target::kGiveUp)."""

MOST_FAILED = 0.001
"""Share of requests that may be refused or lost in a cell that is scored."""

_LOOK_S = 0.2


@dataclass(frozen=True)
class Quiet:
    """How much others may use, in CPUs, how long to wait for that, and how many times their weight the lab's groups
    have: the more, the less other programs disturb, and the slower these become.
    """

    most_cpus: float = 0.10
    patience_s: float = 20.0
    most_steal: float = 0.03
    precedence: int = 16


@dataclass(frozen=True)
class Load:
    """Requests a second of the service in a cell, and of the other service that keeps it company (0: none)."""

    rate: float
    company_rate: float = 0.0


@contextmanager
def sole_use(services: Sequence[Service], jobs: Sequence[str] = ()) -> Iterates[None]:
    """Root, all programs, and the machine's only trial. Raises MachineError else, before anything is written."""
    machine.require_root("osml lab live")
    machine.require_programs([*services, *map(job_named, jobs)])
    find_generator(None)
    with machine.only_trial():
        yield


@dataclass
class Stage:
    """Starts everything when it is entered, under `sole_use`, and leaves nothing behind."""

    services: list[Service]
    out: Path
    seed: int
    quiet: Quiet = field(default_factory=Quiet)

    def __enter__(self) -> Stage:
        """Raises MachineError where the machine lacks something, Failure where a service does not start."""
        binary = find_generator(None)
        with ExitStack() as stack:
            interrupt_on_signals()
            for service in self.services:
                machine.prepare(service)
            self.cpus = sorted(os.sched_getaffinity(0))[:N_CPUS]
            if len(self.cpus) < N_CPUS:
                raise MachineError(f"the lab may use {len(self.cpus)} CPU, expected {N_CPUS}: allow it more (taskset)")
            self._groups = LiveGroups(
                find_hierarchies(Path("/proc/mounts").read_text()), format_cpulist(self.cpus), self.quiet.precedence
            )
            self._groups.remove()  # of a run that was killed
            stack.callback(self._groups.remove)
            # Else a job alone in the lab's heavy groups would leave this process no CPU to end it with.
            stack.enter_context(self._groups.in_control())
            stack.enter_context(machine.work_directory())
            self._children = stack.enter_context(Children(self.out / "logs"))
            self._groups.create(COMPANY, threads=2)
            self._started = {service.name: self._start(service) for service in self.services}
            self._generator = self._start_generator(binary)
            stack.callback(self._generator.stop)
            self._marks = 0
            if "given_up" not in self._mark()["services"][self.services[0].name]:
                raise MachineError("osml-loadgen is older than this lab: build it with `make agent`")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop and remove everything."""
        self._stack.close()

    def _start(self, service: Service) -> tuple[Child, int]:
        directory, port = machine.service_directory(service.name), free_port()
        command = service.command(directory, port)
        groups = self._groups.create(service.name, threads=1)
        child = self._children.start(service.name, enter.command(command, groups, service.user))
        wait_until(lambda: try_fill(service, port), service.name, [child])
        return child, port

    def _start_generator(self, binary: Path) -> Generator:
        specs: list[str] = []
        for service in self.services:
            port = self._started[service.name][1]
            spec = (
                f"name={service.name},protocol={service.protocol},address={LOOPBACK}:{port},rate=0,"
                f"connections={service.connections}"
            )
            if service.requests:
                requests = machine.WORK / f"{service.name}.requests"
                requests.write_text("\n".join(service.requests) + "\n")
                spec += f",requests={requests}"
            specs.append(spec)
        log = self.out / "logs/loadgen.log"
        generator = Generator(binary, specs, self.seed, log, self._groups.outside)
        # On one CPU, so that what it takes from the services is known.
        os.sched_setaffinity(generator.pid, self.cpus[:1])
        return generator

    def measure(self, cell: Cell, load: Load, seconds: float) -> Measured:
        """Set the conditions, wait for a quiet machine, measure for so long, and take the conditions back."""
        waited, foreign = wait_for_quiet(self._own_cpu_s, self.quiet.most_cpus, self.quiet.patience_s)
        noisy = "" if foreign <= self.quiet.most_cpus else f"before: others used {foreign:.2f} CPUs"
        job: Child | None = None
        other = cell.company.removeprefix("service:") if cell.company.startswith("service:") else None
        try:
            job = self._set_conditions(cell, other)
            self._generator.set_rates({cell.service: load.rate} | ({other: load.company_rate} if other else {}))
            time.sleep(WARM_S)
            return self._observe(cell, other, job, load.rate, seconds, waited, noisy)
        finally:
            self._reset(cell, other, job)

    def _set_conditions(self, cell: Cell, other: str | None) -> Child | None:
        cpus = format_cpulist(self.cpus[-cell.cpus :])
        self._groups.set_cpus(cell.service, cpus)
        self._groups.set_quota(cell.service, cell.quota, PERIOD_MS)
        if cell.company == "none":
            return None
        group = other or COMPANY
        self._groups.set_cpus(group, cpus)
        if cell.scheduling == "idle":
            self._groups.set_idle(group, True)
        else:
            self._groups.set_weight(group, cell.weight)
        if other is not None:
            return None
        described = job_named(cell.company)
        directory = machine.service_directory(f"job-{time.monotonic_ns()}")
        command = described.command(directory, cell.cpus)
        child = self._children.start("job", enter.command(command, self._groups.directories(COMPANY), described.user))
        time.sleep(JOB_START_S)
        child.check()
        return child

    def _reset(self, cell: Cell, other: str | None, job: Child | None) -> None:
        self._generator.set_rates(dict.fromkeys(self._started, 0.0))
        if job is not None:
            for directory in self._groups.directories(COMPANY):
                end_tasks(directory)
            self._children.stop(job)
        every = format_cpulist(self.cpus)
        self._groups.set_quota(cell.service, None, PERIOD_MS)
        for group in {cell.service, other or COMPANY}:
            self._groups.set_idle(group, False)
            self._groups.set_weight(group, 1.0)
            self._groups.set_cpus(group, every)
        for name in {cell.service, other or cell.service}:  # a queue that is left must not reach into the next cell
            self._drain(name)

    def _drain(self, name: str) -> None:
        deadline = time.monotonic() + GIVE_UP_S + 2.0
        while self._mark()["services"][name]["unanswered"] and time.monotonic() < deadline:
            time.sleep(_LOOK_S)

    def _observe(
        self, cell: Cell, other: str | None, job: Child | None, rate: float, seconds: float, waited: float, noisy: str
    ) -> Measured:
        group = other or COMPANY
        begin = self._mark()
        before = (usage(), self._own_cpu_s(), self._cpu(cell.service), self._cpu(group), self._throttled(cell.service))
        started = time.monotonic()
        time.sleep(seconds)
        after = (usage(), self._own_cpu_s(), self._cpu(cell.service), self._cpu(group), self._throttled(cell.service))
        passed = time.monotonic() - started
        end = self._mark()
        seen: dict[str, Any] = end["services"][cell.service]
        # At saturation the queue of the end says nothing.
        late = [] if cell.saturated else self._late_answers(cell.service, seen["unanswered"])
        for child in (*(child for child, _ in self._started.values()), *([] if job is None else [job])):
            child.check()
        histogram, unanswered, failed = answers_of(seen, late, saturated=cell.saturated)
        p50, p95, p99 = quantiles_of(histogram, (0.5, 0.95, 0.99))
        low, high = order_interval(histogram, 0.99, 0.9)
        foreign = max((after[0].busy_s - before[0].busy_s - (after[1] - before[1])) / passed, 0.0)
        steal = (after[0].steal_s - before[0].steal_s) / passed
        if not noisy and foreign > self.quiet.most_cpus:
            noisy = f"others used {foreign:.2f} CPUs"
        if not noisy and steal > self.quiet.most_steal:
            noisy = f"the hypervisor took {steal:.2f} CPUs"
        if not noisy and failed > MOST_FAILED * (failed + len_of(histogram)):
            noisy = f"{failed} requests were refused or lost"
        return Measured(
            seconds=passed, rate=rate, p50_ms=p50, p95_ms=p95, p99_ms=p99, low=low, high=high,
            throughput=seen["requests_per_s"], samples=len_of(histogram), errors=seen["errors"],
            cpu=(after[2] - before[2]) / passed, company_cpu=(after[3] - before[3]) / passed,
            company_throughput=end["services"][other]["requests_per_s"] if other else 0.0,
            generator_cpu=(end["cpu_s"] - begin["cpu_s"]) / (end["t"] - begin["t"]),
            lateness_p50_ms=seen["lateness_p50_ms"], lateness_p99_ms=seen["lateness_p99_ms"],
            steal=steal, foreign=foreign, waited_s=waited,
            throttled_share=(after[4] - before[4]) * PERIOD_MS / 1000.0 / passed, noisy=noisy,
            histogram=list(histogram), unanswered=unanswered,
        )  # fmt: skip

    def _late_answers(self, name: str, waiting: int) -> list[dict[str, Any]]:
        """Marks of the time after the end, until those that were due before it are answered or given up.

        The conditions stay as they are, without new requests. Left out, the slowest requests would not count.
        """
        self._generator.set_rates({name: 0.0})
        marks: list[dict[str, Any]] = []
        deadline = time.monotonic() + GIVE_UP_S + 1.0
        while waiting and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
            marks.append(self._mark()["services"][name])
            waiting = int(marks[-1]["unanswered"])
        return marks

    def _mark(self) -> dict[str, Any]:
        self._marks += 1
        return self._generator.mark(f"m{self._marks}")

    def _cpu(self, group: str) -> float:
        return self._groups.cpu_seconds(group)

    def _throttled(self, group: str) -> int:
        return self._groups.throttled_periods(group)

    def _own_cpu_s(self) -> float:
        """CPU time of all groups, the generator and this process."""
        fields = (Path("/proc") / str(self._generator.pid) / "stat").read_text().rpartition(")")[2].split()
        generator = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime, stime: proc(5)
        own = os.times()
        return sum(map(self._cpu, [COMPANY, *self._started])) + generator + own.user + own.system


def len_of(histogram: Histogram) -> int:
    """Number of samples."""
    return sum(count for _, count in histogram)


def answers_of(end: dict[str, Any], late: list[dict[str, Any]], *, saturated: bool) -> tuple[Histogram, int, int]:
    """The latencies of a cell, how many requests had no answer within GIVE_UP_S, and how many were refused or lost.

    `end` is the mark at the cell's end, `late` those after it. Who had no answer counts as GIVE_UP_S; not at
    saturation, where latencies mean nothing.
    """
    marks = [end, *late]
    counts: dict[float, int] = {}
    for mark in marks:
        for at, count in mark["histogram"]:
            counts[float(at)] = counts.get(float(at), 0) + int(count)
    given_up = sum(int(mark["given_up"]) for mark in marks)
    # Errors after the end may be connections that are looked for in vain: what waited then and has no end is lost.
    ends = sum(int(mark["given_up"]) + len_of(mark["histogram"]) for mark in late)
    lost = max(0, int(end["unanswered"]) - ends - int(late[-1]["unanswered"])) if late else 0
    failed = int(end["errors"]) - int(end["given_up"]) + lost
    unanswered = 0 if saturated else given_up + int(marks[-1]["unanswered"])
    if unanswered:
        counts[1000.0 * GIVE_UP_S] = counts.get(1000.0 * GIVE_UP_S, 0) + unanswered
    return sorted(counts.items()), unanswered, failed
