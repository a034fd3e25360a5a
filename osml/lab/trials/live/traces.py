"""Raw observations as Parquet, one row for each service and interval, so that others can learn from a trial."""

from __future__ import annotations

import datetime
import importlib
import json
import math
import platform as machine
from pathlib import Path
from typing import Any

import msgspec

from osml import __version__
from osml.datasets.live_columns import COLUMNS, SCHEMA
from osml.datasets.programs import RUN_LIVE
from osml.domain import DRY_RUN, Assignment, Latency, Service
from osml.lab.trials.live.phases import LivePhase
from osml.lab.trials.live.telemetry import TelemetryLine, line_of, read_telemetry
from osml.lab.trials.records import Record
from osml.predictors.reach import reaches


def write_traces(path: Path, phases: list[LivePhase], telemetry: Path, summary: dict[str, Any]) -> None:
    """Write all records of all phases. `telemetry`: folder of the generator's files; `summary`: for the provenance."""
    # Heavy, and only the end of a trial needs it. It has no type information, hence Any.
    pa: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")

    names = {service.name for phase in phases for record in phase.records for service in record.observation.services}
    lines = {name: read_telemetry(telemetry / f"{name}.jsonl") for name in sorted(names) if _is_lc(name, phases)}
    rows = [
        row(phase.label, record, service, line_of(service.latency, lines.get(service.name, [])))
        for phase in phases
        for record in phase.records
        for service in record.observation.services
    ]
    types = {"string": pa.string(), "int64": pa.int64(), "double": pa.float64()}
    fields = [pa.field(column.name, types[column.type], column.nullable) for column in COLUMNS]
    metadata = {"osml.schema": SCHEMA, "osml.provenance": json.dumps(provenance(summary))}
    table = pa.Table.from_pylist(rows, schema=pa.schema(fields, metadata=metadata))
    parquet.write_table(table, path, compression="zstd")


def _is_lc(name: str, phases: list[LivePhase]) -> bool:
    first = phases[0].records[0].observation
    return any(service.name == name and service.kind == "lc" for service in first.services)


def provenance(summary: dict[str, Any]) -> dict[str, Any]:
    """What made the file: program, machine, mix. No host name: traces are handed around."""
    return {
        "program": f"{RUN_LIVE} {__version__}",
        "written": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "kernel": machine.release(),
        "machine": machine.machine(),
        "simulated": False,
        "generator": "osml-loadgen, open loop, Poisson arrivals, latency from the scheduled time",
        "work_rate_unit": summary["baseline"]["work_rate_unit"],
        "policy": summary["policy"],
        "seed": summary["seed"],
        "mechanisms": summary["mechanisms"],
        "missing": summary["missing"],
    }


def row(phase: str, record: Record, service: Service, line: TelemetryLine | None) -> dict[str, Any]:
    """One service in one interval, by the names of COLUMNS."""
    observation, decision = record.observation, record.decision
    platform, counters = observation.platform, service.counters
    latency = service.latency or Latency()
    # A dry run says what would be in force; nothing was.
    in_force = [] if DRY_RUN in observation.missing else observation.assignments
    own = [a for a in in_force if a.service == service.name]
    assignment = own[0] if own else Assignment(service.name)
    measured = {
        column.name: getattr(place, column.name)
        for place in (latency, counters, assignment)
        for column in COLUMNS
        if hasattr(place, column.name)
    }
    beside = None if DRY_RUN in observation.missing else reaches(observation, [service.name])[0]
    knobs = None if assignment.knobs is None else msgspec.json.encode(assignment.knobs).decode()
    return measured | {
        "knobs": knobs,
        "phase": phase,
        "policy": decision.policy,
        "node": observation.node,
        "seq": observation.seq,
        "time_s": observation.time_s,
        "interval_s": observation.interval_s,
        "steal": observation.host.steal,
        "platform": platform.id,
        "platform_cores": platform.cores,
        "core_quantum": platform.core_quantum,
        "platform_ways": platform.ways,
        "service": service.name,
        "class": service.kind,
        "target_ms": service.target_ms,
        "percentile": service.percentile if service.kind == "lc" else None,
        "ideal_ms": service.ideal_ms,
        "work_rate_solo": service.work_rate_solo,
        "ipc_solo": service.ipc_solo,
        "beside_cores": None if beside is None else beside.beside_cores,
        "beside_ways": None if beside is None or math.isnan(beside.beside_ways) else beside.beside_ways,
        "offered_per_s": None if line is None else line.offered_per_s,
        "lateness_p99_ms": None if line is None else line.lateness_p99_ms,
        "errors": None if line is None else line.errors,
        "waiting": None if line is None else line.waiting,
        "next_cores": decision.partition.cores_of(service.name),
        "next_ways": None if platform.ways is None else decision.partition.ways_of(service.name),
        "e_lc": None if decision.entropy is None else decision.entropy.e_lc,
        "e_be": None if decision.entropy is None else decision.entropy.e_be,
        "e_s": None if decision.entropy is None else decision.entropy.e_s,
    }
