"""One phase of the live trial: the agent under one policy, while services, load and server go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osml.base.failure import Failure
from osml.lab.trials.children import Child, Children
from osml.lab.trials.demo.phases import AgentCost, read_cost
from osml.lab.trials.live import enter
from osml.lab.trials.live.generator import Generator
from osml.lab.trials.live.settings import WINDOW_S
from osml.lab.trials.records import Record, RecordReader

SLACK_S = 20.0  # an agent that needs this much longer than the phase does not work
FOLLOW_S = 0.25

OnRecord = Callable[[Record], None]


@dataclass(frozen=True)
class GeneratorCost:
    """CPU of the load generator over the window, percent of one CPU, and how it took precedence (fifo, nice -20)."""

    cpu_pct: float
    scheduling: str


@dataclass(frozen=True)
class LivePhase:
    """Records in order; `window`: the generator's figures over the last WINDOW_S seconds; the agent's cost."""

    label: str
    policy: str
    records: list[Record]
    unanswered: int
    window: dict[str, dict[str, Any]]
    generator: GeneratorCost
    agent: AgentCost | None


@dataclass(frozen=True)
class Running:
    """What goes on through all phases."""

    children: Children
    watched: list[Child]
    generator: Generator

    def check(self) -> None:
        """Raise Failure when any of it has ended."""
        for child in self.watched:
            child.check()
        self.generator.check()


def run_phase(
    running: Running, agent: Path, config: Path, out: Path, label: str, policy: str, seconds: int, on_record: OnRecord
) -> LivePhase:
    """`seconds` intervals of one second under `policy`. Raises Failure when a process dies or the agent is silent."""
    record_file, stats = out / f"record-{label}.jsonl", out / f"agent-{label}.jsonl"
    command = [str(agent), "run", "--config", str(config), "--record", str(record_file), "--stats", str(stats)]
    if policy == "unmanaged":
        # Watch only: even "everything for everybody" would write quotas and weights, and those manage.
        command.append("--dry-run")
    # SIGTERM, not SIGKILL, when the trial is killed: the agent then gives back what it took.
    child = running.children.start(f"agent-{label}", enter.command(command, death_signal="SIGTERM"))
    reader = RecordReader(record_file)
    records: list[Record] = []
    before: dict[str, Any] | None = None
    deadline = time.monotonic() + seconds + SLACK_S
    while len(records) < seconds:
        for record in reader.follow(FOLLOW_S):
            records.append(record)
            on_record(record)
            if before is None and len(records) >= max(1, seconds - WINDOW_S):
                before = running.generator.mark(f"{label}-window")
            if len(records) == seconds:
                break
        child.check()
        running.check()
        if time.monotonic() > deadline:
            raise Failure(
                f"the agent recorded {len(records)} decisions and {reader.unanswered} unanswered observations in "
                f"{seconds + SLACK_S:g} s, expected {seconds} decisions; last output: {child.last_words()}"
            )
    after = running.generator.mark(label)
    running.children.stop(child)
    cost = generator_cost(before or after, after)
    return LivePhase(label, policy, records, reader.unanswered, after["services"], cost, read_cost(stats, 1.0))


def generator_cost(before: dict[str, Any], after: dict[str, Any]) -> GeneratorCost:
    """Between two marks of the generator."""
    seconds = after["t"] - before["t"]
    share = (after["cpu_s"] - before["cpu_s"]) / seconds if seconds > 0 else 0.0
    return GeneratorCost(round(100 * share, 2), after["scheduling"])
