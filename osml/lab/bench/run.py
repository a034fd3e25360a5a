"""One run of a suite: what is to be done, what is done already, progress, and the end of it."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from osml.base.failure import Failure, InputError
from osml.decide.registry import load_policy
from osml.lab.bench.contenders import OWN_LEVERS, contender_names
from osml.lab.bench.oracle_policy import ORACLES
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.store import Store, changed_since, policy_fingerprint
from osml.lab.bench.suite import Suite
from osml.lab.bench.unit import missing_cases
from osml.lab.bench.workers import Task, Workers
from osml.simulator.node_platform import Lever

MAX_SEEDS = 1000


@dataclass(frozen=True)
class Settings:
    """What a user asks for. `part`: only the mixes of this part; `limit`: only so many, spread over all of them;
    `levers`: in the place of the suite's own (None: these).
    """

    suite: Suite
    policies: Sequence[str]
    seeds: int
    out: Path
    resume: bool = False
    limit: int | None = None
    part: str | None = None
    levers: frozenset[Lever] | None = None


def checked_policies(names: Sequence[str]) -> list[str]:
    """The policies, each once; InputError for one that does not exist or can't be loaded."""
    known = contender_names()
    for name in names:
        if name not in known:
            raise InputError(f"--policies: '{name}' is unknown; known are {', '.join(sorted(known))}")
        if name in ORACLES:
            continue
        try:
            load_policy(name)
        except Exception as error:  # a plug-in can fail in any way
            raise InputError(f"--policies: '{name}' can't be loaded ({type(error).__name__}: {error})") from None
    if not names:
        raise InputError(f"--policies is empty; known are {', '.join(sorted(known))}")
    return list(dict.fromkeys(names))


def _check_oracles(policies: Sequence[str], scenarios: Sequence[tuple[int, Scenario]]) -> None:
    """InputError where an oracle would be asked for a node that it can't describe."""
    asked = [name for name in policies if name in ORACLES]
    divided = next((scenario for _, scenario in scenarios if asked and scenario.domains > 1), None)
    if divided is not None:
        raise InputError(
            f"--policies: '{asked[0]}' searches nodes of one cache domain, the node of {divided.key} has "
            f"{divided.domains}; leave it out"
        )


def of_part(scenarios: Sequence[Scenario], part: str | None) -> list[Scenario]:
    """The scenarios of a part, or all; InputError lists the parts that exist."""
    if part is None:
        return list(scenarios)
    known = list(dict.fromkeys(scenario.part for scenario in scenarios))
    if part not in known:
        raise InputError(f"--part is '{part}', expected one of {', '.join(known)}")
    return [scenario for scenario in scenarios if scenario.part == part]


def spread(scenarios: Sequence[Scenario], limit: int | None) -> list[tuple[int, Scenario]]:
    """All scenarios with their numbers, or `limit` of them at even distances."""
    if limit is None or limit >= len(scenarios):
        return list(enumerate(scenarios))
    if limit < 1:
        raise InputError(f"--limit is {limit}, expected at least 1")
    return [(i * len(scenarios) // limit, scenarios[i * len(scenarios) // limit]) for i in range(limit)]


def with_levers(scenarios: Sequence[Scenario], levers: frozenset[Lever] | None) -> list[Scenario]:
    """The scenarios with other levers (None: with their own)."""
    return [scenario if levers is None else replace(scenario, levers=levers) for scenario in scenarios]


def run(settings: Settings, workers: Workers, console: Console) -> dict[str, Any]:
    """Run what is still missing; returns the metadata. Failure where a unit failed or the user interrupted."""
    if not 1 <= settings.seeds <= MAX_SEEDS:
        raise InputError(f"--seeds is {settings.seeds}, expected 1 to {MAX_SEEDS}")
    policies = checked_policies(settings.policies)
    chosen = with_levers(of_part(settings.suite.scenarios(), settings.part), settings.levers)
    scenarios = spread(chosen, settings.limit)
    _check_oracles(policies, scenarios)
    store = Store(settings.out)
    said: dict[str, Any] = {
        "suite": settings.suite.name, "policies": policies, "seeds": settings.seeds, "limit": settings.limit,
        "part": settings.part,
        "levers": sorted({lever for _, scenario in scenarios for lever in scenario.levers}),
        "own_levers": {name: sorted(OWN_LEVERS[name]) for name in policies if name in OWN_LEVERS},
        "policy_code": {name: policy_fingerprint(load_policy(name)) for name in policies if name not in ORACLES},
        "mixes": len(scenarios), "commit": _commit(), "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cpus": os.cpu_count(), "processor": platform.machine(), "python": platform.python_version()},
    }  # fmt: skip
    with store.begun(said, resume=settings.resume):
        _work(settings, workers, console, scenarios, store, said)
    return store.metadata()


def _work(
    settings: Settings,
    workers: Workers,
    console: Console,
    scenarios: Sequence[tuple[int, Scenario]],
    store: Store,
    said: dict[str, Any],
) -> None:
    """Run what is missing in a store that has begun; `said` is its metadata, which is written again at the end."""
    policies: list[str] = said["policies"]
    tasks = _tasks(settings, scenarios, policies, store)
    began, failures, interrupted = time.perf_counter(), dict[int, str](), False
    runs = sum(len(policies) * _seeds(settings, scenario) for _, scenario in scenarios)
    finished = runs - sum(len(task.cases) for task in tasks)
    names = {index: scenario.key for index, scenario in scenarios}
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task(f"{settings.suite.name}: runs", total=runs, completed=finished)
        try:
            for done in workers(tasks):
                if done.rows:
                    store.add(done)
                finished += len(done.rows)
                if done.failure is not None:
                    failures[done.index] = done.failure
                    progress.console.print(f"{names[done.index]} failed: {done.failure}", highlight=False, markup=False)
                progress.update(bar, completed=finished)
        except KeyboardInterrupt:
            interrupted = True
    wall_s = said.get("wall_s", 0.0) + time.perf_counter() - began
    said |= {"wall_s": wall_s, "finished": finished, "failures": _failed(failures, scenarios, store, said)}
    store.describe(said)
    store.finish(said)
    changed = changed_since(said)
    if changed:
        console.print(
            f"{' and '.join(changed)} changed while the run went on, so rows may be of both; run again in a new folder",
            highlight=False,
        )
    if interrupted:
        raise Failure(f"interrupted: {finished} of {runs} runs are done and stored; continue with --resume")
    if failures:
        first, why = next(iter(failures.items()))
        raise Failure(
            f"{len(failures)} of {len(scenarios)} mixes failed, first {names[first]} ({why}); others are stored"
        )


def _failed(
    failures: Mapping[int, str], scenarios: Sequence[tuple[int, Scenario]], store: Store, said: dict[str, Any]
) -> dict[str, str]:
    """Why mixes have no rows of a policy: those of this call, and of earlier ones that are still without."""
    found: dict[str, str] = dict(said["failures"])
    for index, scenario in scenarios:
        seeds = min(said["seeds"], scenario.seeds or said["seeds"])
        lacking = {policy for policy, _ in missing_cases(said["policies"], seeds, store.cases(index))}
        for policy in said["policies"]:
            name = f"{scenario.key} under {policy}"
            if policy not in lacking:
                found.pop(name, None)
            elif index in failures:
                found[name] = failures[index]
    return found


_FEW = 32
"""Mixes up to which each policy is a task of its own: progress is seen, and an interrupt loses little."""


def _seeds(settings: Settings, scenario: Scenario) -> int:
    return min(settings.seeds, scenario.seeds or settings.seeds)


def _tasks(
    settings: Settings, scenarios: Sequence[tuple[int, Scenario]], policies: Sequence[str], store: Store
) -> list[Task]:
    """What is still to be run. Of many mixes each is one task, so that the oracle is asked once."""
    tasks: list[Task] = []
    for index, scenario in scenarios:
        cases = missing_cases(policies, _seeds(settings, scenario), store.cases(index))
        own = [[case for case in cases if case[0] == policy] for policy in policies]
        parts = own if len(scenarios) <= _FEW else [cases]
        tasks += [Task(index, scenario, part, settings.suite.ask_oracle) for part in parts if part]
    return tasks


def _commit() -> str | None:
    """The commit of the checkout that this package runs from, with + where files were changed; None outside of one."""
    here = Path(__file__).parent
    try:
        head = subprocess.run(
            ["git", "-C", here, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10, check=True
        )
        state = subprocess.run(
            ["git", "-C", here, "status", "--porcelain", "--untracked-files=no"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return head.stdout.strip() + ("+" if state.stdout.strip() else "")
