"""The testbed's processes: two web servers, a burner, HAProxy before them; started, calibrated, always stopped."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator as Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from osml.base.failure import Failure, MachineError
from osml.lab.testbed.burner import write_share
from osml.lab.testbed.groups import ServerGroups
from osml.lab.testbed.haproxy_process import accepts, find_haproxy, start_haproxy, write_config
from osml.lab.testbed.settings import CALM, CPU_SHARE, INTENSITIES, MAXCONN, MU_HIGH, PRONE
from osml.lab.testbed.web_worker import seconds_of_work
from osml.lab.trials.children import Child, Children, free_port, wait_until
from osml.lab.trials.live import enter
from osml.lab.trials.live.cgroups import find_hierarchies
from osml.lab.trials.live.generator import Generator
from osml.lab.trials.live.machine import only_trial

CONTROL = "burner.share"
CALIBRATE_S = 1.5
SETTLE_S = 0.4
OVERLOAD = 2.0
CONTROL_PRIORITY = 1  # below the load generator's, above everything that is not real-time
CORES_NEEDED = 2


@dataclass
class Farm:
    """Everything that runs during the trial."""

    directory: Path
    children: Children
    loadgen: Path
    ports: dict[str, int]
    port: int
    burner: Child
    work: int
    cpu: int
    intensity: str = "medium"

    @property
    def socket(self) -> Path:
        """HAProxy's runtime socket."""
        return self.directory / "haproxy.sock"

    def interfere(self, on: bool) -> None:
        """Switch the burner: it leaves the server mu_low / mu_high of what it had."""
        write_share(self.directory / CONTROL, 1.0 - CPU_SHARE * INTENSITIES[self.intensity] if on else 0.0)

    def check(self) -> None:
        """Raise Failure when the burner died; HAProxy's death is the controller's affair."""
        self.burner.check()

    def generator(self, port: int, rate: float, connections: int, seed: int) -> Generator:
        """A load generator that has begun; the caller stops it."""
        spec = f"name=web,protocol=http,address=127.0.0.1:{port},rate={rate:g},connections={connections}"
        generator = Generator(self.loadgen, [spec], seed, self.directory / "loadgen.log", [])
        os.sched_setaffinity(generator.pid, {self.cpu})
        return generator

    def calibrate(self) -> dict[str, float]:
        """Peak throughput of the prone server, requests/s: `free` and by intensity (paper, section VI-C)."""
        found: dict[str, float] = {}
        for name in ("free", *INTENSITIES):
            self.intensity = self.intensity if name == "free" else name
            self.interfere(name != "free")
            found[name] = self._peak(self.ports[PRONE])
        self.interfere(False)
        return found

    def _peak(self, port: int) -> float:
        generator = self.generator(port, OVERLOAD * MU_HIGH, MAXCONN, seed=1)
        try:
            time.sleep(SETTLE_S)
            generator.mark("settled")
            time.sleep(CALIBRATE_S)
            measured = generator.mark("peak")["services"]["web"]
        finally:
            generator.stop()
        if not measured["requests_per_s"]:
            raise Failure("a web server of the testbed answered no request during its calibration")
        return float(measured["requests_per_s"])


@contextmanager
def running_farm(directory: Path, loadgen: Path) -> Iterator[Farm]:
    """The farm, ready; nothing of it is left afterwards. Raises MachineError where the machine lacks something."""
    if os.geteuid() != 0:
        raise MachineError("the testbed needs root to limit the CPU time of its web servers with cgroups: use sudo")
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < CORES_NEEDED:
        raise MachineError(f"this process may use {len(cpus)} CPU, the testbed needs {CORES_NEEDED}")
    find_haproxy()
    groups = ServerGroups(find_hierarchies(Path("/proc/mounts").read_text()))
    with only_trial():  # another one would end these servers, and its load would disturb
        groups.remove()
        try:
            with Children(directory / "logs") as children:
                yield _start(directory, loadgen, children, groups, cpus)
        finally:
            groups.remove()


def _start(directory: Path, loadgen: Path, children: Children, groups: ServerGroups, cpus: list[int]) -> Farm:
    work = max(1, round(CPU_SHARE / MU_HIGH / seconds_of_work()))
    ports = {CALM: free_port(), PRONE: free_port()}
    web: list[Child] = []
    for (name, port), cpu in zip(ports.items(), cpus, strict=False):
        group = groups.create(name, CPU_SHARE)
        command = [sys.executable, "-m", "osml.lab.testbed.web_worker", "--port", str(port), "--work", str(work)]
        child = children.start(name, enter.command(command, [group]))
        os.sched_setaffinity(child.pid, {cpu})
        web.append(child)
    write_share(directory / CONTROL, 0.0)
    command = [sys.executable, "-m", "osml.lab.testbed.burner", "--control", str(directory / CONTROL)]
    burner = children.start("burner", enter.command(command), env={"OPENBLAS_NUM_THREADS": "1"})
    os.sched_setaffinity(burner.pid, {cpus[1]})
    wait_until(lambda: all(accepts(port) for port in ports.values()), "the web servers", web)
    port = free_port()
    haproxy = start_haproxy(children, write_config(directory, port, ports, MAXCONN), port)
    with_precedence(haproxy.pid, cpus[0])
    time.sleep(1.0)  # the burner imports numpy first
    burner.check()
    with_precedence(burner.pid, cpus[1], required=True)
    return Farm(directory, children, loadgen, ports, port, burner, work, cpus[0])


def with_precedence(pid: int, cpu: int, *, required: bool = False) -> None:
    """A core, and real-time priority where that is allowed: proxy and controller shall not wait for what they serve.

    What they start has ordinary priority again. Raises MachineError where it is `required` and refused.
    """
    os.sched_setaffinity(pid, {cpu})
    try:
        os.sched_setscheduler(pid, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(CONTROL_PRIORITY))
    except PermissionError:
        if required:
            raise MachineError(
                "real-time priority is not permitted, but exact interference needs it: run the testbed outside a "
                "container, from the root of the cpu cgroup"
            ) from None
