"""How much hangs on each assumed number: 30 % less and more of it, one at a time, and what that changes.

For each: how many published facts the node still meets, and in which order three policies come out on twelve mixes. A
variant runs in a process of its own, where the number is replaced before anything is compiled; the machine code of a
changed compiled constant is thrown away with the process's folder. Services are not fitted again, but where the number
itself only acts through the fit (`fit.py`).
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, cast

import msgspec
import yaml

from osml.base.failure import Failure
from osml.simulator import catalogs
from osml.simulator.calibration.facts import shipped_facts
from osml.simulator.calibration.fit import fit_service
from osml.simulator.calibration.validate import check
from osml.simulator.closed_loop import ClosedLoop
from osml.simulator.mix import node_of, parse_mix
from osml.simulator.models import JobModel, MemoryBehaviour, PlatformModel, ServiceModel
from osml.simulator.surface import tail_ms

FACTORS = (0.7, 1.3)
POLICIES = ("unmanaged", "parties", "arq")
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

_COMPILED = {
    "queueing.response": ("MAX_UTILISATION",),
    "queueing.transient": ("_COMMON",),
    "physics.cpu": ("HABIT", "MOVED_MS", "_COMING_AND_GOING", "CALMED", "_HEAVY"),
    "physics.memory": ("MAX_UTILISATION", "_POLE", "_LEAST_SHARE"),
    "physics.stations": ("_FULL", "_DISK_SLICE_MS"),
    "physics.step": ("_SHORT", "_LONG", "_RARE"),
    "physics.waking": ("_LATENCY_SLICES", "_CREDIT", "_CALM", "_BETWEEN", "_TICKED"),
}
"""Constants that numba freezes into machine code, by module below osml.simulator."""

_OF_THE_FIT = ("KNEE", "KNEE_RATIO", "USUAL_SHARE")
"""Constants of fit.py: the services are fitted again."""

_PLATFORM_FIELDS = (
    "usable_bandwidth", "memory_latency_ns", "latency_rise", "latency_power", "llc_gbps", "llc_latency_ns", "smt_speed",
    "time_slice_ms", "warmup_s", "all_core_ghz", "turbo_ghz", "disk_iops", "disk_mbps", "network_gbps",
)  # fmt: skip
"""Fields of platforms that are fitted by hand; where one is published it stays."""

_AT_MOST = {
    "smt_speed": 1.0, "usable_bandwidth": 1.0, "miss_min": 0.99, "MAX_UTILISATION": 0.995, "_FULL": 0.995,
    "CALMED": 1.0, "HABIT": 1.0, "KNEE": 0.99,
}  # fmt: skip
"""Shares stay shares."""

_CATALOGS: dict[str, type] = {"platforms": PlatformModel, "services": ServiceModel, "jobs": JobModel}


class Constant(msgspec.Struct, frozen=True):
    """An assumed number: `place` is a module below osml.simulator or a catalog, `value` None where entries differ."""

    place: str
    name: str
    value: float | None

    @property
    def id(self) -> str:
        """Its name in tables."""
        return f"{self.place}.{self.name}" if self.place else self.name


class Row(msgspec.Struct, frozen=True):
    """What came out with a constant times a factor. `missed` are shares of missed intervals by policy."""

    constant: str
    factor: float
    state: str
    facts: int
    total: int
    missed: dict[str, float] | None = None

    @property
    def order(self) -> list[str]:
        """Policies, the one that misses least first; those with equal shares by name."""
        missed = self.missed or {}
        return sorted(missed, key=lambda name: (missed[name], name))

    def other_order_than(self, usual: Row) -> bool:
        """Whether one policy misses less than another that misses less in the other row; a tie is no change."""
        now, before = self.missed or {}, usual.missed or {}
        return any(now[a] < now[b] and before[a] > before[b] for a in now for b in now)


AS_IS = Constant("", "as is", None)


# -- what is assumed -------------------------------------------------------------------------------------------------


@cache
def _text(file: str) -> dict[str, Any]:
    text = resources.files("osml.simulator").joinpath("catalog", f"{file}.yaml").read_text("utf-8")
    return cast(dict[str, Any], yaml.safe_load(text))


def _is_assumed(file: str, name: str, entry: object) -> bool:
    """Whether an entry of a catalog is a number that nobody published and no fit found."""
    if not isinstance(entry, dict):
        return False
    given = cast(dict[str, Any], entry)
    value = given.get("fitted")
    if isinstance(value, bool) or not isinstance(value, int | float) or value == 0:
        return False
    by_hand = file == "platforms" and name in _PLATFORM_FIELDS
    return by_hand or str(given.get("note", "")).startswith("assumed")


def _assumed_in(file: str, parameters: Mapping[str, Any]) -> set[str]:
    return {name for name, entry in parameters.items() if _is_assumed(file, name, entry)}


def _fields_of(file: str) -> list[str]:
    """Names of all fields with an assumed number in some entry of a catalog."""
    found = set[str]()
    for parameters in _text(file).values():
        found |= _assumed_in(file, parameters)
        for own in parameters.get("deployments", {}).values():
            found |= _assumed_in(file, own)
    return sorted(found)


def constants() -> list[Constant]:
    """All assumed numbers: fields of catalogs, which are quick, then constants of the fit, then compiled ones."""
    found = [Constant(file, name, None) for file in _CATALOGS for name in _fields_of(file)]
    for module, names in {"calibration.fit": _OF_THE_FIT, **_COMPILED}.items():
        values = vars(importlib.import_module(f"osml.simulator.{module}"))
        found += [Constant(module, name, float(values[name])) for name in names]
    return found


# -- one variant, in a process of its own ----------------------------------------------------------------------------


def _scaled(name: str, value: float, factor: float) -> float:
    return min(value * factor, max(_AT_MOST.get(name, value * factor), value))


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
    shipped = vars(catalogs)["_shipped"](f"{file}.yaml", _CATALOGS[file])
    for key, parameters in _text(file).items():
        if file == "services":
            here = name in _assumed_in(file, parameters)
            for place, own in parameters["deployments"].items():
                if name in _assumed_in(file, own) or (here and name not in own):
                    shipped[key][place] = _changed(shipped[key][place], [name], factor)
        elif name in _assumed_in(file, parameters):
            shipped[key] = _changed(shipped[key], [name], factor)


def _fit_again() -> None:
    shipped = vars(catalogs)["_shipped"]("services.yaml", ServiceModel)
    for name in catalogs.service_names():
        shipped[name].update(fit_service(name, shipped_facts()))


def _apply(constant: Constant, factor: float) -> None:
    if constant == AS_IS:
        return
    if constant.place in _CATALOGS:
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
    missed = None if facts_only else missed_shares(MIXES, SECONDS)
    return Row(constant.id, factor, state, sum(result.passed for result in results), len(results), missed)


# -- all variants ----------------------------------------------------------------------------------------------------


def sources_state() -> str:
    """What the rows of a file hold for: equations, catalogs and policies as they are."""
    package = Path(__file__).parents[2]
    state = hashlib.sha256()
    for path in sorted([*package.rglob("simulator/**/*.py"), *package.rglob("simulator/catalog/*.yaml")]):
        state.update(path.read_bytes())
    for path in sorted(package.rglob("policies/**/*.py")):
        state.update(path.read_bytes())
    return state.hexdigest()[:16]


def known_rows(file: Path, state: str, *, facts_only: bool) -> dict[tuple[str, float], Row]:
    """Rows of an earlier run that still hold; a torn last line is none."""
    found: dict[tuple[str, float], Row] = {}
    with suppress(FileNotFoundError):
        for line in file.read_text("utf-8").splitlines():
            with suppress(msgspec.DecodeError):
                row = msgspec.json.decode(line, type=Row)
                if row.state == state and (facts_only or row.missed is not None):
                    found[row.constant, row.factor] = row
    return found


def _run(constant: Constant, factor: float, state: str, facts_only: bool, facts: tuple[str, ...]) -> Row:
    """One variant in a process of its own, with machine code of its own where a compiled constant changes."""
    job = {"constant": constant, "factor": factor, "state": state, "facts_only": facts_only, "facts": facts}
    with tempfile.TemporaryDirectory(prefix="osml-sensitivity-") as folder:
        own = {"NUMBA_CACHE_DIR": folder} if constant.place in _COMPILED else {}
        done = subprocess.run(
            [sys.executable, "-m", __name__], input=msgspec.json.encode(job), capture_output=True, check=False,
            env=os.environ | own,
        )  # fmt: skip
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise Failure(f"{constant.id} times {factor:g}: {last[-1]}")
    return msgspec.json.decode(done.stdout, type=Row)


def sweep(
    chosen: list[Constant],
    file: Path,
    *,
    facts_only: bool,
    facts: tuple[str, ...] = (),
    say: Callable[[str], None] = lambda line: None,
) -> dict[tuple[str, float], Row]:
    """All variants of these constants, and none: rows that the file has are not run again, new ones are added to it."""
    state = sources_state() + "".join(f" {part}" for part in facts)
    rows = known_rows(file, state, facts_only=facts_only)
    wanted = [(AS_IS, 1.0), *((constant, factor) for constant in chosen for factor in FACTORS)]
    file.parent.mkdir(parents=True, exist_ok=True)
    for number, (constant, factor) in enumerate(wanted, start=1):
        if (constant.id, factor) in rows:
            continue
        say(f"{number} of {len(wanted)}: {constant.id} times {factor:g}")
        row = _run(constant, factor, state, facts_only, facts)
        with file.open("ab") as out:
            out.write(msgspec.json.encode(row) + b"\n")
        rows[constant.id, factor] = row
    return rows


class _Job(msgspec.Struct, frozen=True):
    constant: Constant
    factor: float
    state: str
    facts_only: bool
    facts: tuple[str, ...]


def main() -> None:
    """Read a variant from standard input, write its row to standard output."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=_Job)
    row = variant(job.constant, job.factor, job.state, facts_only=job.facts_only, facts=job.facts)
    print(json.dumps(msgspec.to_builtins(row)))


if __name__ == "__main__":
    main()
