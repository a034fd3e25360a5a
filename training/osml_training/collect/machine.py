"""The fingerprint of the machine that this runs on, from /proc and /sys. No host name, no serial, no address."""

from __future__ import annotations

import platform as python_platform
import re
from pathlib import Path

from msgspec.structs import replace

from osml.base.failure import InputError
from osml.datasets.description import Fingerprint

_SIZE = re.compile(r"^(\d+)([KMG]?)$")


def _text(file: Path) -> str | None:
    try:
        return file.read_text("utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _number(text: str | None, scale: float = 1.0) -> float | None:
    try:
        return None if text is None else float(text) * scale
    except ValueError:
        return None


def _mib(text: str | None) -> float | None:
    """Cache size as sysfs writes it: 46080K."""
    match = _SIZE.match(text or "")
    return None if match is None else int(match[1]) * {"": 1 / 2**20, "K": 1 / 1024, "M": 1.0, "G": 1024.0}[match[2]]


def _cpuinfo(text: str | None) -> dict[str, str]:
    """Fields of the first CPU in /proc/cpuinfo."""
    lines = (text or "").split("\n\n", 1)[0].splitlines()
    pairs = (line.partition(":") for line in lines)
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


def _ways(resctrl: Path) -> int | None:
    mask = _text(resctrl / "info/L3/cbm_mask")
    return None if mask is None else int(mask, 16).bit_count()


def _ghz(cpu: Path, name: str) -> set[float]:
    """What the CPUs say, those that say something."""
    found = (_number(_text(file), 1e-6) for file in cpu.glob(f"cpu[0-9]*/cpufreq/{name}"))
    return {ghz for ghz in found if ghz is not None}


def _base_ghz(cpu: Path) -> float | None:
    """None where cores differ (big.LITTLE, hybrid): no number holds for all."""
    base = _ghz(cpu, "base_frequency")
    return base.pop() if len(base) == 1 else None


def _turbo_ghz(cpu: Path) -> float | None:
    """That of the fastest CPU. None with acpi-cpufreq and a boost, which its limit leaves out."""
    if (cpu / "cpufreq/boost").exists() and _text(cpu / "cpu0/cpufreq/scaling_driver") == "acpi-cpufreq":
        return None
    return max(_ghz(cpu, "cpuinfo_max_freq"), default=None)


def this_machine(
    name: str, proc: Path = Path("/proc"), sysfs: Path = Path("/sys"), resctrl: Path = Path("/sys/fs/resctrl")
) -> Fingerprint:
    """The machine under these roots; None for what it doesn't tell (a virtual machine hides much).

    With several last-level caches its `llc_mib` is None: ways and their size are those of one of them, but the
    occupancy of a service is the sum over all.
    """
    cpuinfo_text = _text(proc / "cpuinfo")
    info = _cpuinfo(cpuinfo_text)
    cpu = sysfs / "devices/system/cpu"
    count = (cpuinfo_text or "").count("processor\t") or None
    siblings, cores = _number(info.get("siblings")), _number(info.get("cpu cores"))
    threads = siblings / cores if siblings and cores else None
    llc, ways = _mib(_text(cpu / "cpu0/cache/index3/size")), _ways(resctrl)
    several = len({_text(shared) for shared in cpu.glob("cpu[0-9]*/cache/index3/shared_cpu_list")}) > 1
    stepping = _number(info.get("stepping"))
    return Fingerprint(
        id=name,
        cpu_model=info.get("model name"),
        stepping=None if stepping is None else int(stepping),
        microcode=info.get("microcode"),
        kernel=_text(proc / "sys/kernel/osrelease") or python_platform.release(),
        logical_cpus=count,
        physical_cores=None if count is None or threads is None else round(count / threads),
        smt=None if threads is None else threads > 1,
        governor=_text(cpu / "cpu0/cpufreq/scaling_governor"),
        base_ghz=_base_ghz(cpu),
        turbo_ghz=_turbo_ghz(cpu),
        llc_mib=None if several else llc,
        llc_ways=ways,
        way_mib=None if llc is None or ways is None else llc / ways,
        hypervisor="yes" if "hypervisor" in info.get("flags", "").split() else None,
    )


def agreed(rows: Fingerprint, machine: Fingerprint) -> Fingerprint:
    """What rows and machine say together; InputError where they contradict each other."""
    for field in ("logical_cpus", "llc_ways"):
        said, found = getattr(rows, field), getattr(machine, field)
        if said is not None and found is not None and said > found:
            raise InputError(
                f"platform '{rows.id}': the traces have {said} ({field}), this machine has {found}; use --here on the "
                "machine of the traces"
            )
    known = {name: getattr(rows, name) for name in rows.__struct_fields__ if getattr(rows, name) is not None}
    found = replace(machine, **known)
    if found.logical_cpus != machine.logical_cpus:  # an agent with a part of the CPUs: nobody says of how many cores
        return replace(found, physical_cores=None)
    return found
