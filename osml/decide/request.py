"""What the types of an observation can't say: names are unique, targets exist, the platform adds up."""

from __future__ import annotations

import math

from osml.domain import KnobRange, Observation, Platform, Service
from osml.domain.cpulist import cpu_mask, lowest_cpu

MAX_UNITS = 16_384  # core units of a node
MAX_PLATFORM = 200  # characters of a platform's name
MAX_MASK_BITS = 64  # a way mask has at most 16 hexadecimal digits


class RequestError(ValueError):
    """The observation can't be decided on. `field` names the part of it that is wrong, where one part is."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field


def check_observation(observation: Observation) -> None:
    """Raise RequestError, naming the field, for the first thing that makes no sense."""
    _check_finite(observation.time_s, "time_s", "s")
    _check_finite(observation.interval_s, "interval_s", "s")
    seen: dict[str, int] = {}
    for index, service in enumerate(observation.services):
        if service.name in seen:
            raise RequestError(
                f"services[{index}].name '{service.name}' is also the name of services[{seen[service.name]}]; "
                "give each service a name of its own",
                f"services[{index}].name",
            )
        seen[service.name] = index
        _check_service(service, f"services[{index}]")
    _check_platform(observation.platform)
    for index, assignment in enumerate(observation.assignments):
        _cpus(assignment.cpus or "", f"assignments[{index}].cpus")


def _check_service(service: Service, where: str) -> None:
    if service.kind == "lc" and service.target_ms is None:
        raise RequestError(
            f"{where}.target_ms of LC service '{service.name}' is missing; set the latency in ms that it has to meet",
            f"{where}.target_ms",
        )
    _check_finite(service.target_ms, f"{where}.target_ms", "ms")
    _check_finite(service.latency_ms, f"{where}.latency", "ms")
    if service.max_cores is None and service.max_ways is None:
        return
    for resource, least, most in (
        ("cores", service.min_cores, service.max_cores),
        ("ways", service.min_ways, service.max_ways),
    ):
        if most is not None and most < least:
            raise RequestError(
                f"{where}.max_{resource} is {most}, less than min_{resource} {least} of service '{service.name}'",
                f"{where}.max_{resource}",
            )


def _check_finite(value: float | None, field: str, unit: str) -> None:
    if value is not None and not math.isfinite(value):
        raise RequestError(f"{field} is {value}, expected a finite number of {unit}", field)


def _check_platform(platform: Platform) -> None:
    if len(platform.id) > MAX_PLATFORM:
        raise RequestError(
            f"platform.id has {len(platform.id)} characters, expected at most {MAX_PLATFORM}", "platform.id"
        )
    cpus = _cpus(platform.cpus, "platform.cpus").bit_count()
    if platform.core_quantum > 1:
        raise RequestError(
            f"platform.core_quantum is {platform.core_quantum:g}, expected 1 (whole CPUs) or less (CPU quota)",
            "platform.core_quantum",
        )
    if abs(platform.cores * platform.core_quantum - cpus) >= platform.core_quantum:
        raise RequestError(
            f"platform.cores is {platform.cores} units of {platform.core_quantum:g} CPUs, but platform.cpus "
            f"'{platform.cpus}' lists {cpus} CPUs; expected {cpus / platform.core_quantum:g} cores",
            "platform.cores",
        )
    if platform.cores > MAX_UNITS:
        raise RequestError(
            f"platform.cores is {platform.cores}, expected at most {MAX_UNITS}; choose a larger core_quantum",
            "platform.cores",
        )
    threads = [cpu for group in platform.siblings for cpu in group]
    if len(set(threads)) != len(threads):
        raise RequestError("platform.siblings names a CPU twice; each CPU is in one physical core", "platform.siblings")
    if platform.regions_in_domains:  # agents that take no such regions have always sent what they found
        _check_domains(platform)
    if platform.ways is not None and not platform.min_way_bits <= platform.ways <= MAX_MASK_BITS:
        raise RequestError(
            f"platform.ways is {platform.ways}, expected {platform.min_way_bits} (min_way_bits) to {MAX_MASK_BITS}, "
            "or null where the cache can't be partitioned",
            "platform.ways",
        )
    if platform.mba is not None and platform.mba.min > platform.mba.max:
        raise RequestError(f"platform.mba: min {platform.mba.min} is above max {platform.mba.max}", "platform.mba")
    for knob in ("frequency_mhz", "memory_mib", "disk_iops", "network_mbps"):
        limits: KnobRange | None = getattr(platform, knob)
        if limits is not None and limits.min > limits.max:
            raise RequestError(
                f"platform.{knob}: min {limits.min} is above max {limits.max}; give the range that the node can set, "
                "or null where it can't",
                f"platform.{knob}",
            )


def _check_domains(platform: Platform) -> None:
    """Each cache domain has an id and CPUs of its own; a domain may be without known CPUs."""
    ids: set[int] = set()
    seen = 0
    for index, domain in enumerate(platform.domains):
        where = f"platform.domains[{index}]"
        if domain.id in ids:
            raise RequestError(f"{where}.id {domain.id} is the id of two cache domains, expected one", f"{where}.id")
        cpus = _cpus(domain.cpus, f"{where}.cpus")
        if seen & cpus:
            twice = lowest_cpu(seen & cpus)
            raise RequestError(
                f"{where}.cpus '{domain.cpus}' has CPU {twice}, which another cache domain has too; "
                "each CPU is in one cache domain",
                f"{where}.cpus",
            )
        ids.add(domain.id)
        seen |= cpus


def _cpus(text: str, field: str) -> int:
    try:
        return cpu_mask(text)
    except ValueError as error:
        raise RequestError(f"{field}: {error}", field) from error
