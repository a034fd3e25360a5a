"""The changes of `osml look twin whatif`: what its options ask of this machine, and who moves to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from osml.base.failure import InputError
from osml.simulator.models import JobModel, PlatformModel, ServiceModel
from osml.twin import edits
from osml.twin.commands.options import pairs, positive, whole
from osml.twin.document import Twin, load
from osml.twin.edits import Edit, Newcomer
from osml.twin.ensemble import Ensemble, job_of, quota_of, service_of
from osml.twin.scenes import Scene

Names = list[str] | None
NOT_HERE = " (not on this machine)"


@dataclass(frozen=True)
class Asked:
    """Changes and what they are called, in the order in which they are made.

    `names` are whom they name of this machine, `moves` the twins of other machines and who moves to each.
    """

    changes: list[tuple[str, Edit]]
    names: frozenset[str]
    moves: list[tuple[Twin, list[str]]]


def missing(twin: Twin) -> tuple[str, str]:
    """What is said of changes of ways, and of memory bandwidth, where the machine has no such levers."""
    return "" if twin.platform.ways is not None else NOT_HERE, "" if twin.platform.mba is not None else NOT_HERE


def asked_of(twin: Twin, given: Mapping[str, Names]) -> Asked:
    """What the options ask, by their names. InputError says what is wrong with one."""
    no_ways, no_mba = missing(twin)
    found: list[tuple[str, str, Edit]] = []  # what it is called, whom it names ("": somebody who comes), and the edit
    moves = _moves(twin, given["move"])
    for name in given["remove"] or []:
        found.append((f"without {name}", name, edits.removed(name)))
    for name, share in pairs(given["add-service"], "--add-service", positive):
        edit = edits.added(edits.catalog_newcomer(name, share))
        found.append((f"with {name} at {share:g} of its max load", "", edit))
    for name in given["add-job"] or []:
        found.append((f"with {name}", "", edits.added(edits.catalog_newcomer(name, None))))
    for other, movers in moves:
        found += [(f"{name} moved to {other.node}", name, edits.removed(name)) for name in movers]
    for name, factor in pairs(given["load"], "--load", positive):
        found.append((f"{name} with {factor:g} times the load", name, edits.load(name, factor)))
    for name, count in pairs(given["cpus"], "--cpus", whole):
        found.append((f"{name} on {count} CPUs", name, edits.cpu_count(name, count)))
    for name, limit in pairs(given["quota"], "--quota", lambda x, at: None if x == "none" else positive(x, at)):
        found.append((f"{name} with a quota of {limit or 'none'}", name, edits.quota(name, limit)))
    for name, value in pairs(given["weight"], "--weight", positive):
        if not 1 <= value <= 10_000:
            raise InputError(f"--weight of '{name}' is {value:g}, expected 1 to 10000")
        found.append((f"{name} with weight {value:g}", name, edits.weight(name, value)))
    for name, count in pairs(given["ways"], "--ways", whole):
        found.append((f"{name} with {count} ways{no_ways}", name, edits.first_ways(name, count)))
    for name, percent in pairs(given["bandwidth"], "--bandwidth", positive):
        if percent > 100:
            raise InputError(f"--bandwidth of '{name}' is {percent:g}, expected a share of at most 100 percent")
        called = f"{name} with {percent:g} % of the memory bandwidth{no_mba}"
        found.append((called, name, edits.bandwidth(name, percent)))
    named = {name for _, name, _ in found} & {one.name for one in twin.tenants}
    return Asked([(called, edit) for called, _, edit in found], frozenset(named), moves)


def _moves(twin: Twin, given: Names) -> list[tuple[Twin, list[str]]]:
    """The twins of other machines and who moves to each. InputError where that is nobody of this machine."""
    there = [one.name for one in twin.tenants]
    found: dict[Path, tuple[Twin, list[str]]] = {}
    for name, file in pairs(given, "--move", lambda text, _where: Path(text)):
        if name not in there:
            raise InputError(f"--move names '{name}'; on the machine are {', '.join(there)}")
        place = file.resolve()
        if place not in found:
            found[place] = load(file), []
        found[place][1].append(name)
    return list(found.values())


def mover(ensemble: Ensemble, scenes: Sequence[Scene], name: str) -> Newcomer:
    """A tenant of a twin as it comes to another machine, member by member: with its load, and its own CPU limit.

    The load is the mean of the scenes in which it has one. InputError where a service has none.
    """
    tenant = ensemble.tenant(name)
    busy = [scene for scene in scenes if scene.rates.get(name)]
    if tenant.kind == "lc" and not busy:
        raise InputError(
            f"'{name}' had no requests in these scenes, so nothing can be told of it on another machine; move another"
        )
    length = sum(len(scene.intervals) for scene in busy)
    rate = sum(len(scene.intervals) * scene.rates[name] for scene in busy) / length if busy else None

    def values_of(member: int) -> Mapping[tuple[str, str], float]:
        return ensemble.values(member % ensemble.size)

    def model(member: int, _platform: PlatformModel) -> ServiceModel | JobModel:
        if tenant.kind == "be":
            return job_of(tenant, values_of(member))
        return service_of(tenant, values_of(member), ensemble.rates.get(name, 1.0), ensemble.machine.id)

    def quota(member: int) -> float | None:
        return quota_of(ensemble, values_of(member), name)

    return Newcomer(model, rate, tenant.percentile, quota=quota)
