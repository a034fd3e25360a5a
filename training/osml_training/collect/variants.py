"""Names of what can be swept: the catalogs', parts and variants of a machine, and variants of services.

`ID@8x11` is platform ID with 8 CPUs and 11 ways, `ID~3` its third variant: a made-up machine with other cores, clock,
cache and bandwidth; services bear there what cores and clock say. `NAME~3` is the third variant of service NAME:
another program with other demands. Variants are the same wherever they are asked for.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from osml.base.failure import InputError
from osml.predictors.metadata import PART
from osml.simulator import catalogs
from osml.simulator.cut_down import cut_down, resized_service
from osml.simulator.models import PlatformModel, ServiceModel
from osml.simulator.programs import measured_programs
from osml.simulator.state import Node
from osml.simulator.steady import steady
from osml.simulator.surface import ideal_ms, tail_ms, whole_node

VARIANT = "~"

MOST_VARIANTS = 10_000

_SIZE, _SHAPE = 4.0, 2.0
"""Work of a request and target are drawn log-uniformly within x1/4 to x4, other traits x1/2 to x2."""

_NEAR, _LATENCY_NS = 1.3, 85.0
"""How it uses the cache is that of a measured program, drawn uniformly, within x1/1.3 to x1.3; its
misses cost what they cost there, beside a memory of so many ns."""

_SERIAL = (1 / 32, 2.0)
"""The part of a request that only one can be in, relative to its work: mostly less, so that cores are what limits."""

_CORES = (4, 32)
"""Physical cores of a made-up machine, drawn log-uniformly; every second one has two hyperthreads a core."""

_WAYS = (8, 20)
"""Ways of its cache, drawn uniformly."""

_ALL_CORES = 0.4
"""Where between base and turbo the clock of all cores is: the mean of the catalog's."""

_CLOCK, _ROOM = 1.3, 2.0
"""Its clocks are drawn log-uniformly within x1/1.3 to x1.3, bandwidth and size of a way within x1/2 to x2."""

_LEAST_ROOM = 1.5
"""A target is at least so many times the latency alone at a tenth of the load."""

_STEPS = 24


def parent_of(name: str) -> str:
    """The catalog's name of a service or a platform, or of a variant of it."""
    return name.split(VARIANT, 1)[0]


def is_variant(name: str) -> bool:
    """Whether the name is that of a variant."""
    return VARIANT in name


def variants_of(names: Sequence[str], count: int) -> tuple[str, ...]:
    """The names of the first `count` variants of each service or platform; fewer are the first of more."""
    return tuple(f"{name}{VARIANT}{k}" for k in range(1, count + 1) for name in names)


def _number_of(kind: str, name: str) -> int:
    """The number of a variant; InputError where the name has none."""
    parent, _, number = name.partition(VARIANT)
    if not (number.isdecimal() and 1 <= int(number) <= MOST_VARIANTS):
        raise InputError(
            f"{kind} is '{name}', expected {parent}{VARIANT}NUMBER with a number from 1 to {MOST_VARIANTS}"
        )
    return int(number)


@cache
def platform_of(name: str) -> PlatformModel:
    """A platform of the catalog, or a part or a variant of one, which has the whole name as its id.

    Raises CatalogError for a platform that is not known, InputError for a part that is none of it or for a variant that
    is no number.
    """
    if VARIANT in name:
        _number_of("platform", name)
        return _made_up(catalogs.platform(parent_of(name)), name)
    base, cut, size = name.partition(PART)
    whole = catalogs.platform(base)
    if not cut:
        return whole
    cores, by, ways = size.partition("x")
    if not (by and cores.isdecimal() and ways.isdecimal()):
        raise InputError(f"platform is '{name}', expected {base}{PART}CORESxWAYS, such as {base}{PART}8x11")
    return replace(cut_down(whole, int(cores), int(ways)), id=name)


@cache
def service_of(name: str, platform: str) -> ServiceModel:
    """A service of the catalog, or a variant of one, on a platform or a part or variant of one.

    Raises CatalogError for a service that is not known, InputError for a variant that is no number.
    """
    parent, machine = parent_of(name), platform_of(platform)
    base = parent_of(platform.partition(PART)[0])
    found = catalogs.service(parent, base) if base == platform else resized_service(parent, replace(machine, id=base))
    if not is_variant(name):
        return found
    _number_of("service", name)
    return _bearing(_drawn(replace(found, name=name)), machine)


def _made_up(base: PlatformModel, name: str) -> PlatformModel:
    """A machine that could be: its cache is the faster the more cores it serves, what is not drawn is the base's."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))

    def times(most: float) -> float:
        return float(most ** rng.uniform(-1, 1))

    few, many = (float(np.log(cores)) for cores in _CORES)
    cores = round(float(np.exp(rng.uniform(few, many))))
    clock, turbo = base.frequency_ghz * times(_CLOCK), base.turbo_ghz * times(_CLOCK)
    return replace(
        base,
        id=name,
        physical_cores=cores,
        cpus=cores * int(rng.integers(1, 3)),
        frequency_ghz=round(clock, 2),
        all_core_ghz=round(clock + max(turbo - clock, 0.0) * _ALL_CORES, 2),
        turbo_ghz=round(max(clock, turbo), 2),
        ways=int(rng.integers(_WAYS[0], _WAYS[1] + 1)),
        way_mib=round(base.way_mib * times(_ROOM), 2),
        bandwidth_gbps=round(base.bandwidth_gbps * times(_ROOM), 1),
        llc_gbps=base.llc_gbps * cores / base.physical_cores,
    )


def _drawn(service: ServiceModel) -> ServiceModel:
    """The service with other demands, drawn by its name alone: the same program on every machine."""
    rng = np.random.default_rng(zlib.crc32(service.name.encode()))

    def times(most: float) -> float:
        return float(most ** rng.uniform(-1, 1))

    programs, memory = measured_programs(), service.memory
    program = programs[int(rng.integers(len(programs)))]
    drawn = program.behaviour(_LATENCY_NS, memory.footprint_mib, memory.power)
    low, high = (float(np.log(share)) for share in _SERIAL)
    work, waits = times(_SIZE), float(np.exp(rng.uniform(low, high)))
    return replace(
        service,
        instructions=service.instructions * work,
        max_load=service.max_load / work,
        serial_ms=service.serial_ms * work * waits,
        target_ms=service.target_ms * work * times(_SIZE),
        cv2=service.cv2 * times(_SHAPE),
        burstiness=max(1.0, service.burstiness * times(_SHAPE)),
        memory=replace(
            drawn,
            apki=drawn.apki * times(_NEAR),
            working_set_mib=drawn.working_set_mib * times(_NEAR),
            steepness=drawn.steepness * times(_NEAR),
        ),
    )


def _bearing(service: ServiceModel, machine: PlatformModel) -> ServiceModel:
    """With the max load that the machine just bears, as those of the catalogs are, and a target that can be met."""
    idle = ideal_ms(machine, service, 0.01)
    service = replace(service, target_ms=max(service.target_ms, _LEAST_ROOM * idle))

    def meets(rate: float) -> bool:
        loaded = replace(service, max_load=rate)
        node = Node(machine, (loaded,))
        return tail_ms(steady(node, whole_node(node), {service.name: 1.0}, 10.0)[0], service.percentile) <= (
            service.target_ms
        )

    low, high = service.max_load / 1e3, service.max_load * 1e2
    for _ in range(_STEPS):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if meets(middle) else (low, middle)
    return replace(
        service,
        max_load=low,
        scaled=f"a variant of {parent_of(service.name)}, with the maximum load that {machine.id} sustains",
    )
