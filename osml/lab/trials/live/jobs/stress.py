"""stress-ng: the job of the trial, a mix of computing and memory-streaming workers."""

from __future__ import annotations

from pathlib import Path

from osml.base.failure import Failure
from osml.lab.trials.live.jobs.job import Job


def stress_command(directory: Path, cpu_workers: int, memory_workers: int) -> list[str]:
    """Computing and memory-streaming workers that never sleep. Raises Failure where there are none."""
    if cpu_workers + memory_workers < 1:
        raise Failure("the best-effort job has no workers, expected at least one")
    command = ["stress-ng", "--temp-path", str(directory), "--timeout", "0", "--oom-avoid"]
    if cpu_workers:
        command += ["--cpu", str(cpu_workers), "--cpu-method", "matrixprod"]
    if memory_workers:
        command += ["--stream", str(memory_workers)]
    return command


JOB = Job("stress", "stress-ng", "stress-ng", lambda directory, threads: stress_command(directory, threads, 0))
