"""Real services to sweep on a machine that has none: redis, nginx and memcached of the live trial, beside stress-ng."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from osml.base.failure import InputError
from osml.domain.cpulist import format_cpulist
from osml.lab.trials.children import Children, free_port, wait_until
from osml.lab.trials.live import enter, machine
from osml.lab.trials.live.agent_config import BE, agent_config
from osml.lab.trials.live.cgroups import LiveGroups, find_hierarchies
from osml.lab.trials.live.generator import Generator as LoadGenerator
from osml.lab.trials.live.generator import find_generator
from osml.lab.trials.live.jobs.stress import stress_command
from osml.lab.trials.live.services import LOOPBACK, USER, service_named, try_fill
from osml.lab.trials.live.settings import LOADS, N_CPUS, LcLoad
from osml.lab.trials.live.work_rate import WorkRateWriter, rate_over

_WORKERS, _WARM_S = 4, 1.0


def loads_of(service: str) -> tuple[LcLoad, ...]:
    """The service, then the one that is protected beside it. InputError for a service that the trial does not know."""
    known = {load.name: load for load in LOADS}
    if service not in known:
        raise InputError(f"--trial is '{service}', expected one of {', '.join(known)}")
    beside = next(load for load in LOADS if load.name != service)
    return known[service], beside


@contextmanager
def running(service: str, out: Path, seed: int) -> Generator[tuple[dict[str, Any], Callable[[float], None]]]:
    """The agent's configuration of a trial under way, and what sets the load of the service in requests per second.

    Needs root. Raises MachineError where programs are missing or another trial runs. Everything ends with the block.
    """
    machine.require_root()
    machine.require_trial_programs()
    loads = loads_of(service)
    binary = find_generator(None)
    with ExitStack() as stack:
        stack.enter_context(machine.only_trial())
        cpus = format_cpulist(sorted(os.sched_getaffinity(0))[:N_CPUS])
        groups = LiveGroups(find_hierarchies(Path("/proc/mounts").read_text()), cpus)
        groups.remove()  # of a trial that was killed
        stack.callback(groups.remove)
        stack.enter_context(machine.work_directory())
        stack.enter_context(groups.in_control())
        children = stack.enter_context(Children(out / "logs"))
        telemetry = out / "telemetry"
        telemetry.mkdir(parents=True, exist_ok=True)
        specs = [_start(children, groups, load, telemetry) for load in loads]
        generator = LoadGenerator(binary, specs, seed, out / "logs/loadgen.log", groups.outside)
        stack.callback(generator.stop)
        generator.set_rates({load.name: load.rate for load in loads})
        command = stress_command(machine.service_directory(BE), _WORKERS, 0)
        children.start(BE, enter.command(command, groups.create(BE, threads=_WORKERS), USER))
        time.sleep(_WARM_S)

        def used() -> float:
            return groups.cpu_seconds(BE)

        solo = rate_over(used, _WARM_S)  # not alone: a sweep compares no jobs
        stack.enter_context(WorkRateWriter(used, telemetry / f"{BE}.jsonl"))
        text = agent_config("sweep", "http://127.0.0.1:9", machine.WORK / "agent", telemetry, loads, {}, solo, cpus)
        document: dict[str, Any] = yaml.safe_load(text)
        document["cpu"]["quantum"] = 0.1
        for entry in document["services"]:
            if entry["name"] == service:
                entry.pop("limits")  # what it needs at least is the question
        yield document, lambda rate: generator.set_rates({service: rate})


def _start(children: Children, groups: LiveGroups, load: LcLoad, telemetry: Path) -> str:
    """Start a service and fill it; the generator's specification of its load."""
    kind, port = service_named(load.name), free_port()
    command = kind.command(machine.service_directory(load.name), port)
    child = children.start(load.name, enter.command(command, groups.create(load.name, threads=1), USER))
    wait_until(lambda: try_fill(kind, port), load.name, [child])
    return (
        f"name={load.name},protocol={kind.protocol},address={LOOPBACK}:{port},rate=0,"
        f"connections={load.connections},output={telemetry}/{load.name}.jsonl"
    )
