"""The node with one number changed, in a process of its own: `python -m` reads a job and writes a row."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

import msgspec

from osml.simulator import catalogs
from osml.simulator.calibration.facts import shipped_facts
from osml.simulator.calibration.fit import fit_service
from osml.simulator.calibration.sensitivity.assumed import AS_IS, AT_MOST, CATALOGS, Constant, assumed_in, entries
from osml.simulator.calibration.validate import check
from osml.simulator.closed_loop import ClosedLoop
from osml.simulator.mix import node_of, parse_mix
from osml.simulator.models import MemoryBehaviour, ServiceModel
from osml.simulator.surface import tail_ms

POLICIES = ("unmanaged", "parties", "arq", "staffing", "osml")
PLATFORM, SECONDS, SEED = "e5-2697v4", 60, 0

MIXES = (
    "masstree=0.2,nginx=0.5,xapian=0.9",
    "memcached=0.4,mongodb=0.3,moses=0.3",
    "login=0.7,mongodb=0.9,nginx=0.1",
    "ads=0.3,mongodb=0.8,sphinx=0.1",
    "mongodb=0.2,nginx=0.2,specjbb=0.2",
    "ads=0.1,masstree=0.7,xapian=0.8",
    "memcached=0.2,mongodb=0.2,xapian=0.2",
    "ads=0.3,login=0.6,sphinx=0.3",
    "login=0.2,memcached=0.8,nginx=0.2",
    "mongodb=0.2,moses=0.5,xapian=0.7",
    "masstree=0.4,memcached=0.1,mongodb=0.4",
    "img-dnn=0.4,login=0.4,xapian=0.6",
)
"""The first twelve of the suite osml-302 that are feasible on the node as it is, by the oracle."""

BESIDE_A_JOB = (
    "specjbb=0.42,sphinx=0.48,xapian=0.18,be:stream",
    "ads=0.06,img-dnn=0.3,mongodb=0.48,be:fluidanimate",
    "ads=0.18,masstree=0.24,sphinx=0.18,be:streamcluster",
    "ads=0.3,memcached=0.36,specjbb=0.3,be:kmeans",
    "login=0.36,moses=0.24,xapian=0.54,be:stream",
    "login=0.36,memcached=0.12,moses=0.06,be:fluidanimate",
    "img-dnn=0.3,masstree=0.48,moses=0.54,be:streamcluster",
    "moses=0.3,specjbb=0.24,sphinx=0.18,be:kmeans",
    "img-dnn=0.42,masstree=0.48,xapian=0.12,be:stream",
    "mongodb=0.48,nginx=0.36,specjbb=0.12,be:fluidanimate",
    "ads=0.3,memcached=0.54,moses=0.48,be:streamcluster",
    "img-dnn=0.06,login=0.18,specjbb=0.3,be:kmeans",
)
"""The first twelve of the suite osml-jobs."""

KINDS = {"services alone": MIXES, "beside a job": BESIDE_A_JOB}
MATTERS = 0.01
"""Share of intervals by which one policy has to miss less than another to count as better."""


class Row(msgspec.Struct, frozen=True):
    """What came out with a constant times a factor. `missed`: shares of missed intervals by kind of mix and policy."""

    constant: str
    factor: float
    state: str
    facts: int
    total: int
    missed: dict[str, dict[str, float]] | None = None

    @property
    def order(self) -> dict[str, list[str]]:
        """Policies by kind of mix, the one that misses least first; those with equal shares by name."""
        return {kind: sorted(shares, key=lambda name: (shares[name], name)) for kind, shares in self._missed.items()}

    def changes_from(self, usual: Row) -> list[str]:
        """Pairs of policies that have changed places since `usual`, in words; by less than MATTERS is no change."""
        return [
            f"{kind}: {a} before {b}"
            for kind, now in self._missed.items()
            for a in now
            for b in now
            if now[b] - now[a] > MATTERS and usual._missed[kind][a] - usual._missed[kind][b] > MATTERS
        ]

    @property
    def _missed(self) -> dict[str, dict[str, float]]:
        return self.missed or {}


class Job(msgspec.Struct, frozen=True):
    """One variant to run: `state` is that of the sources, `facts` parts of the ids of those to count (none: all)."""

    constant: Constant
    factor: float
    state: str
    facts_only: bool
    facts: tuple[str, ...]


def _scaled(name: str, value: float, factor: float) -> float:
    return min(value * factor, max(AT_MOST.get(name, value * factor), value))


def replaced_constant(module: str, name: str, factor: float) -> None:
    """Replace a constant in its module and wherever it was imported by name."""
    own = vars(importlib.import_module(f"osml.simulator.{module}"))
    old = own[name]
    for loaded in list(sys.modules.values()):
        if loaded.__name__.startswith("osml.simulator") and vars(loaded).get(name) is old:
            setattr(loaded, name, _scaled(name, old, factor))


def _changed(model: Any, names: Iterable[str], factor: float) -> Any:
    """A model of the catalog with some fields scaled; whole numbers stay whole, and at least 1."""
    own = {field.name for field in fields(model)}
    changes: dict[str, Any] = {}
    memory: dict[str, Any] = {}
    inner = {field.name for field in fields(MemoryBehaviour)}
    for name in names:
        holder, into = (model, changes) if name in own else (model.memory, memory)
        if name not in own and name not in inner:
            continue
        value = getattr(holder, name)
        scaled = _scaled(name, value, factor)
        into[name] = max(1, round(scaled)) if isinstance(value, int) else scaled
    if memory:
        changes["memory"] = replace(model.memory, **memory)
    return replace(model, **changes)


def replaced_field(file: str, name: str, factor: float) -> None:
    """Scale a field of all entries of a shipped catalog where it is assumed."""
    # The dictionary that all look-ups share.
    shipped = catalogs.shipped_entries(f"{file}.yaml", CATALOGS[file])
    for key, parameters in entries(file).items():
        if file == "services":
            here = name in assumed_in(file, parameters)
            for place, own in parameters["deployments"].items():
                if name in assumed_in(file, own) or (here and name not in own):
                    shipped[key][place] = _changed(shipped[key][place], [name], factor)
        elif name in assumed_in(file, parameters):
            shipped[key] = _changed(shipped[key], [name], factor)


def _fit_again() -> None:
    shipped = catalogs.shipped_entries("services.yaml", ServiceModel)
    for name in catalogs.service_names():
        shipped[name].update(fit_service(name, shipped_facts()))


def _apply(constant: Constant, factor: float) -> None:
    if constant == AS_IS:
        return
    if constant.place in CATALOGS:
        replaced_field(constant.place, constant.name, factor)
        return
    replaced_constant(constant.place, constant.name, factor)
    if constant.place == "calibration.fit":
        _fit_again()


def missed_shares(mixes: Iterable[str], seconds: int) -> dict[str, float]:
    """Share of the intervals of a second in which some service missed its target, by policy."""
    found: dict[str, float] = {}
    for policy in POLICIES:
        missed = intervals = 0
        for text in mixes:
            mix = parse_mix(text)
            node = node_of(mix, PLATFORM)
            for interval in ClosedLoop(node, mix.loads, policy, seed=SEED, tolerant=True).run(seconds):
                tails = zip(node.services, interval.flows, strict=False)
                missed += any(tail_ms(flow, s.percentile) > s.target_ms for s, flow in tails)
                intervals += 1
        found[policy] = missed / intervals
    return found


def variant(constant: Constant, factor: float, state: str, *, facts_only: bool, facts: tuple[str, ...] = ()) -> Row:
    """The facts and the policies with one number changed. Changes this process: nothing may have been compiled."""
    _apply(constant, factor)
    some = [fact for fact in shipped_facts() if not facts or any(part in fact.id for part in facts)]
    results = list(check(some))
    missed = None if facts_only else {kind: missed_shares(mixes, SECONDS) for kind, mixes in KINDS.items()}
    return Row(constant.id, factor, state, sum(result.passed for result in results), len(results), missed)


def main() -> None:
    """Read a variant from standard input, write its row to standard output."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    row = variant(job.constant, job.factor, job.state, facts_only=job.facts_only, facts=job.facts)
    sys.stdout.buffer.write(msgspec.json.encode(row))


if __name__ == "__main__":
    main()
