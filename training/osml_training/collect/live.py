"""What a live node observed, as allocation cases."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from pathlib import Path
from statistics import median_low
from typing import NamedTuple

import msgspec

from osml.base.failure import InputError
from osml.base.whole_file import whole_file
from osml.datasets.arrow import pa, pq
from osml.datasets.dataset import DatasetDescription, same_collection, write_description
from osml.datasets.description import Fingerprint, Provenance, common, described, metadata
from osml.datasets.programs import COLLECT_LIVE
from osml.datasets.schema import TRACE_COLUMNS, TRACES_SCHEMA, arrow_schema, write_options
from osml.datasets.store import TRACES, forget_labels, open_parquet
from osml.domain import Observation
from osml.predictors.reach import Reach
from osml_training.collect.live_files import LiveFile, Row, one_interval, read_live
from osml_training.collect.live_series import ESTIMATED, Left, estimated_loads, repeats, settling
from osml_training.collect.machine import agreed

_COPIED = (
    "target_ms", "percentile", "offered_per_s", "ipc", "bandwidth_gbps", "cpu_usage_cores",
    "rss_mib", "vms_mib", "frequency_ghz", "llc_occupancy_mib", "mean_ms", "p50_ms", "p95_ms", "p99_ms",
    "requests_per_s",
)  # fmt: skip


def _total(values: list[float | None]) -> float | None:
    """The sum; None where a part of it was not measured."""
    return None if any(v is None for v in values) else sum(v for v in values if v is not None)


def _known(ways: float) -> int | None:
    return None if math.isnan(ways) else int(ways)


def _case(row: Row, others: list[Row], live: LiveFile) -> Row:
    """What a policy sees of the same interval, see `osml.predictors.features`, and what only a collector knows."""
    reach: Reach = row["reach"]
    cores = max(1, round(reach.cores / live.quantum)) * live.quantum
    ways, beside_ways, mib = _known(reach.ways), _known(reach.beside_ways), live.platform.way_mib
    misses, seconds = row.get("llc_misses"), row["interval_s"]
    rate, samples = row.get("requests_per_s"), row.get("samples")
    names = sorted(("be:" if other["class"] == "be" else "") + other["service"] for other in others)
    return {name: row.get(name) for name in _COPIED} | {
        "interval_s": samples / rate if samples and rate else seconds,
        "platform": live.platform.id, "service": row["service"], "cores": cores, "ways": ways,
        "cache_mib": None if ways is None or mib is None else ways * mib,
        "mba_percent": row.get("mba_percent"),
        "llc_misses_per_s": None if misses is None else misses / seconds,
        "requests": samples,
        "neighbours": len(others), "neighbour_names": ",".join(names) or None,
        "neighbour_cores": reach.beside_cores,
        "neighbour_ways": beside_ways,
        "neighbour_cache_mib": None if beside_ways is None or mib is None else beside_ways * mib,
        "neighbour_bandwidth_gbps": _total([other.get("bandwidth_gbps") for other in others]),
    }  # fmt: skip


class Cases(NamedTuple):
    """Rows of TRACE_COLUMNS, what was left out, and whether loads were estimated."""

    rows: list[Row]
    left: Left
    estimated: bool


def cases(live: LiveFile, salt: str = "", settle: int = 0) -> Cases:
    """Rows of every LC service and interval, in the order of time.

    A run is what stays the same but the allocation: service, load, target, neighbours. `settle`: intervals after a
    change of the service's allocation that are left out. Where no generator tells the load, it is estimated from the
    answers. `interval_s` is the time of the latencies, which the agent's own interval need not be.
    """
    series: dict[str, list[tuple[int, Row, Row]]] = {}
    for number, interval in enumerate(live.intervals):
        for k, row in enumerate(interval):
            if row["class"] == "lc" and live.only in (None, row["service"]):
                found = _case(row, [*interval[:k], *interval[k + 1 :]], live)
                series.setdefault(row["service"], []).append((number, row, found))
    out: list[tuple[int, Row]] = []
    left = Left(in_domains=live.in_domains, only_watched=live.only_watched, damaged=live.damaged)
    estimated = False
    for members in series.values():
        kept, gone = _kept(members, settle)
        left = left.plus(gone)
        estimated = _complete(kept, salt) or estimated
        out += [(number, found) for number, _, found in kept]
    out.sort(key=lambda one: one[0])
    return Cases([found for _, found in out], left, estimated)


def _kept(members: list[tuple[int, Row, Row]], settle: int) -> tuple[list[tuple[int, Row, Row]], Left]:
    """Without intervals in which nothing new was measured, and without those that a change still troubles."""
    again = repeats([row for _, row, _ in members])
    early = settling([(found["cores"], found["ways"], found["mba_percent"]) for *_, found in members], settle)
    kept = [one for one, twice, soon in zip(members, again, early, strict=True) if not twice and not soon]
    return kept, Left(sum(again), sum(soon and not twice for twice, soon in zip(again, early, strict=True)))


def _complete(members: list[tuple[int, Row, Row]], salt: str) -> bool:
    """Load, threads, run and sample of the cases of one service; whether its load had to be estimated."""
    threads = [found for _, row, _ in members if (found := row.get("threads")) is not None]
    unknown = bool(members) and all(found["offered_per_s"] is None for *_, found in members)
    if unknown:
        loads = estimated_loads([row for _, row, _ in members], [found["cores"] for *_, found in members])
        for (*_, found), load in zip(members, loads, strict=True):
            found["offered_per_s"] = load
    counts: dict[tuple[str, float, int | None], int] = {}
    for _, row, found in members:
        found["threads"] = median_low(threads) if threads else None  # a pool that breathes is one run
        keys = [salt, row["phase"], *(found[name] for name in _RUN)]
        found["run"] = hashlib.blake2b(repr(keys).encode(), digest_size=8).hexdigest()
        cell = (found["run"], found["cores"], found["ways"])
        found["sample"] = counts[cell] = counts.get(cell, -1) + 1
    return unknown and any(found["offered_per_s"] is not None for *_, found in members)


_RUN = ("platform", "service", "offered_per_s", "target_ms", "percentile", "mba_percent", "neighbour_names")


class Taken(NamedTuple):
    """What live files came to: rows, the platforms, and intervals that are no cases."""

    rows: int
    platforms: list[Fingerprint]
    left: Left = Left()
    caches: int = 1  # the most cache domains of a node whose cache has ways: then its rows are not of one


def take_over(
    folder: Path,
    files: list[Path],
    machine: Fingerprint | None = None,
    done: Callable[[Path, int], None] | None = None,
    *,
    simulated: bool = False,
    settle: int = 0,
) -> Taken:
    """Write the cases of live files into `folder`/traces. Same files, same output; a file that grew replaces its part.

    Raises InputError for a folder with another collection, for files that are none and names that are none.

    `simulated`: the agent drove a virtual node, which its record can't tell from a machine. `settle`: see `cases`.
    """
    same_collection(folder, _description(folder, [], simulated=simulated))
    rows_total, left, platforms = 0, Left(), dict[str, Fingerprint]()
    taken: dict[str, Path] = {}
    caches = 1
    for file in {file.resolve(): file for file in files}.values():
        live = read_live(file)
        _check_names(live, file)
        if live.platform.llc_ways is not None:
            caches = max(caches, live.caches)
        other = taken.setdefault(live.salt, file)
        if other != file:
            raise InputError(f"{other} and {file} begin with the same interval: give the longer one alone")
        if machine is not None:
            live.platform = agreed(live.platform, machine)
        found = cases(live, live.salt, settle)
        left = left.plus(found.left)
        settings = live.provenance.settings | {"core_quantum": live.quantum} | ({"settle": settle} if settle else {})
        kind = "virtual" if simulated else "real"
        notes = [*live.provenance.notes, *([ESTIMATED] if found.estimated or live.estimated else [])]
        provenance = msgspec.structs.replace(live.provenance, settings=settings, kind=kind, notes=notes)
        schema = arrow_schema(TRACE_COLUMNS, metadata(TRACES_SCHEMA, provenance, live.platform))
        written: set[Path] = set()
        by_service: dict[str, list[Row]] = {}
        for row in found.rows:
            by_service.setdefault(row["service"], []).append({field.name: row.get(field.name) for field in schema})
        for service, rows in sorted(by_service.items()):
            rows.sort(key=lambda row: row["run"])  # a run in one piece; the order within stays
            target = (
                folder / TRACES / f"platform={live.platform.id}" / f"service={service}" / f"part-{live.salt}.parquet"
            )
            with whole_file(target) as partial:
                pq.write_table(pa.Table.from_pylist(rows, schema=schema), partial, **write_options(TRACE_COLUMNS))
                forget_labels(folder, target, partial)
            rows_total += len(rows)
            written.add(target)
        _remove_others(folder, live.salt, written)
        platforms[live.platform.id] = live.platform
        if done is not None:
            done(file, sum(len(rows) for rows in by_service.values()))
    return Taken(rows_total, list(platforms.values()), left, caches)


def _remove_others(folder: Path, salt: str, written: set[Path]) -> None:
    """Remove what the same live file does not give any more: an older version has collected it."""
    for part in (folder / TRACES).glob(f"platform=*/service=*/part-{salt}.parquet"):
        if part not in written:
            part.unlink()
            forget_labels(folder, part)


def check_before(folder: Path, observation: Observation, machine: Fingerprint | None, *, simulated: bool) -> None:
    """Raise the InputError of `take_over` before hours of measuring: where `folder` can't have what this node sends."""
    same_collection(folder, _description(folder, [], simulated=simulated))
    live = one_interval(observation)
    _check_names(live, folder)
    if machine is not None:
        agreed(live.platform, machine)


def describe_live(folder: Path, platforms: list[Fingerprint], *, simulated: bool = False) -> None:
    """Write dataset.json; platforms of what was taken over before stay in it."""
    about = same_collection(folder, _description(folder, platforms, simulated=simulated))
    told = [_in_its_files(folder, platform) for platform in about.platforms]
    write_description(folder, msgspec.structs.replace(about, platforms=told))


def _in_its_files(folder: Path, platform: Fingerprint) -> Fingerprint:
    """What all files of a platform say: two nodes with one CPU model may differ, and a node gets another kernel."""
    files = sorted((folder / TRACES / f"platform={platform.id}").glob("service=*/*.parquet"))
    if not files:
        return platform
    return common(described(open_parquet(file).schema_arrow.metadata, str(file)).platform for file in files)


def _description(folder: Path, platforms: list[Fingerprint], *, simulated: bool) -> DatasetDescription:
    provenance = Provenance("virtual" if simulated else "real", COLLECT_LIVE)
    return DatasetDescription(folder.name, provenance, platforms)


_FOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@~-]{0,62}\Z")


def _check_names(live: LiveFile, file: Path) -> None:
    """Names become folders: InputError for those that would lead elsewhere."""
    services = {row["service"] for interval in live.intervals for row in interval}
    for what, name in [("platform", live.platform.id), *(("service", name) for name in sorted(services))]:
        if not _FOLDER.match(name):
            raise InputError(
                f"{file}: {what} is '{name[:80]}', expected 1 to 63 letters, digits, '_', '.', '@', '~' and '-'"
            )
