"""One phase of the demo: a fresh virtual node and a fresh agent under one policy, the server shared."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from osml.base.failure import Failure
from osml.lab.trials.children import OSML, Child, Children, wait_until
from osml.lab.trials.demo.settings import DemoSettings
from osml.lab.trials.records import Record, RecordReader

INTERVAL_S = 1.0
GRACE_S = 20.0
PATIENCE = 3.0  # a phase may take this many times its nominal wall time on a busy machine

OnRecord = Callable[[Record], None]

_FIRST_START_S = 180.0
"""A virtual node that was never started from these sources compiles its equations first."""


class AgentCost(msgspec.Struct, frozen=True):
    """What the agent used of the machine: percent of one core, MiB."""

    cpu_pct: float
    rss_mib: float


class PhaseResult(msgspec.Struct, frozen=True):
    """Records of a phase, in order, and the agent's cost."""

    policy: str
    records: list[Record]
    agent: AgentCost | None


class StatsLine(msgspec.Struct):
    """One line of the agent's --stats file; further keys are ignored."""

    cpu_pct: float
    rss_mib: float


def read_cost(stats: Path, time_scale: float) -> AgentCost | None:
    """Median CPU share and largest RSS over the phase, brought to one tick a second (the ticks are compressed)."""
    lines = stats.read_text().splitlines() if stats.exists() else []
    parsed = [msgspec.json.decode(line, type=StatsLine) for line in lines[1:]]  # the first tick includes the start
    if not parsed:
        return None
    middle = sorted(line.cpu_pct for line in parsed)[len(parsed) // 2]
    return AgentCost(cpu_pct=round(middle / time_scale, 3), rss_mib=round(max(line.rss_mib for line in parsed), 2))


def _mount_command(settings: DemoSettings, directory: Path, server_url: str, policy: str) -> list[str]:
    command = [*OSML, "virtual", "mount", str(directory), "--platform", settings.platform]
    for name, load in settings.lc.items():
        command += ["--lc", f"{name}={load}"]
    for name in settings.be:
        command += ["--be", name]
    command += ["--speed", str(settings.speed), "--seed", str(settings.seed), "--interval", str(INTERVAL_S)]
    return [*command, "--fuse", settings.fuse, "--server-url", server_url, "--policy", policy]


@contextmanager
def _started(children: Children, name: str, command: list[str]) -> Generator[Child]:
    child = children.start(name, command)
    try:
        yield child
    finally:
        children.stop(child)


def run_phase(
    settings: DemoSettings, children: Children, server: Child, server_url: str, policy: str, on_record: OnRecord
) -> PhaseResult:
    """Run one phase to its end; the load step comes in its middle. Raises Failure when a process dies."""
    managed = policy != "unmanaged"
    label = "managed" if managed else "unmanaged"
    seconds = settings.managed_s if managed else settings.unmanaged_s
    directory = settings.out / f"node-{label}"
    stats = settings.out / f"agent-{label}.jsonl"
    record_file = settings.out / f"record-{label}.jsonl"
    ready = directory / "node.json"
    with _started(children, f"node-{label}", _mount_command(settings, directory, server_url, policy)) as node:
        wait_until(
            lambda: ready.exists() and json.loads(ready.read_text())["ready"],
            "the virtual node",
            [node, server],
            timeout_s=_FIRST_START_S,
        )
        agent_command = [str(settings.agent), "run", "--config", str(directory / "agent.yaml")]
        agent_command += ["--stats", str(stats), "--record", str(record_file)]
        with _started(children, f"agent-{label}", agent_command) as agent:
            reader = RecordReader(record_file)
            records = _follow(settings, seconds, reader, [node, agent, server], directory / "loads.json", on_record)
    return PhaseResult(policy, records, read_cost(stats, settings.speed))


def _follow(
    settings: DemoSettings, seconds: int, reader: RecordReader, watched: list[Child], loads: Path, on_record: OnRecord
) -> list[Record]:
    """Records until `seconds` of node time have passed; on a busy machine the agent skips intervals, time goes on."""
    records: list[Record] = []
    stepped = False
    deadline = time.monotonic() + PATIENCE * seconds / settings.speed + GRACE_S
    while elapsed_s(records) < seconds:
        for record in reader.follow(0.25):
            records.append(record)
            on_record(record)
            if not stepped and elapsed_s(records) >= seconds / 2:
                stepped = True
                change_loads(loads, settings.lc | settings.step)
            if elapsed_s(records) >= seconds:
                return records
        for child in watched:
            child.check()
        if time.monotonic() > deadline:
            said = "; ".join(f"{child.name}: {child.last_words(1)}" for child in watched)
            raise Failure(
                f"the phase is at {elapsed_s(records):.0f} of {seconds} node seconds after {PATIENCE:g} times its "
                f"wall-clock time: the machine is too busy for --speed {settings.speed:g} (last output: {said})"
            )
    return records


def elapsed_s(records: Sequence[Record]) -> float:
    """Node time that the records cover, s."""
    return records[-1].observation.time_s - records[0].observation.time_s + INTERVAL_S if records else 0.0


def change_loads(path: Path, loads: dict[str, float]) -> None:
    """Give the virtual node new loads, in one step."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(loads))
    fresh.replace(path)
