"""The name of this machine's CPU."""

from __future__ import annotations

from pathlib import Path


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """As the kernel says it (proc(5)); "unknown" where it says none."""
    lines = cpuinfo.read_text("utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
