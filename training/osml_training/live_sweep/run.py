"""A sweep from start to end: the agent as a child, the walk as its server, the journal, and the way back."""

from __future__ import annotations

import secrets
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from osml.base.failure import Failure
from osml.domain import Observation
from osml.lab.trials.children import Child, Children
from osml.lab.trials.live import enter
from osml_training.live_sweep.agent_file import for_sweep
from osml_training.live_sweep.decisions import Decisions
from osml_training.live_sweep.design import next_cell
from osml_training.live_sweep.journal import Condition, FinishedCell, Journal, Swept
from osml_training.live_sweep.walk import Design, Rails, Walk

RUNNING = ".sweep.running"
"""In the folder of a sweep until the node was restored."""

POLL_S = 0.1
_ANSWER_S = 60.0
_RESTORE_S = 60.0


@dataclass
class Setup:
    """What a sweep needs to know. `document` is the agent's configuration, `generate` sets the rate of a generator."""

    agent: Path
    document: dict[str, Any]
    service: str
    protected: frozenset[str]
    rails: Rails = field(default_factory=Rails)
    conditions: list[Condition] = field(default_factory=lambda: [Condition()])
    limit_s: float | None = None
    design: Design = next_cell
    generate: Callable[[float], None] = lambda _: None


@contextmanager
def _decided(setup: Setup, walk: Walk, logs: Path, *arguments: str) -> Generator[tuple[Decisions, Child]]:
    """An agent that asks the walk. It ends with the block, or with this process, and restores the node then."""
    with tempfile.TemporaryDirectory(prefix="osml-sweep-") as scratch, Children(logs) as children:
        token = secrets.token_urlsafe(24)
        token_file, config = Path(scratch) / "token", Path(scratch) / "agent.yaml"
        for file, text in ((token_file, token), (config, "")):
            file.touch(mode=0o600)
            file.write_text(text)
        with Decisions(walk, token) as decisions:
            config.write_text(for_sweep(setup.document, decisions.url, token_file))
            command = [str(setup.agent), "run", "--config", str(config), *arguments]
            child = children.start("agent", enter.command(command, death_signal="SIGTERM"))
            try:
                yield decisions, child
            finally:
                children.stop(child)
                if "--dry-run" not in arguments and child.exit_code not in (0, -15):
                    _restore(setup.agent, config)


def _restore(agent: Path, config: Path) -> None:
    """What the agent's journal still has. Failure where the node is not as it was."""
    done = subprocess.run(
        [str(agent), "restore", "--config", str(config)], capture_output=True, timeout=_RESTORE_S, check=False
    )
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise Failure(f"the node could not be restored: {said or 'osml-agent restore failed'}; run it again")


def restore_before(setup: Setup) -> None:
    """Give back what a sweep that was killed together with its agent has left. Nothing to do is no error."""
    with tempfile.TemporaryDirectory(prefix="osml-sweep-") as scratch:
        token, config = Path(scratch) / "token", Path(scratch) / "agent.yaml"
        token.touch(mode=0o600)
        token.write_text("none")
        config.touch(mode=0o600)
        config.write_text(for_sweep(setup.document, "http://127.0.0.1:9", token))
        _restore(setup.agent, config)


def look(setup: Setup, logs: Path) -> list[Observation]:
    """A few intervals of the node as it is; nothing is changed. Failure where the agent can't observe it."""
    seen: list[Observation] = []
    walk = Walk(setup.service, setup.protected, setup.rails, [Condition()], [], lambda _: None, design=setup.design)
    deadline = time.monotonic() + _ANSWER_S
    with _decided(setup, walk, logs, "--dry-run") as (decisions, child):
        while len(seen) < 3:
            if decisions.seen and (not seen or decisions.seen[0].seq != seen[-1].seq):
                seen.append(decisions.seen[0])
            child.check()
            if time.monotonic() > deadline:
                raise Failure(f"the agent observed nothing in {_ANSWER_S:g} s: {child.last_words()}")
            time.sleep(POLL_S / 4)
    return seen


def swept(observation: Observation, service: str) -> Swept:
    """What the sweep of a service on this node is about."""
    own = next((one for one in observation.services if one.name == service), None)
    if own is None:
        raise Failure(f"service '{service}' is not there, expected it to run while it is swept")
    platform = observation.platform
    others = sorted(one.name for one in observation.services if one.name != service)
    return Swept(
        service, platform.id, platform.cores, platform.core_quantum, platform.ways, own.target_ms or 0.0,
        own.percentile, others,
    )  # fmt: skip


def sweep(
    setup: Setup, folder: Path, about: Swept, on_cell: Callable[[FinishedCell, Walk], None]
) -> tuple[Walk, list[FinishedCell]]:
    """Sweep until the labels need no more, or the time is over; the node is as before when this returns.

    Cells of an earlier run in `folder` count. Raises Failure where the agent or the node can't go on, InputError where
    the folder is of another sweep; finished cells are kept in any case.
    """
    marker = folder / RUNNING
    if marker.exists():
        restore_before(setup)
    journal = Journal(folder, about)
    marker.touch()
    try:

        def keep(cell: FinishedCell) -> None:
            journal.add(cell)
            on_cell(cell, walk)

        walk = Walk(
            setup.service, setup.protected, setup.rails, setup.conditions, journal.cells, keep, setup.generate,
            design=setup.design,
        )  # fmt: skip
        deadline = None if setup.limit_s is None else time.monotonic() + setup.limit_s
        logs = folder.parent / f"{folder.name}.logs"
        with _decided(setup, walk, logs) as (decisions, child):
            asked, silent_from = None, time.monotonic()
            while walk.ended is None:
                now = decisions.seen[0].seq if decisions.seen else None
                if now != asked:
                    asked, silent_from = now, time.monotonic()
                if time.monotonic() - silent_from > _ANSWER_S:
                    raise Failure(
                        f"the agent asked for no decision in {_ANSWER_S:g} s, so no service is there: "
                        f"{child.last_words()}"
                    )
                if deadline is not None and time.monotonic() > deadline:
                    walk.ended = f"the time limit of {setup.limit_s:g} s is over"
                    break
                if decisions.error is not None:
                    raise decisions.error
                child.check()
                time.sleep(POLL_S)
        marker.unlink()
        return walk, journal.cells
    finally:
        journal.close()
