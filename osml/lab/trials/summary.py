"""What a trial says at its end: the figures of `summary.json`, from the records of its phases."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from typing import Any

from osml.domain import Entropy, Partition, Service
from osml.lab.trials.records import Record

CONVERGED_INTERVALS = 5  # design, section 4: all targets hold for this many consecutive intervals
CONVERGED_WITHIN_S = 180.0
STEADY_INTERVALS = 10  # figures of a phase are taken over its last intervals


def all_met(record: Record) -> bool:
    """True where every LC service was measured and inside its target."""
    slacks = [service.slack for service in record.observation.services if service.kind == "lc"]
    return all(slack is not None and slack >= 0 for slack in slacks)


def convergence_s(records: Sequence[Record]) -> float | None:
    """Node seconds until the first of 5 consecutive intervals with all targets met; None if not within 180 s."""
    if not records:
        return None
    start = records[0].observation.time_s - records[0].observation.interval_s
    held = 0
    for position, record in enumerate(records):
        held = held + 1 if all_met(record) else 0
        if held == CONVERGED_INTERVALS:
            first = records[position - CONVERGED_INTERVALS + 1].observation
            # Met from the beginning of that interval on: a phase that starts inside its targets took 0 s.
            seconds = max(0.0, first.time_s - first.interval_s - start)
            return seconds if seconds <= CONVERGED_WITHIN_S else None
    return None


def actions(records: Sequence[Record]) -> int:
    """Number of decisions that changed the partition, the first one (from nothing) not counted."""
    partitions = [record.decision.partition for record in records]
    return sum(1 for before, after in itertools.pairwise(partitions) if before != after)


def violations(records: Sequence[Record]) -> float | None:
    """Share of (LC service, interval) pairs above target, of those measured; None where none was."""
    slacks = [s.slack for record in records for s in record.observation.services if s.kind == "lc"]
    measured = [slack for slack in slacks if slack is not None]
    return sum(slack < 0 for slack in measured) / len(measured) if measured else None


def _median(values: Sequence[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return statistics.median(measured) if measured else None


def _mean(values: Sequence[float | None]) -> float | None:
    measured = [value for value in values if value is not None]
    return statistics.fmean(measured) if measured else None


def _service(name: str, steady: Sequence[Record]) -> dict[str, Any]:
    history = [s for record in steady for s in record.observation.services if s.name == name]
    last: Service = history[-1]
    latency_ms = _median([service.latency_ms for service in history])
    partition = steady[-1].decision.partition
    platform = steady[-1].observation.platform
    return {
        "name": name,
        "class": last.kind,
        "p99_ms": _median([s.latency.p99_ms if s.latency else None for s in history]),
        "percentile": last.percentile if last.kind == "lc" else None,
        "target_ms": last.target_ms,
        "met": None if latency_ms is None or last.target_ms is None else latency_ms <= last.target_ms,
        "cores": round(partition.cores_of(name) * platform.core_quantum, 3),
        "cores_isolated": round(_isolated(partition, name, "cores") * platform.core_quantum, 3),
        "ways": None if platform.ways is None else partition.ways_of(name),
        "ways_isolated": None if platform.ways is None else _isolated(partition, name, "ways"),
        "ipc_ratio": _ratio(_median([s.counters.ipc for s in history]), last.ipc_solo),
        "work_ratio": _ratio(_median([s.counters.work_rate for s in history]), last.work_rate_solo),
    }


def _ratio(real: float | None, solo: float | None) -> float | None:
    return None if real is None or solo is None else real / solo


def _isolated(partition: Partition, name: str, resource: str) -> int:
    return sum(getattr(region, resource) for region in partition.regions if region.owners == [name])


def phase(records: Sequence[Record]) -> dict[str, Any]:
    """Figures of one phase. `e_*` and services: over its last 10 intervals; `*_mean`: over all of it."""
    steady = records[-STEADY_INTERVALS:]
    entropies = [record.decision.entropy or Entropy(None, None, None) for record in steady]
    names = [service.name for service in steady[-1].observation.services]
    return {
        "e_s": _mean([entropy.e_s for entropy in entropies]),
        "e_lc": _mean([entropy.e_lc for entropy in entropies]),
        "e_be": _mean([entropy.e_be for entropy in entropies]),
        "e_s_mean": _mean([record.decision.entropy.e_s for record in records if record.decision.entropy]),
        "violations": violations(records),
        "intervals": len(records),
        "services": [_service(name, steady) for name in names],
    }
