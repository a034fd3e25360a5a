"""Who else uses this machine: CPU time of other programs and of the hypervisor, out of /proc/stat."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

STAT = Path("/proc/stat")
CHECK_S = 0.3


@dataclass(frozen=True)
class Usage:
    """CPU seconds since the boot over all CPUs: in use, and stolen by the hypervisor."""

    busy_s: float
    steal_s: float


def read_usage(text: str, ticks_per_s: int) -> Usage:
    """Out of the text of /proc/stat (proc(5)): user, nice, system, idle, iowait, irq, softirq, steal."""
    fields = [int(field) for field in text.splitlines()[0].split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields[:8]
    return Usage((user + nice + system + irq + softirq) / ticks_per_s, steal / ticks_per_s)


def usage() -> Usage:
    """Now."""
    return read_usage(STAT.read_text(), os.sysconf("SC_CLK_TCK"))


def wait_for_quiet(own_cpu_s: Callable[[], float], most: float, patience_s: float) -> tuple[float, float]:
    """Wait until others use less than `most` CPUs, at most `patience_s`: (seconds waited, CPUs that they use at last).

    `own_cpu_s` is the CPU time of what the lab runs itself.
    """
    start = time.monotonic()
    while True:
        before, own, began = usage(), own_cpu_s(), time.monotonic()
        time.sleep(CHECK_S)
        passed = time.monotonic() - began
        foreign = max((usage().busy_s - before.busy_s - (own_cpu_s() - own)) / passed, 0.0)
        waited = time.monotonic() - start
        if foreign <= most or waited > patience_s:
            return (waited - CHECK_S, foreign)
