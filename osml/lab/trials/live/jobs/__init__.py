"""The best-effort jobs: each module of this folder that has a `JOB` is one."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from osml.base.failure import InputError
from osml.lab.trials.live.jobs.job import Job

__all__ = ["Job", "job_named", "jobs"]


@cache
def jobs() -> dict[str, Job]:
    """All jobs by name, in the order of their names."""
    modules = [import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    known = [module.JOB for module in modules if isinstance(getattr(module, "JOB", None), Job)]
    return {job.name: job for job in sorted(known, key=lambda job: job.name)}


def job_named(name: str) -> Job:
    """The job. Raises InputError that lists the known ones."""
    known = jobs()
    if name not in known:
        raise InputError(f"job '{name}' is unknown, expected one of {', '.join(known)}")
    return known[name]
