"""What a machine is: its scheduler and whether two of its CPUs share a core.

Files name a machine (`n2-highcpu-2`). What the name does not tell comes from columns of the file, from `--machine`, or
from what is usual: hyperthreads, and the kernel of Ubuntu 24.04 (6.8, EEVDF).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from osml.base.failure import InputError
from osml.simulator.calibration.measured.table import Row


class Machine(NamedTuple):
    """A machine as the laws see it."""

    cpus: int = 2
    siblings: bool = True  # CPUs 2n and 2n + 1 are hyperthreads of one core
    eevdf: bool = True  # Linux 6.6 and later; CFS before
    tick_ms: float = 1.0
    weight: float = 0.1  # of a pod's CPU group over 1024: Kubernetes gives a request of 100m a weight of 102

    @property
    def slice_ms(self) -> float:
        """EEVDF's base slice (6.6 to 6.11), CFS's least run: 0.75 ms x (1 + log2 of the CPUs, up to 8)."""
        return 0.75 * (1.0 + math.floor(math.log2(min(max(self.cpus, 1), 8))))

    @property
    def turn_ms(self) -> float:
        """A slice, rounded up to ticks: how long one of several busy threads keeps a CPU."""
        return self.tick_ms * math.ceil(self.slice_ms / self.tick_ms)


_CFS_TICK_MS = 4.0
"""HZ 250, usual in kernels that still have CFS."""

_WHOLE_CORES = re.compile(
    r"(t2d|t2a|n4a|c4a|h3)-"  # Google: AMD and Arm families without hyperthreads
    r"|(hpc)?[cmrtx]\d+i?g[a-z]*\."  # Amazon: Graviton
    r"|(hpc)?[cmr][78]a[a-z]*\.|hpc6a\."  # Amazon: AMD from the seventh generation on
    r"|(ecs\.)?[cgr]\d+y[a-z]*\."  # Alibaba: Yitian
    r"|standard_[a-z]+\d+p[a-z]*(_|$)"  # Azure: Ampere and Cobalt
    r"|cax\d+|vm\.standard\.a\d"  # Hetzner, Oracle: Ampere
)
"""Families whose CPUs are whole cores, from what their clouds say of them; all others have hyperthreads."""

_AMAZON_CPUS = {"medium": 1, "large": 2, "xlarge": 4}
_KEYS = ("scheduler", "siblings", "tick_ms", "weight", "cpus")


def cpus_of(name: str) -> int:
    """CPUs of a machine from its name (`n2-highcpu-2`, `m7g.2xlarge`, `Standard_D4ps_v5`); 2 where it is not told."""
    low = name.lower()
    if found := re.search(r"[-.](\d*)(medium|large|xlarge)$", low):
        return _AMAZON_CPUS[found[2]] * max(int(found[1] or 1), 1)
    found = re.search(r"-(\d+)$", low) or re.match(r"standard_[a-z]+(\d+)", low)
    return max(int(found[1]), 1) if found and len(found[1]) < 5 else 2


def _merge(machine: Machine, where: str, told: Mapping[str, str]) -> Machine:
    for name, text in told.items():
        if not text:
            continue
        if name == "scheduler":
            if text not in ("cfs", "eevdf"):
                raise InputError(f"{where}: 'scheduler' is {text!r}, expected cfs or eevdf")
            machine = machine._replace(eevdf=text == "eevdf")
            if text == "cfs" and not told.get("tick_ms"):
                machine = machine._replace(tick_ms=_CFS_TICK_MS)
        elif name == "siblings":
            if text not in ("yes", "no"):
                raise InputError(f"{where}: 'siblings' is {text!r}, expected yes or no")
            machine = machine._replace(siblings=text == "yes")
        else:
            machine = _with_number(machine, where, name, text)
    return machine


def _with_number(machine: Machine, where: str, name: str, text: str) -> Machine:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if name == "tick_ms" and 0.1 <= value <= 100.0:
        return machine._replace(tick_ms=value)
    if name == "weight" and 0.001 <= value <= 100.0:
        return machine._replace(weight=value)
    if name == "cpus" and value in range(1, 4097):
        return machine._replace(cpus=int(value))
    wanted = {"tick_ms": "0.1 to 100 (ms)", "weight": "0.001 to 100 (over 1024)", "cpus": "1 to 4096"}[name]
    raise InputError(f"{where}: '{name}' is {text!r}, expected {wanted}")


@dataclass(frozen=True)
class Machines:
    """Looks up a machine by name. What the command line says counts most, then the file, then the name."""

    told: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])

    @classmethod
    def parse(cls, options: Iterable[str]) -> Machines:
        """From `NAME: key=value, ...` of --machine; InputError with one sentence for a wrong one."""
        told: dict[str, Mapping[str, str]] = {}
        for option in options:
            name, colon, rest = option.rpartition(":")
            if not colon or not name.strip():
                raise InputError(f"--machine {option!r}: expected 'NAME: siblings=no, scheduler=cfs, tick_ms=4'")
            told[name.strip()] = _pairs(option, rest)
        machines = cls(told)
        for name in told:
            machines.of(name)
        return machines

    def of(self, name: str, row: Row | None = None) -> Machine:
        """The machine of that name; `row` is a line of the file that may say more."""
        machine = Machine(cpus_of(name), siblings=_WHOLE_CORES.match(name.lower()) is None)
        if row is not None:
            machine = _merge(machine, name, {key: row.get(key, "") for key in ("scheduler", "siblings", "tick_ms")})
        return _merge(machine, f"--machine {name}", self.told.get(name, {}))


def _pairs(option: str, text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value:
            raise InputError(
                f"--machine {option!r}: {part.strip()!r} is not key=value, expected one of {', '.join(_KEYS)}"
            )
        if key not in _KEYS:
            raise InputError(f"--machine {option!r}: unknown key '{key}', expected one of {', '.join(_KEYS)}")
        found[key] = value
    return found
