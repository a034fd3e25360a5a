"""stress-ng's stream: workers that go through memory as fast as it allows."""

from __future__ import annotations

from osml.lab.trials.live.jobs.job import Job
from osml.lab.trials.live.jobs.stress import stress_command

JOB = Job(
    "stress-stream",
    "stress-ng",
    "stress-ng",
    lambda directory, threads: stress_command(directory, 0, threads),
    memory=True,
)
