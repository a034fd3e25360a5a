"""A simulated run as a table of the published columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from osml.datasets.arrow import numpy_type, pa
from osml.datasets.description import Provenance, metadata
from osml.datasets.programs import COLLECT
from osml.datasets.schema import TRACE_COLUMNS, TRACES_SCHEMA, arrow_schema
from osml.simulator.fleet import measure as m
from osml_training.collect.fingerprint import virtual_fingerprint
from osml_training.collect.fresh_sweep import node_digest
from osml_training.collect.simulate import node_of_run, simulate
from osml_training.collect.sweep import MAX_NEIGHBOURS, Run, Sweep
from osml_training.collect.unconfined import unconfined
from osml_training.collect.variants import platform_of, service_of

RESIDENT_SHARE = 0.8
"""Resident over virtual memory, as the virtual node's /proc shows it (simulator.kernel): no paper gives virtual."""

Ints = NDArray[np.int64]

_MEASURED = {
    "ipc": m.M_IPC,
    "bandwidth_gbps": m.M_BANDWIDTH_GBPS,
    "cpu_usage_cores": m.M_CPUS,
    "rss_mib": m.M_RESIDENT_MIB,
    "frequency_ghz": m.M_CLOCK,
    "llc_occupancy_mib": m.M_OCCUPANCY_MIB,
    "mean_ms": m.M_MEAN_MS,
    "p50_ms": m.M_P50_MS,
    "p95_ms": m.M_P95_MS,
    "p99_ms": m.M_P99_MS,
    "requests_per_s": m.M_REQUESTS_PER_S,
    "requests": m.M_SAMPLES,
}


def provenance_of(sweep: Sweep) -> Provenance:
    """Where the rows of a sweep come from: what made them, without what chose how many there are.

    `node` tells the equations and catalogs of the virtual node: rows of another one are not continued.
    """
    settings: dict[str, Any] = {
        "samples": sweep.samples,
        "interval_s": sweep.interval_s,
        "warmup_s": sweep.warmup_s,
        "noise": sweep.noise,
        "loads": list(sweep.loads),
        "threads": list(sweep.threads),
        "neighbours": list(sweep.neighbours),
        "jobs": list(sweep.jobs),
        "colocated": sweep.colocated,
        "node": node_digest(),
    }
    if sweep.unconfined:
        settings["unconfined"] = sweep.unconfined
    if sweep.most_neighbours != MAX_NEIGHBOURS:
        settings["most_neighbours"] = sweep.most_neighbours
    return Provenance("virtual", COLLECT, seed=sweep.seed, settings=settings)


def schema_of(sweep: Sweep, platform: str) -> Any:
    """The pyarrow schema of the files of a sweep on one platform, with its metadata."""
    fingerprint = virtual_fingerprint(platform_of(platform))
    return arrow_schema(TRACE_COLUMNS, metadata(TRACES_SCHEMA, provenance_of(sweep), fingerprint))


def _constant(value: object, kind: Any, count: int) -> Any:
    if not pa.types.is_string(kind):
        return pa.repeat(pa.scalar(value, kind), count)
    codes = pa.array(np.zeros(count, np.int32), mask=np.full(count, value is None))
    return pa.DictionaryArray.from_arrays(codes, pa.array([value or ""])).cast(pa.string())


def table_of(run: Run, sweep: Sweep, schema: Any) -> Any:
    """Measure a run: one row for each cell and sample, cells in order of cores, then ways; then unconfined rows."""
    platform, service = platform_of(run.platform), service_of(run.service, run.platform)
    found = simulate(run, sweep)
    cores, ways, samples = found.own.shape[:3]
    count = cores * ways * samples
    own = found.own.reshape(count, -1)
    shape = (cores, ways, samples)

    def by_cell(values: NDArray[Any]) -> NDArray[Any]:
        return np.broadcast_to(values[:, :, None], shape).reshape(-1)

    grid: Ints = np.indices((cores, ways)) + 1
    row, column = by_cell(grid[0]), by_cell(grid[1])
    sample: Ints = np.arange(count, dtype=np.int64) % samples
    others_cores, others_ways = by_cell(found.others[:, :, 0]), by_cell(found.others[:, :, 1])
    beside_gbps = found.beside_gbps.reshape(-1)
    alone = run.neighbours == 0
    if sweep.unconfined and not alone:
        more = unconfined(run, sweep, node_of_run(run))
        count += sweep.unconfined
        own, beside_gbps = np.concatenate([own, more.own]), np.concatenate([beside_gbps, more.beside_gbps])
        row, column = _followed(row, platform.cpus, more.own), _followed(column, platform.ways, more.own)
        others_cores = np.concatenate([others_cores, more.others[:, 0]])
        others_ways = np.concatenate([others_ways, more.others[:, 1]])
        sample = np.concatenate([sample, np.arange(sweep.unconfined, dtype=np.int64)])
    values: dict[str, Any] = {name: own[:, k] for name, k in _MEASURED.items()}
    values |= {
        "sample": sample,
        "cores": row,
        "ways": column,
        "cache_mib": column * platform.way_mib,
        "llc_misses_per_s": own[:, m.M_LLC_MISSES] / sweep.interval_s,
        "vms_mib": own[:, m.M_RESIDENT_MIB] / RESIDENT_SHARE,
        "neighbour_cores": others_cores,
        "neighbour_ways": others_ways,
        "neighbour_cache_mib": others_ways * platform.way_mib,
        "neighbour_bandwidth_gbps": beside_gbps,
    }
    constants: dict[str, Any] = {
        "run": run.id, "platform": run.platform, "service": run.service, "interval_s": sweep.interval_s,
        "threads": run.threads, "load": run.load, "offered_per_s": run.load * service.max_load,
        "target_ms": service.target_ms, "percentile": service.percentile, "mba_percent": None,
        "neighbours": run.neighbours, "neighbour_names": None if alone else run.names,
    }  # fmt: skip
    columns: list[Any] = []
    for field in schema:
        if field.name in constants:
            columns.append(_constant(constants[field.name], field.type, count))
        else:
            plain = values[field.name]
            missing = np.isnan(plain) if plain.dtype.kind == "f" else None
            kind = numpy_type(field.type)
            filled = plain if missing is None else np.where(missing, 0, plain)
            columns.append(pa.array(filled.astype(kind), field.type, mask=missing))
    return pa.Table.from_arrays(columns, schema=schema)


def _followed(values: NDArray[Any], by: int, rows: NDArray[Any]) -> NDArray[Any]:
    """The values, and `by` once for each of `rows`."""
    return np.concatenate([values, np.full(len(rows), by, values.dtype)])
