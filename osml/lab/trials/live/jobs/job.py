"""What the lab has to know of a job: one file in this folder describes one job, its `JOB`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from osml.lab.trials.live.services.service import USER


@dataclass(frozen=True)
class Job:
    """A best-effort program that never ends by itself.

    `command(directory, threads)` writes what the job needs into its own directory and returns the command line.
    `user` None means: as whoever runs the lab, since others may not read its Python.
    `extra` is the package of the checkout, and its extra, that brings `modules`.
    `memory` is true where the job streams through memory, so that its neighbours may lose cache and bandwidth.
    """

    name: str
    program: str
    package: str
    command: Callable[[Path, int], list[str]]
    memory: bool = False
    modules: tuple[str, ...] = ()
    user: str | None = USER
    extra: tuple[str, str] = ("osml", "real-services")
