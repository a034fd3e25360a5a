"""Files of live nodes, read: records of `osml-agent run`, traces of `osml run live`, journals of a sweep."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from osml import records
from osml.base.failure import InputError
from osml.base.json_file import NO_JSON, from_json
from osml.datasets.description import Fingerprint, Provenance
from osml.datasets.live_columns import SCHEMA as LIVE_SCHEMA
from osml.datasets.programs import AGENT_RECORD, RUN_LIVE, SWEEP_LIVE, current_program
from osml.datasets.store import FAR, SWEEP, open_parquet
from osml.domain import Assignment, Latency, Observation, Platform, Service, usable_domains
from osml.domain.cpu_names import folder_name
from osml.predictors.features import has_smt
from osml.predictors.reach import NAN, Reach, reaches, read_back

Row = dict[str, Any]
_T = TypeVar("_T")


@dataclass
class LiveFile:
    """Intervals of one node: each a list of rows, one for each service and job, in the columns of `osml run live`."""

    platform: Fingerprint
    quantum: float
    provenance: Provenance
    intervals: list[list[Row]] = field(default_factory=list[list[Row]])
    salt: str = ""  # tells its runs from those of other files; a file that grows keeps it
    only: str | None = None  # the service that the file is about; None: all of them
    estimated: bool = False  # its loads are none that a generator was told
    caches: int = 1  # domains of the last-level cache that a service may be on
    in_domains: int = 0  # intervals that are not here: their services were placed on cache domains
    only_watched: int = 0  # the same: of a dry run
    damaged: int = 0  # lines that are none of a record


class NothingMeasuredError(InputError):
    """A sweep without an interval: it may have ended before its first cell."""


def one_interval(observation: Observation) -> LiveFile:
    """An observation as a file that has nothing else."""
    platform = observation.platform
    return LiveFile(_fingerprint(platform), platform.core_quantum, _of_sweep(), [_interval(observation)])


def _of_sweep() -> Provenance:
    return Provenance("real", SWEEP_LIVE)


def _interval(observation: Observation) -> list[Row]:
    """The services of an observation."""
    found = reaches(observation, [service.name for service in observation.services])
    return [_flat(observation, service, reach) for service, reach in zip(observation.services, found, strict=True)]


def _flat(observation: Observation, service: Service, reach: Reach) -> Row:
    """One service in the columns of `osml run live`, as far as they are used here, and its reach."""
    own = next((a for a in observation.assignments if a.service == service.name), Assignment(service.name))
    latency = service.latency or Latency()
    found: Row = msgspec.to_builtins(service.counters) | msgspec.to_builtins(latency) | msgspec.to_builtins(own)
    platform = observation.platform
    percent = platform.mba is not None and platform.mba.unit == "percent"
    return found | {
        "phase": "", "seq": observation.seq, "platform": platform.id, "platform_cores": platform.cores,
        "core_quantum": platform.core_quantum, "platform_ways": platform.ways, "service": service.name,
        "class": service.kind, "target_ms": service.target_ms, "percentile": service.percentile,
        "interval_s": observation.interval_s, "mba_percent": own.mba if percent else None, "reach": reach,
    }  # fmt: skip


def _decoded(file: Path, kind: type[_T], what: str) -> Iterator[tuple[int, _T]]:
    """The lines of a file of JSON lines, with their numbers. InputError for one that is not `what`.

    A last line without its end does not count: the agent still writes it, or was killed as it did.
    """
    content = file.read_bytes()
    lines = content.splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            yield number, msgspec.json.decode(line, type=kind)
        except NO_JSON as error:
            if number == len(lines) > 1 and not content.endswith(b"\n"):
                return
            raise InputError(f"{file}: line {number} is not {what} ({error})") from None


def _same_machine(file: Path, number: int, first: Observation, now: Observation) -> None:
    """InputError where an interval is of another machine than the first one, or was counted in other units."""
    pairs = [("node", first.node, now.node)]
    for name, key in _MACHINE:
        pairs.append((name, getattr(first.platform, key), getattr(now.platform, key)))
    for name, before, after in pairs:
        if before != after:
            raise InputError(
                f"{file}: line {number} has {name} {after}, the lines before have {before}: "
                "split the file, each part is of one machine"
            )


_DRY_RUN = "a dry run, whose allocations were never in force: record the agent without --dry-run"
_RECORD = "a record of `osml-agent run --record`"
_MACHINE = (("platform", "id"), ("core_quantum", "core_quantum"), ("cores", "cores"), ("ways", "ways"))


def _read_record(file: Path) -> LiveFile:
    """A record without what is no data: half lines after a power cut, and intervals in which the agent only watched."""
    found = LiveFile(Fingerprint(""), 1.0, Provenance("real", AGENT_RECORD))
    first, fault = None, ""
    for number, line in enumerate(records.read(file), start=1):
        if not isinstance(line, records.Line):
            fault = fault or f"line {number} is not {_RECORD} ({line})"
            found.damaged += 1
            continue
        observation = line.observation
        if records.only_watched(observation):
            fault = fault or f"line {number} is of {_DRY_RUN}"
            found.only_watched += 1
            continue
        first = first or observation
        _same_machine(file, number, first, observation)
        if observation.partition is not None and observation.partition.by_domain:
            found.in_domains += 1
        else:
            found.intervals.append(_interval(observation))
    if first is None:
        raise InputError(f"{file}: {fault or f'contains no observation, expected {_RECORD}'}")
    found.caches = max(1, len(usable_domains(first.platform)))
    found.platform, found.quantum = _fingerprint(first.platform), first.platform.core_quantum
    return found


def _fingerprint(platform: Platform) -> Fingerprint:
    return Fingerprint(
        id=folder_name(platform.id),
        cpu_model=_cpu_model(platform.id),
        logical_cpus=round(platform.cores * platform.core_quantum),
        llc_ways=platform.ways,
        way_mib=platform.way_mib,
        bandwidth_gbps=platform.bandwidth_gbps,
        memory_gib=platform.memory_gib,
        smt=has_smt(platform),
        base_ghz=platform.frequency_ghz,  # no turbo_ghz: the limit in frequency_mhz may leave out a boost
        mba=platform.mba is not None,
    )


class _SweepHead(msgspec.Struct, frozen=True):
    service: str


class _Condition(msgspec.Struct, frozen=True):
    load: float | None = None


class _SweepLine(msgspec.Struct, frozen=True):
    """The first line of a sweep, or a finished cell."""

    sweep: _SweepHead | None = None
    id: str = ""
    condition: _Condition = _Condition()
    offered_per_s: float | None = None
    why: str = ""
    intervals: list[Observation] = []


def _read_sweep(file: Path) -> LiveFile:
    """The measured intervals of a sweep; their load is that of their cell."""
    rows: list[list[Row]] = []
    service, salt, first, estimated = "", "", None, False
    for number, line in _decoded(file, _SweepLine, "a cell of a sweep"):
        if line.sweep is not None:
            service, salt = line.sweep.service, line.id
        estimated |= bool(line.intervals) and line.condition.load is None
        # Older versions kept quick intervals before the one that was far beyond, and labels take the mean of all.
        for observation in line.intervals[-1:] if FAR in line.why else line.intervals:
            first = first or observation
            _same_machine(file, number, first, observation)
            interval = _interval(observation)
            for row in interval:
                if row["service"] == service:
                    row["offered_per_s"] = line.offered_per_s
            rows.append(interval)
    if first is None:
        raise NothingMeasuredError(f"{file}: no cell of the sweep was measured")
    quantum = first.platform.core_quantum
    return LiveFile(_fingerprint(first.platform), quantum, _of_sweep(), rows, salt, service, estimated)


def _read_traces(file: Path) -> LiveFile:
    parquet = open_parquet(file)
    keys: dict[bytes, bytes] = parquet.schema_arrow.metadata or {}
    if keys.get(b"osml.schema", b"").decode() != LIVE_SCHEMA:
        raise InputError(
            f"{file}: osml.schema is {keys.get(b'osml.schema')!r}, expected {LIVE_SCHEMA} of `osml run live`"
        )
    said = from_json(keys.get(b"osml.provenance", b"{}"), dict[str, Any], f"{file}: osml.provenance")
    rows: list[Row] = parquet.read().to_pylist()
    if not rows:
        raise InputError(f"{file}: contains no row")
    first = rows[0]
    for name in ("node", "platform", "platform_cores", "core_quantum", "platform_ways"):
        found = {row.get(name) for row in rows}
        if len(found) > 1:
            several = ", ".join(sorted(map(str, found))[:3])
            raise InputError(f"{file}: column '{name}' has {several}, expected traces of one machine")
    whole: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        whole.setdefault((row["phase"], row["seq"]), []).append(row)
    for interval in whole.values():
        _add_reach(interval)
    fingerprint = Fingerprint(
        id=folder_name(first["platform"]),
        cpu_model=_cpu_model(first["platform"]),
        logical_cpus=round(first["platform_cores"] * first["core_quantum"]),
        llc_ways=first["platform_ways"],
        kernel=said.get("kernel"),
    )
    program = current_program(str(said.get("program", RUN_LIVE)))
    provenance = Provenance("real", program, settings={"policy": said.get("policy")})
    return LiveFile(fingerprint, float(first["core_quantum"]), provenance, list(whole.values()))


def _add_reach(interval: list[Row]) -> None:
    """Traces have no partition. What was read back does not say which quotas bound the same CPUs; newer traces do."""
    first, names = interval[0], [row["service"] for row in interval]
    platform = Platform(
        first["platform"], first["platform_cores"], "", first["core_quantum"], ways=first["platform_ways"]
    )
    given = {
        row["service"]: Assignment(row["service"], row.get("cpus"), row.get("cpu_quota"), way_mask=row.get("way_mask"))
        for row in interval
    }
    for row in interval:
        reach = read_back(platform, given, names, row["service"])
        if row.get("beside_cores") is not None:
            ways = row.get("beside_ways")
            reach = reach._replace(beside_cores=row["beside_cores"], beside_ways=NAN if ways is None else ways)
        row["reach"] = reach


def _cpu_model(name: str) -> str | None:
    """The name of a CPU where the id of the platform is one; a name that a person gave says nothing of the CPU."""
    return name if folder_name(name) != name else None


def read_live(file: Path) -> LiveFile:
    """Traces of `osml run live`, a sweep, or else a record of the agent; InputError says what is wrong."""
    try:
        with file.open("rb") as stream:
            magic = stream.read(4)
    except OSError as error:
        raise InputError(f"{file} can't be read ({error.strerror})") from None
    if file.name == SWEEP:
        return _read_sweep(file)
    if magic == b"PAR1":
        live, content = _read_traces(file), file.read_bytes()
    else:  # an agent adds lines: the first one, with its node and its time, says which record it is
        live, content = _read_record(file), file.read_bytes().splitlines()[0]
    live.salt = hashlib.sha256(content).hexdigest()[:12]
    return live
