"""Runs the steps that are not done yet, and keeps what was done."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from osml.base.failure import Failure, InputError
from osml.base.json_file import MissingFileError, read_json
from osml_training.reproduce.recipe import Recipe, Scale, Step, commands


class Done(msgspec.Struct, frozen=True):
    """A step that was run: its commands, when it ended (UTC), how long it took, on how many CPUs, and what it read.

    `read` are the ends of the steps that it needs: where one of those was run again, it is out of date.
    """

    commands: list[list[str]]
    ended: str
    seconds: float
    cpus: int
    read: dict[str, str]


class Progress(msgspec.Struct, frozen=True):
    """What is done, by step; it is written after each step."""

    steps: dict[str, Done] = {}


def read_progress(path: Path) -> Progress:
    """The progress of a former run; nothing where there was none. InputError for a file that is none."""
    try:
        return read_json(path, Progress)
    except MissingFileError:
        return Progress()
    except InputError as error:
        raise InputError(f"{error}: it is no progress of a former run, remove it to begin anew") from None


def due(recipe: Recipe, progress: Progress, scale: Scale, only: Sequence[str] = ()) -> list[Step]:
    """Steps to run: never done, done with other commands, or older than what they read."""
    known = {step.name for step in recipe.steps}
    unknown = [name for name in only if name not in known]
    if unknown:
        raise InputError(f"step '{unknown[0]}' is unknown, known are {', '.join(step.name for step in recipe.steps)}")
    found: list[Step] = []
    for step in recipe.steps:
        done = progress.steps.get(step.name)
        again = {one.name for one in found}
        fresh = (
            done is not None
            and done.commands == commands(recipe, step, scale)
            and not again.intersection(step.needs)
            and done.read == _ends(step, progress)
        )
        if not fresh and (not only or step.name in only):
            found.append(step)
    return found


def run(
    recipe: Recipe, steps: Sequence[Step], path: Path, scale: Scale, say: Callable[[str], None], workers: int = 0
) -> None:
    """Run the steps one after the other; Failure where a command fails: what is done stays done."""
    for number, step in enumerate(steps, start=1):
        say(f"{number}/{len(steps)} {step.name}: {step.does}")
        began = time.monotonic()
        lines = commands(recipe, step, scale)
        for line in lines:
            _call(step, line, workers)
        progress = read_progress(path)
        seconds = time.monotonic() - began
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        done = Done(lines, ended, round(seconds, 1), os.cpu_count() or 1, _ends(step, progress))
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(".part")
        half.write_bytes(msgspec.json.format(msgspec.json.encode(Progress({**progress.steps, step.name: done}))))
        half.replace(path)
        say(f"{number}/{len(steps)} {step.name}: done in {seconds / 60.0:.1f} minutes")


def _ends(step: Step, progress: Progress) -> dict[str, str]:
    return {name: progress.steps[name].ended for name in step.needs if name in progress.steps}


def _call(step: Step, line: Sequence[str], workers: int) -> None:
    """One command in a process of its own, with its output on ours."""
    parallel = line[:3] == ["learn", "data", "collect"]
    extra = ["--workers", str(workers)] if workers and parallel else []
    command = [sys.executable, "-m", step.module, *line, *extra]
    code = subprocess.run(command, check=False).returncode
    if code != 0:
        raise Failure(f"step '{step.name}' failed with exit code {code}: {' '.join(command[1:])}")
