"""The live trial from start to end: services, load, two phases, summary, traces, plot; nothing is left running."""

from __future__ import annotations

import json
import os
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from osml.base.agent_binary import find_agent
from osml.domain.cpulist import format_cpulist
from osml.lab.trials.children import OSML, Child, Children, free_port, interrupt_on_signals, wait_until
from osml.lab.trials.demo.view import DemoView
from osml.lab.trials.folder import STORE, begin_folder
from osml.lab.trials.live import enter, machine, work_rate
from osml.lab.trials.live.agent_config import BE, agent_config
from osml.lab.trials.live.cgroups import LiveGroups, find_hierarchies
from osml.lab.trials.live.generator import Generator, find_generator
from osml.lab.trials.live.jobs.stress import stress_command
from osml.lab.trials.live.phases import LivePhase, Running, run_phase
from osml.lab.trials.live.report import summarise
from osml.lab.trials.live.services import LOOPBACK, service_named, try_fill
from osml.lab.trials.live.settings import MEMORY_WORKERS, N_CPUS, WORKERS_PER_CPU, LiveSettings
from osml.lab.trials.live.traces import write_traces
from osml.lab.trials.server import is_ready
from osml.lab.trials.timeline import Phase, draw

WARM_S = 1.0
OWN = (
    "logs", "telemetry", "summary.json", "traces.parquet", "timeline.png", "record-*managed.jsonl", "agent-*managed.*",
    f"{STORE}*",
)  # fmt: skip


def run_live(settings: LiveSettings) -> dict[str, Any]:
    """Run the trial and write its files below `settings.out`; returns the summary.

    Raises InputError for bad knobs, MachineError where the machine lacks something, Failure when a process dies.
    """
    settings.check()
    machine.require_root()
    machine.require_trial_programs()
    settings = replace(
        settings,
        agent=find_agent(settings.agent),
        loadgen=find_generator(settings.loadgen),
        out=settings.out.resolve(),
    )
    hierarchies = find_hierarchies(Path("/proc/mounts").read_text())
    with ExitStack() as stack:
        stack.enter_context(machine.only_trial())
        interrupt_on_signals()
        begin_folder(settings.out, OWN)
        cpus = sorted(os.sched_getaffinity(0))[:N_CPUS]
        groups = LiveGroups(hierarchies, format_cpulist(cpus))
        groups.remove()  # of a trial that was killed
        stack.callback(groups.remove)
        stack.enter_context(machine.work_directory())
        stack.enter_context(groups.in_control())
        trial = LiveTrial(settings, groups, cpus, stack)
        phases = trial.run()
    document = summarise(settings, hierarchies.label, phases, trial.baseline)
    (settings.out / "summary.json").write_text(json.dumps(document, indent=1) + "\n")
    write_traces(settings.out / "traces.parquet", phases, settings.out / "telemetry", document)
    _plot(settings, phases)
    return document


class LiveTrial:
    """The moving parts. Everything that is started is on `stack`, which undoes it in reverse order."""

    def __init__(self, settings: LiveSettings, groups: LiveGroups, cpus: list[int], stack: ExitStack) -> None:
        self._settings = settings
        self._cpus = cpus
        self._groups = groups
        self._stack = stack
        self._telemetry = settings.out / "telemetry"
        self._telemetry.mkdir()
        self._children = stack.enter_context(Children(settings.out / "logs"))
        self.baseline: dict[str, Any] = {}

    def run(self) -> list[LivePhase]:
        """Both phases, after what they are compared with was measured."""
        settings = self._settings
        port = settings.port or free_port()
        url = f"http://{LOOPBACK}:{port}"
        view = self._stack.enter_context(DemoView(settings.unmanaged_s + settings.managed_s, url))
        store = f"sqlite:///{settings.out / STORE}"  # what a trial taught stays beside it
        serve = [*OSML, "serve", "--port", str(port), "--seed", str(settings.seed), "--store", store]
        server = self._children.start("server", enter.command(serve, death_signal="SIGTERM"))
        ports = self._start_services()
        wait_until(lambda: is_ready(url), "the server", [server])
        generator = self._start_generator(ports)
        view.begin("baseline")
        self._measure_baseline(generator)
        watched = [server, *self._services, self._stress]
        running = Running(self._children, watched, generator)
        writer = work_rate.WorkRateWriter(lambda: self._groups.cpu_seconds(BE), self._telemetry / f"{BE}.jsonl")
        results: list[LivePhase] = []
        with writer:
            generator.set_rates({load.name: load.rate for load in settings.loads})
            time.sleep(2 * WARM_S)  # the first observation shall see a whole interval under load
            for label, policy, seconds in (
                ("unmanaged", "unmanaged", settings.unmanaged_s),
                ("managed", settings.policy, settings.managed_s),
            ):
                view.begin(policy)
                config = settings.out / f"agent-{label}.yaml"
                config.write_text(self._agent_config(policy, url))
                agent = settings.agent or Path("osml-agent")
                results.append(run_phase(running, agent, config, settings.out, label, policy, seconds, view.show))
        return results

    def _start_services(self) -> dict[str, int]:
        self._services: list[Child] = []
        # All groups at once: the weight of the whole must not change between baseline and phases.
        self._stress_groups = self._groups.create(BE, threads=self._workers() + MEMORY_WORKERS)
        ports: dict[str, int] = {}
        for load in self._settings.loads:
            kind = service_named(load.name)
            directory = machine.service_directory(load.name)
            ports[load.name] = port = free_port()
            command = kind.command(directory, port)
            groups = self._groups.create(load.name, threads=1)
            child = self._children.start(load.name, enter.command(command, groups, machine.USER))
            wait_until(lambda kind=kind, port=port: try_fill(kind, port), load.name, [child])
            self._services.append(child)
        return ports

    def _start_generator(self, ports: dict[str, int]) -> Generator:
        specs = [
            f"name={load.name},protocol={service_named(load.name).protocol},address={LOOPBACK}:{ports[load.name]},rate=0,"
            f"connections={load.connections},output={self._telemetry}/{load.name}.jsonl"
            for load in self._settings.loads
        ]
        binary = self._settings.loadgen or Path("osml-loadgen")
        log = self._settings.out / "logs/loadgen.log"
        generator = Generator(binary, specs, self._settings.seed, log, self._groups.outside)
        self._stack.callback(generator.stop)
        return generator

    def _workers(self) -> int:
        return self._settings.workers or WORKERS_PER_CPU * len(self._cpus)

    def _measure_baseline(self, generator: Generator) -> None:
        """Each side alone: the services' tail without the job, then the job's speed without load."""
        seconds = self._settings.baseline_s
        generator.set_rates({load.name: load.rate for load in self._settings.loads})
        time.sleep(WARM_S)
        generator.mark("warm")
        time.sleep(seconds)
        alone = generator.mark("alone")["services"]
        generator.set_rates(dict.fromkeys((load.name for load in self._settings.loads), 0.0))
        directory = machine.service_directory(BE)
        command = stress_command(directory, self._workers(), MEMORY_WORKERS)
        self._stress = self._children.start(BE, enter.command(command, self._stress_groups, machine.USER))
        time.sleep(WARM_S)
        self._stress.check()
        self.baseline = {
            "seconds": seconds,
            "cpus": format_cpulist(self._cpus),
            "ideal_ms": {name: figures["p99_ms"] for name, figures in alone.items()},
            "work_rate_solo": work_rate.rate_over(lambda: self._groups.cpu_seconds(BE), seconds),
            "work_rate_unit": work_rate.UNIT,
            "workers": self._workers() + MEMORY_WORKERS,
        }

    def _agent_config(self, policy: str, url: str) -> str:
        return agent_config(
            policy,
            url,
            machine.WORK / "agent",
            self._telemetry,
            self._settings.loads,
            self.baseline["ideal_ms"],
            self.baseline["work_rate_solo"],
            format_cpulist(self._cpus),
        )


def _plot(settings: LiveSettings, phases: list[LivePhase]) -> None:
    drawn: list[Phase] = []
    for phase in phases:
        drawn.append(Phase(phase.policy, phase.records, drawn[-1].end_s if drawn else 0.0))
    mix = ", ".join(f"{load.name} {load.rate:g}/s" for load in settings.loads)
    draw(drawn, settings.out / "timeline.png", f"measured on this machine: {mix} + stress-ng")
