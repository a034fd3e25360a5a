"""Reads traces in the layout and the column names of the data set published with OSML into our columns.

    DIR/{single,multiple}/APP/THREADS/RPS/APP+THREADS+RPS+COREINDEX+WAYINDEX      CSV, indices from 0
    DIR/configs_multiple/APP/THREADS/RPS/config.txt                               the neighbours, optional

Written from a description of that layout; the data themselves were not at hand.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.base.whole_file import whole_file
from osml.datasets.arrow import numpy_type, pa, pq
from osml.datasets.dataset import DatasetDescription, same_collection, write_description
from osml.datasets.description import Provenance, metadata
from osml.datasets.programs import IMPORT_OSML
from osml.datasets.schema import TRACE_COLUMNS, TRACES_SCHEMA, arrow_schema, write_options
from osml.datasets.store import TRACES, forget_labels
from osml.simulator import catalogs
from osml.simulator.models import PlatformModel, ServiceModel
from osml_training.collect import published_units as units
from osml_training.collect.fingerprint import virtual_fingerprint

Floats = NDArray[np.float64]

SINGLE = (
    "CPU_Utilization",
    "Frequency",
    "IPC",
    "Misses",
    "MBL",
    "Virt_Memory",
    "Res_Memory",
    "Allocated_Cache",
    "Allocated_Core",
    "Latency",
)
BESIDE = ("MBL_N", "Allocated_Cache_N", "Allocated_Core_N")
MULTIPLE = (*SINGLE[:-1], *BESIDE, "Latency")

_NAME = re.compile(
    r"^(?P<app>[A-Za-z0-9_.-]+)\+(?P<threads>\d{1,4})\+(?P<rps>\d{1,9}k?)\+(?P<core>\d{1,4})\+(?P<way>\d{1,4})(\.csv)?$"
)
_INTERVAL_S = {"single": 1.0, "multiple": 0.1}
_TARGETS_MS = {
    "e5-2697v4": {
        "moses": 10.0, "img-dnn": 10.0, "xapian": 10.0, "masstree": 10.0, "memcached": 20.0, "mongodb": 1.0,
        "nginx": 10.0, "specjbb": 10.0, "sphinx": 3000.0, "login": 5.0, "ads": 40.0, "silo": 10.0, "mysql": 5.0,
        "redis": 0.5, "nodejs": 200.0,
    },
}  # fmt: skip
"""By platform: what the authors' artifact has. The catalog has the tail at the knee of the virtual node there."""
_MAX_FILE_BYTES = 64 * 2**20
UNKNOWN_LICENCE = "LicenseRef-unknown"
"""Nobody stated one for the published traces (the code is GPL-3.0): clear it before you hand them on."""


class Skipped(NamedTuple):
    """Something that was left out, and why."""

    path: str
    message: str


@dataclass
class Imported:
    """What came of an import; `repaired` counts values by column that said nothing and became null."""

    rows: int = 0
    runs: int = 0
    skipped: list[Skipped] = field(default_factory=list[Skipped])
    repaired: dict[str, int] = field(default_factory=dict[str, int])


class _Cell(NamedTuple):
    path: Path
    core: int
    way: int


def _rps(text: str) -> float:
    """Requests/s; k is 1024 there (memcached's 256k = 262144)."""
    return float(int(text[:-1]) * 1024) if text.endswith("k") else float(text)


def _read_csv(file: Path, columns: tuple[str, ...]) -> dict[str, Floats]:
    """Columns of a cell. Names in the first line, in any order, or none and then all columns in the known order."""
    if file.stat().st_size > _MAX_FILE_BYTES:
        raise InputError(f"{file}: {file.stat().st_size} bytes, expected the CSV of one cell")
    try:
        lines = [row for row in csv.reader(file.read_text("utf-8").splitlines()) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{file}: not readable as CSV ({error})") from None
    if not lines:
        raise InputError(f"{file}: empty, expected {len(columns)} columns")
    head = [cell.strip() for cell in lines[0]]
    if "Latency" in head:
        missing = [name for name in columns if name not in head]
        if missing:
            raise InputError(f"{file}: column '{missing[0]}' is missing, expected {', '.join(columns)}")
        body, places = lines[1:], [head.index(name) for name in columns]
    else:
        if len(head) != len(columns):
            raise InputError(
                f"{file}: {len(head)} columns without a header, expected {len(columns)}: {', '.join(columns)}"
            )
        body, places = lines, list(range(len(columns)))
    try:
        table = np.array([[float(row[place] or "nan") for place in places] for row in body], np.float64)
    except (ValueError, IndexError) as error:
        raise InputError(f"{file}: a row does not have {len(places)} numbers ({error})") from None
    table = table.reshape(-1, len(columns))
    return {name: table[:, k] for k, name in enumerate(columns)}


_PROGRAM = re.compile(
    r"(?<![A-Za-z])(?:img-dnn|xapian|sphinx|specjbb|masstree|moses|mongodb|memcached|nginx|login|ads)(?![A-Za-z])"
)
"""Names of services as words: "threads" is none."""


def _neighbours(config: Path) -> int | None:
    """How many neighbours a co-located case had: lines or entries of config.txt; None where it says nothing."""
    try:
        text = config.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    names = set(_PROGRAM.findall(text))
    return len(names) or None


class _Case(NamedTuple):
    """A case of the published data set: alone ("single") or co-located ("multiple"); the rate as it is written."""

    kind: str
    app: str
    threads: int
    rps: str
    cells: list[_Cell]


def _cases(root: Path) -> Iterator[_Case]:
    """Every case, in order."""
    for kind in ("single", "multiple"):
        found: dict[tuple[str, int, str], list[_Cell]] = {}
        for file in sorted((root / kind).rglob("*+*+*+*+*")):
            match = _NAME.match(file.name)
            if match is not None and file.is_file():
                key = (match["app"], int(match["threads"]), match["rps"])
                found.setdefault(key, []).append(_Cell(file, int(match["core"]), int(match["way"])))
        for (app, threads, rps), cells in sorted(found.items()):
            yield _Case(kind, app, threads, rps, cells)


def _root(folder: Path) -> Path:
    for root in (folder, folder / "data_collection", folder / "data" / "data_collection"):
        if (root / "single").is_dir() or (root / "multiple").is_dir():
            return root
    raise InputError(f"'{folder}' contains neither single/ nor multiple/ (nor data_collection/ with them)")


def _columns(
    raw: dict[str, Floats], platform: PlatformModel, neighbours: int | None, report: Imported
) -> dict[str, Floats]:
    """The measurements of a cell in our units."""
    peak = platform.bandwidth_gbps
    found = {
        "cpu_usage_cores": units.cpu_usage_cores(raw["CPU_Utilization"]),
        "frequency_ghz": units.frequency_ghz(raw["Frequency"]),
        "ipc": units.ipc(raw["IPC"]),
        "llc_misses_per_s": units.llc_misses_per_s(raw["Misses"], peak),
        "bandwidth_gbps": units.local_gbps(raw["MBL"], peak),
        "vms_mib": units.memory_mib(raw["Virt_Memory"], platform.memory_gib),
        "rss_mib": units.memory_mib(raw["Res_Memory"], platform.memory_gib),
        "p99_ms": units.latency_ms(raw["Latency"]),
    }
    if "MBL_N" in raw:
        # Quirk 6: a mean over the neighbours; ours is the sum. Without their number it is not known.
        times = np.nan if neighbours is None else float(neighbours)
        found["neighbour_bandwidth_gbps"] = units.local_gbps(raw["MBL_N"], peak) * times
        found["neighbour_cores"] = raw["Allocated_Core_N"]
        found["neighbour_cache_mib"] = raw["Allocated_Cache_N"]
        found["neighbour_ways"] = units.ways(raw["Allocated_Cache_N"], platform.way_mib)
    for name, values in found.items():
        report.repaired[name] = report.repaired.get(name, 0) + int(np.isnan(values).sum())
    return found


def _cell_table(
    cell: _Cell,
    kind: str,
    constants: dict[str, Any],
    platform: PlatformModel,
    neighbours: int | None,
    schema: Any,
    report: Imported,
) -> Any:
    """Rows of one cell, or None where it is left out (the report says why)."""
    cores, ways = cell.core + 1, cell.way + 1  # quirk 7: indices from 0
    if cores > platform.cpus or ways > platform.ways:
        message = f"cell of {cores} cores and {ways} ways, but {platform.id} has {platform.cpus} and {platform.ways}"
        raise InputError(f"{cell.path}: {message}; --platform must be the platform of the traces")
    if kind == "multiple" and (cores == platform.cpus or ways == platform.ways):
        report.skipped.append(Skipped(str(cell.path), "all cores or all ways: no neighbour ran (quirk 8)"))
        return None
    try:
        raw = _read_csv(cell.path, MULTIPLE if kind == "multiple" else SINGLE)
    except InputError as error:
        report.skipped.append(Skipped(str(cell.path), str(error).removeprefix(f"{cell.path}: ")))
        return None
    given_ways = units.ways(raw["Allocated_Cache"], platform.way_mib)
    matches = (np.rint(raw["Allocated_Core"]) == cores) & (given_ways == ways)
    if not matches.all():
        message = f"{int((~matches).sum())} rows have another allocation than the file name"
        report.skipped.append(Skipped(str(cell.path), message))
    values = {name: array[matches] for name, array in _columns(raw, platform, neighbours, report).items()}
    count = int(matches.sum())
    if count == 0:
        return None
    constants = constants | {"cores": cores, "ways": ways, "cache_mib": ways * platform.way_mib}
    columns: list[Any] = []
    for entry in schema:
        if entry.name == "sample":
            columns.append(pa.array(np.arange(count), entry.type))
        elif entry.name in values:
            plain = values[entry.name]
            missing = np.isnan(plain)
            filled = np.where(missing, 0, plain).astype(numpy_type(entry.type))
            columns.append(pa.array(filled, entry.type, mask=missing))
        else:
            columns.append(pa.repeat(pa.scalar(constants.get(entry.name), entry.type), count))
    return pa.Table.from_arrays(columns, schema=schema)


def _provenance() -> Provenance:
    return Provenance("real", IMPORT_OSML, notes=["published with OSML (FAST 2023); licence not stated"])


def describe_import(folder: Path, platform: PlatformModel) -> None:
    """Write dataset.json; platforms of what was imported before stay in it."""
    write_description(folder, same_collection(folder, _description(folder, platform)))


def _description(folder: Path, platform: PlatformModel) -> DatasetDescription:
    return DatasetDescription(folder.name, _provenance(), [virtual_fingerprint(platform)], licence=UNKNOWN_LICENCE)


def _target_ms(service: ServiceModel, platform: str) -> float:
    """The target of the authors, who ran what is imported; where they name none, that of the catalog."""
    return _TARGETS_MS.get(platform, {}).get(service.name, service.target_ms)


def import_osml(
    source: Path, folder: Path, platform: PlatformModel, done: Callable[[str, int], None] | None = None
) -> Imported:
    """Import a published data set into `folder`/traces, one file for each case; `platform` is where it was taken.

    What cannot be read or says nothing is left out and listed, never guessed. Raises InputError where the folder has
    another layout or contradicts the platform. Latency is p99 in ms: that is what the authors' clients reported.
    """
    report = Imported()
    root = _root(source)
    same_collection(folder, _description(folder, platform))
    about = metadata(TRACES_SCHEMA, _provenance(), virtual_fingerprint(platform), UNKNOWN_LICENCE)
    schema = arrow_schema(TRACE_COLUMNS, about)
    for kind, app, threads, rps, cells in _cases(root):
        known = app in catalogs.service_names()
        service = catalogs.service(app, platform.id) if known else None
        config = root.parent / "data_process" / "configs_multiple" / app / str(threads) / rps / "config.txt"
        beside = _neighbours(config) if kind == "multiple" else 0
        run = hashlib.blake2b(f"{platform.id}+{kind}+{app}+{threads}+{rps}".encode(), digest_size=8).hexdigest()
        constants: dict[str, Any] = {
            "run": run, "platform": platform.id, "service": app, "interval_s": _INTERVAL_S[kind], "threads": threads,
            "load": None if service is None else _rps(rps) / service.max_load, "offered_per_s": _rps(rps),
            "target_ms": None if service is None else _target_ms(service, platform.id), "percentile": "p99",
            "neighbours": beside,  # of a co-located case None where config.txt says nothing
        }  # fmt: skip
        if kind == "single":
            constants |= dict.fromkeys(
                ("neighbour_cores", "neighbour_ways", "neighbour_cache_mib", "neighbour_bandwidth_gbps"), 0
            )
        if service is None:
            report.skipped.append(Skipped(app, "the target of the service is unknown, so its runs cannot be labelled"))
        tables = [_cell_table(cell, kind, constants, platform, beside, schema, report) for cell in cells]
        tables = [table for table in tables if table is not None]
        if not tables:
            continue
        target = folder / TRACES / f"platform={platform.id}" / f"service={app}" / f"part-{run}.parquet"
        with whole_file(target) as partial:
            whole = pa.concat_tables(tables)
            pq.write_table(whole, partial, row_group_size=max(len(whole), 1), **write_options(TRACE_COLUMNS))
            forget_labels(folder, target, partial)
        report.rows += len(whole)
        report.runs += 1
        if done is not None:
            done(f"{kind} {app} {threads} threads {rps}/s", len(whole))
    if report.runs == 0:
        raise InputError(f"'{root}' contains no case, expected {{single,multiple}}/APP/THREADS/RPS/APP+THREADS+RPS+C+W")
    return report
