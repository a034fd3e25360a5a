"""What services, jobs and machines can be like before a record is looked at: draws from the simulator's own family.

A service that nobody knows behaves like one of the catalog's services or like one of the measured SPEC programs, with
other numbers around it. Names are not used: a service called redis need not be the catalog's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from osml.simulator import catalogs
from osml.simulator.models import MemoryBehaviour, PlatformModel
from osml.simulator.physics.cache import miss_ratio
from osml.simulator.physics.memory import rise
from osml.simulator.programs import HARDLY_MISSES, measured_programs
from osml.simulator.variation.spread import factor
from osml.twin.scenes import LATENCIES, Tenant

Drawn = dict[str, float]

MEMORY = ("cpi", "apki", "miss_min", "working_set_mib", "steepness", "mlp", "bytes_per_miss")
SERVICE = ("instructions", *MEMORY, "cv2", "burstiness", "serial_ms", "stack_ms", "usable")
JOB = (*MEMORY, "footprint_mib")
MACHINE = ("memory_latency_ns", "usable_bandwidth", "smt_speed", "llc_gbps")

LIMITS: Mapping[str, tuple[float, float]] = {
    "instructions": (1e3, 1e12), "cpi": (0.2, 4.0), "apki": (0.01, 120.0), "miss_min": (1e-3, 0.95),
    "working_set_mib": (0.05, 500.0), "steepness": (0.3, 8.0), "mlp": (1.0, 30.0), "bytes_per_miss": (64.0, 2048.0),
    "cv2": (0.01, 12.0), "burstiness": (0.2, 60.0), "serial_ms": (1e-4, 1e3), "stack_ms": (1e-4, 1e3),
    "usable": (0.3, 1.0), "memory_latency_ns": (40.0, 250.0), "usable_bandwidth": (0.3, 0.98), "smt_speed": (0.5, 1.0),
    "llc_gbps": (5.0, 5e3), "quota": (0.02, 512.0), "threads": (1.0, 4096.0),
    "footprint_mib": (0.1, 1e5),
}  # fmt: skip
"""Numbers outside of these limits are no programs and no machines."""

_SPREAD = 0.4
_MACHINE_SPREAD = 0.3
_CALIBRATED = 0.15
"""Log-spread of what a record shows directly, such as CPU time a request."""

_NOTHING = 1e-4
_MOST_USED = 0.95
FOOTPRINT_MIB = 1000.0
"""Data of a program of which nobody knows how much it has: more than any cache."""


@dataclass(frozen=True)
class Hints:
    """What a record shows of a tenant directly, means over its scenes; None where it does not show it.

    `cpu_s`: CPU time a request; `rate`: the highest requests/s; `half_ms`: the median response time; `busy`: CPUs used;
    `traffic`: GB/s.
    `throttled`: whether a CPU quota stopped it. `quota`: CPUs that the operator says it may use.
    """

    cpu_s: float | None
    rate: float | None
    half_ms: float | None
    busy: float | None
    most_busy: float | None
    ipc: float | None
    mpki: float | None
    occupancy: float | None
    traffic: float | None
    throttled: bool
    quota: float | None


@dataclass(frozen=True)
class Company:
    """How busy the machine was in the mean: shares of its CPUs and of its memory bandwidth (0 where not measured)."""

    cpus: float
    memory: float


def drawn_machine(machine: PlatformModel, rng: np.random.Generator) -> Drawn:
    """What data sheets don't say of a machine."""
    drawn = {name: getattr(machine, name) * factor(rng, _MACHINE_SPREAD) for name in MACHINE}
    return {name: min(max(value, LIMITS[name][0]), LIMITS[name][1]) for name, value in drawn.items()}


def _memory(rng: np.random.Generator, machine: PlatformModel, *, job: bool) -> MemoryBehaviour:
    """The behaviour of a program like a known one."""
    if rng.random() < 0.5:
        programs = [one for one in measured_programs() if one.mpki_one_way >= HARDLY_MISSES]
        found = programs[int(rng.integers(len(programs)))].behaviour(machine.memory_latency_ns, 1000.0, 1.0)
    elif job:
        names = catalogs.job_names()
        found = catalogs.job(names[int(rng.integers(len(names)))]).memory
    else:
        names = catalogs.service_names()
        found = catalogs.service(names[int(rng.integers(len(names)))]).memory
    return replace(
        found,
        apki=found.apki * factor(rng, _SPREAD),
        working_set_mib=found.working_set_mib * factor(rng, _SPREAD),
        steepness=found.steepness * factor(rng, _SPREAD),
        bytes_per_miss=found.bytes_per_miss * factor(rng, 0.2),
    )


def _near(value: float, rng: np.random.Generator) -> float:
    return value * math.exp(_CALIBRATED * float(rng.standard_normal()))


def _agreeing(
    memory: MemoryBehaviour, hints: Hints, machine: PlatformModel, company: Company, rng: np.random.Generator
) -> tuple[MemoryBehaviour, float]:
    """The behaviour so that it has about the measured misses and IPC, and its nanoseconds an instruction.

    What was measured was slowed down by busy siblings and by a busy memory, by as much as this machine has it.
    """
    cache = hints.occupancy or 0.3 * machine.ways * machine.way_mib
    miss = float(miss_ratio(memory.miss_min, memory.working_set_mib, memory.steepness, cache))
    if hints.mpki is not None:
        memory = replace(memory, apki=min(_near(hints.mpki, rng) / miss, LIMITS["apki"][1]))
    paired = machine.cpus > machine.physical_cores
    slower = 1.0 + (1.0 / machine.smt_speed - 1.0) * min(company.cpus, 1.0) if paired else 1.0
    clock = machine.all_core_ghz / slower
    used = min(company.memory / machine.usable_bandwidth, _MOST_USED)
    latency_ns = machine.memory_latency_ns * float(rise(machine.latency_rise, machine.latency_power, used))
    stall = memory.apki / 1000.0 * miss * latency_ns / memory.mlp
    if hints.ipc is not None:
        whole = 1.0 / (_near(hints.ipc, rng) * machine.all_core_ghz)
        most = float(rng.uniform(0.2, 0.7)) * whole
        if stall > most:
            memory = replace(memory, mlp=min(memory.mlp * stall / most, LIMITS["mlp"][1]))
            stall = most
        memory = replace(memory, cpi=max((whole - stall) * clock, LIMITS["cpi"][0]))
    return memory, memory.cpi / clock + stall


def drawn_service(machine: PlatformModel, hints: Hints, company: Company, rng: np.random.Generator) -> Drawn:
    """A service that agrees with the hints."""
    memory, ns = _agreeing(_memory(rng, machine, job=False), hints, machine, company, rng)
    names = catalogs.service_names()
    like = catalogs.service(names[int(rng.integers(len(names)))])
    seconds = hints.cpu_s
    if seconds is None:
        seconds = (hints.half_ms or 1.0) / 1000.0 * float(rng.uniform(0.1, 0.9))
    seconds = _near(seconds, rng)
    base = like.instructions * like.memory.cpi / 2.5e6  # ms of the like's own requests, about
    found = {name: getattr(memory, name) for name in MEMORY} | {
        "instructions": seconds * 1e9 / ns,
        "cv2": like.cv2 * factor(rng, 0.6),
        "burstiness": max(like.burstiness, 0.3) * factor(rng, _SPREAD),
        "serial_ms": max(like.serial_ms / base * seconds * 1000.0, _NOTHING) * factor(rng, _SPREAD),
        "stack_ms": max(like.stack_ms / base * seconds * 1000.0, _NOTHING) * factor(rng, _SPREAD),
        "usable": like.usable * factor(rng, 0.1),
    }
    if hints.rate:  # what goes one by one can't take longer than the requests that came
        found["serial_ms"] = min(found["serial_ms"], 0.8 * 1000.0 / hints.rate)
    if hints.half_ms is not None:
        found["stack_ms"] = min(found["stack_ms"], 0.8 * hints.half_ms)
    return found


def drawn_job(machine: PlatformModel, hints: Hints, company: Company, rng: np.random.Generator) -> Drawn:
    """A job that agrees with the hints."""
    memory, _ = _agreeing(_memory(rng, machine, job=True), hints, machine, company, rng)
    footprint = FOOTPRINT_MIB
    if hints.occupancy is not None:  # what it holds of the cache is at most its own data
        footprint = hints.occupancy * (1.0 + math.exp(0.5 + 1.5 * float(rng.standard_normal())))
    return {name: getattr(memory, name) for name in MEMORY} | {"footprint_mib": footprint}


def drawn_threads(tenant: Tenant, hints: Hints, machine: PlatformModel, rng: np.random.Generator) -> float:
    """Threads of a tenant that nobody counted: at least as many as the CPUs that it used."""
    least = max(1.0, math.ceil(hints.most_busy or 1.0))
    return float(min(least * math.exp(abs(0.5 * float(rng.standard_normal()))), max(machine.cpus, least)))


def drawn_quota(hints: Hints, rng: np.random.Generator) -> float:
    """CPUs of a limit that throttled a tenant, and that nobody told: above what it used."""
    return (hints.most_busy or 1.0) * float(rng.uniform(1.0, 1.8))


BIAS: Mapping[str, float] = {
    "cpu": 0.08, "ipc": 0.1, "mpki": 0.12, "occupancy": 0.12, "bandwidth": 0.12, "speed": 0.1,
}  # fmt: skip
"""Log-spread of a counter's constant error. Latencies have none."""

assert not set(BIAS) & set(LATENCIES)  # noqa: S101 - a table that is wrong shall not be used
