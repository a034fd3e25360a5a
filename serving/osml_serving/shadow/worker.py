"""The process of the shadow policies: `python -m osml_serving.shadow.worker SEED MODELS TWINS` (an empty text: none).

It reads tasks and writes a line for each shadow policy. Every policy keeps a state of its own for each node. It sees
the allocation that is in force, with the latencies measured under it. It is told that its own decision was not applied.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from osml.base.failure import Failure
from osml.decide.outlook import Outlook, load_outlook
from osml.domain import Decision, Observation, Outcome
from osml.predictors import models_folder
from osml_serving.decider import Decider, installed_decider
from osml_serving.models.shelf import ModelShelf
from osml_serving.shadow.messages import Shadowed, Task

NICENESS = 15  # after everything else
MAX_STATES = 20_000
MAX_REASONS = 3
POLL_S = 3.0


class _Before(NamedTuple):
    seq: int
    state: str | None


class Shadow:
    """The shadow policies of all nodes, each with its last state; those silent for longest are forgotten."""

    def __init__(self, decider: Decider, outlook: Outlook | None) -> None:
        self._decider = decider
        self._outlook = outlook
        self._before: OrderedDict[tuple[str, str], _Before] = OrderedDict()

    def beside(self, policy: str, observation: Observation, decided: Decision) -> Shadowed:
        """What a policy would have decided in place of `decided`."""
        key = observation.node, policy
        before = self._before.pop(key, None)
        if before is not None and before.seq >= observation.seq:
            before = None  # the agent has started anew
        seen = msgspec.structs.replace(
            observation,
            policy=policy,
            policy_state=None if before is None else before.state,
            outcome=None if before is None or observation.partition is None else Outcome(before.seq, "dry_run"),
        )
        try:
            decision = self._decider(seen)
            found = self._compared(policy, observation, decided, decision)
        except Exception as error:  # of a policy, a twin or an observation from outside: the other nodes go on
            return Shadowed(observation.node, policy, observation.seq, failed=str(error)[:300] or repr(error))
        self._before[key] = _Before(observation.seq, decision.policy_state)
        if len(self._before) > MAX_STATES:
            self._before.popitem(last=False)
        return found

    def _compared(self, policy: str, seen: Observation, decided: Decision, shadow: Decision) -> Shadowed:
        cores = {
            one.name: shadow.partition.cores_of(one.name) - decided.partition.cores_of(one.name)
            for one in seen.services
        }
        ways = [shadow.partition.ways_of(one.name) - decided.partition.ways_of(one.name) for one in seen.services]
        predicted = None
        if self._outlook is not None:
            predicted = self._outlook.e_s(seen, (decided.assignments, shadow.assignments))
        return Shadowed(
            seen.node,
            policy,
            seen.seq,
            cores=sum(map(abs, cores.values())) / 2,
            ways=sum(map(abs, ways)) / 2,
            lc_cores=sum(cores[one.name] for one in seen.services if one.kind == "lc"),
            infeasible=shadow.infeasible is not None,
            reasons=[reason.text for reason in shadow.reasons if reason.change][:MAX_REASONS],
            e_s_decided=None if predicted is None else predicted[0],
            e_s=None if predicted is None else predicted[1],
        )


def serve(shadow: Shadow, tasks: BinaryIO, out: BinaryIO, refresh: Callable[[], None] = lambda: None) -> None:
    """Work through tasks until the input ends; `refresh` is called before each."""
    for line in tasks:
        refresh()
        task = msgspec.json.decode(line, type=Task)
        observation = msgspec.json.decode(tasks.read(task.observation_bytes), type=Observation)
        decided = msgspec.json.decode(tasks.read(task.decision_bytes), type=Decision)
        for policy in task.policies:
            out.write(msgspec.json.encode(shadow.beside(policy, observation, decided)) + b"\n")
        out.flush()


class Fresh:
    """Reads models again when their folder changes, as the server does; looks at most every POLL_S."""

    def __init__(self, shelf: ModelShelf) -> None:
        self._shelf = shelf
        self._looked_s = time.monotonic()

    def __call__(self) -> None:
        """Look, where it is time."""
        if time.monotonic() - self._looked_s >= POLL_S:
            self._looked_s = time.monotonic()
            if self._shelf.changed():
                self._shelf.reload()


def make_shadow(seed: int, shelf: ModelShelf, twins: Path | None) -> Shadow:
    """Policies with the models of a shelf; the twins of a folder predict, where one is given."""
    shelf.reload()
    decider = installed_decider("unmanaged", seed, shelf)
    return Shadow(decider, None if twins is None else load_outlook("twin", twins))


def main() -> None:
    """Keep standard output for answers: what a policy prints goes to the log."""
    seed, models, twins = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    with contextlib.suppress(OSError):  # a sandbox may forbid it
        os.nice(NICENESS)
    for number in (signal.SIGINT, signal.SIGTERM):  # it ends with its input
        signal.signal(number, signal.SIG_IGN)
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        shelf = ModelShelf(Path(models) if models else models_folder())
        try:
            shadow = make_shadow(seed, shelf, Path(twins) if twins else None)
        except Failure as failure:
            sys.exit(f"the shadow policies cannot start: {failure}")
        serve(shadow, sys.stdin.buffer, out, Fresh(shelf))


if __name__ == "__main__":
    main()
