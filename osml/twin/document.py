"""A twin on disk: one JSON document with a schema version. It holds numbers and names only."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from osml.base.failure import InputError
from osml.base.json_file import NO_JSON
from osml.base.whole_file import write_whole
from osml.domain import Observation, Platform
from osml.simulator.columns import FloatArray
from osml.twin.ensemble import MACHINE_S, Ensemble, clipped
from osml.twin.machine import machine_of
from osml.twin.prior import BIAS, JOB, LIMITS, MACHINE, SERVICE
from osml.twin.scenes import LATENCIES, Scene, Tenant
from osml.twin.stolen import Stolen
from osml.twin.targets import Target

SCHEMA = "osml/twin/v1"
_MOST_BYTES, _MOST_MEMBERS = 256 * 2**20, 4096


class Parameter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One number of the tenant `of` (or of the machine): prior's log-spread, and its logarithm in each member."""

    of: str
    name: str
    prior_spread: float
    logs: list[float]


class Noise(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What single intervals have beyond the twin, as logarithms: quantiles 5, 50 and 95 %, and what stays.

    `kept` is the correlation of an interval's deviation with that of the one before, `left` the quantiles of what is
    left when that is known.
    """

    quantiles: tuple[float, float, float]
    kept: float
    left: tuple[float, float, float]


class Twin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fitted twin. `noise[service][percentile]`; `unknown` says in words what the record could not tell.

    `stolen` is what a hypervisor took, None where the record does not say. `targets` has how often each service missed
    its target over all lines, None where an older version fitted the twin.
    """

    node: str
    platform: Platform
    seed: int
    watched: bool
    intervals: int
    gaps: int
    garbage: int
    tenants: list[Tenant]
    rates: dict[str, float]
    quotas: dict[str, float]
    parameters: list[Parameter]
    scenes: list[Scene]
    noise: dict[str, dict[str, Noise]]
    unknown: list[str]
    stolen: Stolen | None = None
    targets: dict[str, Target] | None = None
    schema: Literal["osml/twin/v1"] = "osml/twin/v1"

    @property
    def ensemble(self) -> Ensemble:
        """The members."""
        logs: FloatArray = np.array([one.logs for one in self.parameters]).T
        keys = tuple((one.of, one.name) for one in self.parameters)
        return Ensemble(
            machine_of(self.platform), self.platform, tuple(self.tenants), self.rates, self.quotas, keys,
            clipped(keys, logs),
        )  # fmt: skip


def parameters_of(ensemble: Ensemble, prior: Ensemble) -> list[Parameter]:
    """The members' numbers as they are kept."""
    return [
        Parameter(
            owner, name, round(float(prior.logs[:, at].std()), 6), [round(x, 6) for x in ensemble.logs[:, at].tolist()]
        )
        for at, (owner, name) in enumerate(ensemble.keys)
    ]


def save(twin: Twin, file: Path) -> None:
    """Write a twin. The same twin gives the same bytes. Who reads it meanwhile finds the old one or the new one."""
    write_whole(file, msgspec.json.format(msgspec.json.encode(twin), indent=1) + b"\n")


def load(file: Path) -> Twin:
    """Read a twin. InputError says what is wrong with the file."""
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise InputError(f"{file} has more than {_MOST_BYTES >> 20} MiB, expected a file of `osml look twin fit`")
        twin = msgspec.json.decode(file.read_bytes(), type=Twin)
    except OSError as error:
        raise InputError(f"{file} can't be read: {error.strerror}") from None
    except NO_JSON as error:
        raise InputError(f"{file} is not a twin of `osml look twin fit` ({error}); fit it again") from None
    wrong = _wrong(twin)
    if wrong is not None:
        raise InputError(f"{file}: {wrong}; fit the twin again with `osml look twin fit`")
    return twin


def check_machine(twin: Twin, node: str, platforms: Iterable[Platform], whose: str) -> None:
    """Raise InputError where a record or an observation is of another node, or of another machine of that name."""
    if node != twin.node:
        raise InputError(f"{whose} is of node '{node}', the twin of '{twin.node}'; give a twin of the same node")
    then = twin.platform
    for now in platforms:
        if (now.cpus, now.ways) != (then.cpus, then.ways):
            raise InputError(
                f"the twin of node '{twin.node}' has CPUs {then.cpus} and {then.ways} ways, {whose} has {now.cpus} and "
                f"{now.ways}; fit it to a newer record: osml look twin fit"
            )
        if (now.cores, now.core_quantum) != (then.cores, then.core_quantum):
            raise InputError(
                f"the twin of node '{twin.node}' counts {then.cores} units of {then.core_quantum:g} CPUs, {whose} has "
                f"{now.cores} of {now.core_quantum:g}; fit it to a newer record: osml look twin fit"
            )


def check_tenants(twin: Twin, observations: Iterable[Observation], whose: str) -> None:
    """Raise InputError where somebody is there whom the twin does not know, or knows as of the other class."""
    kinds = {one.name: one.kind for one in twin.tenants}
    for service in (one for observation in observations for one in observation.services):
        if service.name not in kinds:
            raise InputError(
                f"the twin of node '{twin.node}' does not know '{service.name}'; "
                "fit it to a newer record: osml look twin fit"
            )
        if service.kind != kinds[service.name]:
            raise InputError(
                f"'{service.name}' has class {service.kind} in {whose} and {kinds[service.name]} in the twin of node "
                f"'{twin.node}'; fit it to a newer record: osml look twin fit"
            )


def is_twin(file: Path) -> bool:
    """Whether a file is a twin rather than a record: one document that begins with a name of the twin."""
    try:
        with file.open("rb") as stream:
            return stream.read(64).lstrip().startswith(b'{\n "node"')
    except OSError:
        return False


def _wrong(twin: Twin) -> str | None:
    """What does not fit together, or None."""
    names = [one.name for one in twin.tenants]
    if not names or len(set(names)) != len(names):
        return "'tenants' has none, or one of them twice"
    sizes = {len(one.logs) for one in twin.parameters}
    if len(sizes) != 1 or not 2 <= min(sizes) <= _MOST_MEMBERS:
        return f"'parameters' have {sorted(sizes)} members, expected one number from 2 to {_MOST_MEMBERS}"
    have = {(one.of, one.name) for one in twin.parameters}
    if len(have) != len(twin.parameters):
        return "'parameters' has one of them twice"
    for of, name in have:
        known = name in LIMITS or (name.startswith("bias:") and name.removeprefix("bias:") in BIAS)
        if not known or (of and of not in names):
            return f"parameter '{name}' of '{of}' is unknown"
    needed = {(MACHINE_S, name) for name in MACHINE}
    for one in twin.tenants:
        needed |= {(one.name, name) for name in (SERVICE if one.kind == "lc" else JOB)}
        needed |= set() if one.threads else {(one.name, "threads")}
    if needed - have:
        of, name = min(needed - have)
        return f"parameter '{name}' of '{of}' is missing"
    if not all(math.isfinite(x) for one in twin.parameters for x in one.logs):
        return "'parameters' has a number that is not finite"
    if any(set(scene.present) - set(names) for scene in twin.scenes) or not twin.scenes:
        return "'scenes' has none, or names somebody who is not in 'tenants'"
    if any(not (math.isfinite(x) and x > 0) for x in (*twin.rates.values(), *twin.quotas.values())):
        return "'rates' or 'quotas' has a number that is not above 0"
    if any(not 0 <= one.robbed <= one.missed <= one.measured <= one.intervals for one in (twin.targets or {}).values()):
        return "'targets' has counts that do not fit together"
    return None


def noise_at(twin: Twin, service: str, percentile: str) -> Noise:
    """The noise of a service; that of any other of its percentiles where this one was not measured."""
    known: Mapping[str, Noise] = twin.noise.get(service, {})
    for name in (percentile, "p99", *LATENCIES):
        if name in known:
            return known[name]
    return Noise((-0.5, 0.0, 0.5), 0.0, (-0.5, 0.0, 0.5))
