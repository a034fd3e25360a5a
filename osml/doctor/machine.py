"""What can be measured on this machine: counters and clock of the CPU; and whether FUSE is there."""

from __future__ import annotations

from pathlib import Path

from osml.doctor.finding import Finding

PARANOID_WITHOUT_ROOT = 0
"""Above it, counters of other users' processes need CAP_PERFMON (kernel, sysctl/kernel.rst)."""


def machine_findings(proc: Path = Path("/proc"), sysfs: Path = Path("/sys")) -> list[Finding]:
    """Sensors that the agent reads beside cgroups and resctrl."""
    return [_pmu(proc, sysfs), _frequency(sysfs), _fuse()]


def _pmu(proc: Path, sysfs: Path) -> Finding:
    devices = sysfs / "bus/event_source/devices"
    found = sorted(d.name for d in devices.glob("*") if d.name == "cpu" or d.name.startswith(("cpu_", "armv8_pmuv3")))
    if not found:
        return Finding(
            "pmu",
            "sense",
            False,
            "the CPU shows no performance counters (usual in virtual machines)",
            "run without virtualisation, or let the hypervisor pass the PMU through; otherwise IPC, cycles and LLC "
            "misses are missing, and the models work without them",
        )
    paranoid = _number(proc / "sys/kernel/perf_event_paranoid")
    if paranoid is not None and paranoid > PARANOID_WITHOUT_ROOT:
        return Finding("pmu", "sense", True, f"{', '.join(found)}; for root or CAP_PERFMON (paranoid is {paranoid})")
    return Finding("pmu", "sense", True, ", ".join(found))


def _frequency(sysfs: Path) -> Finding:
    if (sysfs / "devices/system/cpu/cpu0/cpufreq/scaling_cur_freq").exists():
        return Finding("frequency", "sense", True, "cpufreq")
    return Finding("frequency", "sense", False, "no cpufreq (usual in virtual machines)", "run without virtualisation")


def _fuse() -> Finding:
    if Path("/dev/fuse").exists():
        return Finding("fuse", "simulate", True, "/dev/fuse")
    return Finding(
        "fuse",
        "simulate",
        False,
        "/dev/fuse does not exist: the virtual node is exported as plain files",
        "`modprobe fuse`, or add the device to the container",
    )


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None
