"""The best-effort jobs: each module of this folder that has a `JOB` is one."""

from __future__ import annotations

from functools import cache

from osml.lab.trials.live.jobs.job import Job
from osml.lab.trials.live.one_a_file import described_in, the_one

__all__ = ["Job", "job_named", "jobs"]


@cache
def jobs() -> dict[str, Job]:
    """All jobs by name, in the order of their names."""
    return described_in(__name__, "JOB", Job)


def job_named(name: str) -> Job:
    """The job. Raises InputError that lists the known ones."""
    return the_one("job", name, jobs())
