"""Latency surfaces out of traces, as a collector knows them: the mean over the samples of each cell of each run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.datasets.arrow import numbers, pa
from osml.datasets.common_facts import FACTS, CommonFacts
from osml.datasets.description import Fingerprint, described
from osml.datasets.schema import PERCENTILES
from osml.datasets.store import open_parquet, read_group

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SURELY = 20.0
"""Expected requests of which none was answered: then the cell doesn't answer. Below it there may have been none."""

MIN_CORE_UNIT = 1e-3
MAX_CELLS = 1_000_000
"""Of a grid, as the column `cells` of the labels. 512 CPUs in tenths with 20 ways are a tenth of it."""

MAX_FILE_CELLS = 2**26
"""Of all grids of a file, which are in memory together with 56 bytes a cell."""

READ = (
    "run", "platform", "service", "threads", "load", "offered_per_s", "interval_s", "target_ms", "percentile",
    "cores", "ways", "bandwidth_gbps", "neighbours", "neighbour_cores", "neighbour_ways", *PERCENTILES.values(),
)  # fmt: skip


@dataclass
class Surface:
    """One run while its rows come in. Arrays are (cores, ways), index 0 is one unit of each; `facts` its constants."""

    run: str
    facts: dict[str, Any]
    shape: tuple[int, int]
    has_ways: bool
    answered: Floats = field(init=False)
    total: Floats = field(init=False)
    squares: Floats = field(init=False)
    expected: Floats = field(init=False)
    gbps: Floats = field(init=False)
    gbps_rows: Floats = field(init=False)
    offered_per_s: float | None = field(init=False, default=None)  # of the first row that says it
    seen: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.answered, self.total, self.squares, self.expected, self.gbps, self.gbps_rows, self.seen = (
            np.zeros(self.shape) for _ in range(7)
        )

    @property
    def latency_ms(self) -> Floats:
        """Mean over samples; NaN: not measured, infinite: many requests came and none was answered."""
        with np.errstate(invalid="ignore"):
            mean = self.total / self.answered
        return np.where((self.answered == 0) & (self.expected >= SURELY), np.inf, mean)

    @property
    def bandwidth_gbps(self) -> Floats:
        """Mean memory traffic by cell; NaN where it was not measured."""
        with np.errstate(invalid="ignore"):
            return self.gbps / self.gbps_rows

    @property
    def spread(self) -> float | None:
        """Median over cells of the relative standard error of the mean latency; None with one sample a cell."""
        many = self.answered >= 2
        if not many.any():
            return None
        n, mean = self.answered[many], self.total[many] / self.answered[many]
        variance = np.maximum(self.squares[many] / n - mean**2, 0.0) * n / (n - 1)
        return float(np.median(np.sqrt(variance / n) / np.maximum(mean, 1e-12)))


def _first(table: Any, row: int) -> dict[str, Any]:
    return {name: table.column(name)[row].as_py() for name in FACTS}


def core_unit(settings: dict[str, Any]) -> float:
    """Step in which cores were handed out: `core_quantum` of the provenance, 1 by default and at most.

    InputError where it is no number, or so small that no grid of it can be held.
    """
    unit = settings.get("core_quantum", 1.0)
    if not isinstance(unit, int | float) or unit < MIN_CORE_UNIT:
        raise InputError(f"core_quantum is {str(unit)[:80]}, expected logical CPUs from {MIN_CORE_UNIT:g} to 1")
    return float(min(unit, 1.0))


def grid_of(platform: Fingerprint, unit: float) -> tuple[int, int]:
    """(core units, ways) of a whole platform; InputError for one without a number of CPUs, or with too large a grid."""
    if platform.logical_cpus is None:
        raise InputError(f"platform '{platform.id}': 'logical_cpus' is missing in its description, labels need it")
    shape = round(platform.logical_cpus / unit), platform.llc_ways or 1
    if shape[0] * shape[1] > MAX_CELLS:
        raise InputError(
            f"platform '{platform.id}': {platform.logical_cpus} CPUs in steps of {unit:g} and {shape[1]} ways are "
            f"{shape[0] * shape[1]} cells, expected at most {MAX_CELLS}: use a larger core_quantum"
        )
    return shape


def _cells(table: Any, where: str, shape: tuple[int, int], unit: float, platform: Fingerprint) -> tuple[Ints, Ints]:
    cores, ways = numbers(table, "cores") / unit, numbers(table, "ways")
    units: Ints = np.rint(cores).astype(np.int64)
    if len(cores) and not (np.abs(cores - units) < 0.01).all():
        odd = cores[np.abs(cores - units) >= 0.01][0] * unit
        raise InputError(f"{where}, column 'cores': {odd:g} is not a multiple of the core unit of {unit:g} CPUs")
    if len(units) and not 1 <= units.min() <= units.max() <= shape[0]:
        raise InputError(
            f"{where}, column 'cores': {units.min() * unit:g} to {units.max() * unit:g}, but platform '{platform.id}' "
            f"has {platform.logical_cpus} CPUs: traces and platform description contradict each other"
        )
    plain: Ints = np.where(np.isnan(ways), 1, ways).astype(np.int64)
    if len(plain) and not 1 <= plain.min() <= plain.max() <= shape[1]:
        raise InputError(
            f"{where}, column 'ways': {plain.min()} to {plain.max()}, but platform '{platform.id}' has "
            f"{platform.llc_ways} ways: traces and platform description contradict each other"
        )
    return units - 1, plain - 1


def parted(table: Any, shape: tuple[int, int], unit: float) -> NDArray[np.bool_]:
    """Rows in which what the service has and what its neighbours have fits on the platform."""
    out = np.ones(len(table), np.bool_)
    for own, others, total in (("cores", "neighbour_cores", shape[0] * unit), ("ways", "neighbour_ways", shape[1])):
        here, there = numbers(table, own), numbers(table, others)
        # Unknown is no overlap, more than there is is an error; two hundredths of a core are the rounding of quotas.
        out &= ~((here <= total) & (here + there > total + 0.02))
    return out


def _grow(surface: Surface, at: tuple[Ints, Ints], table: Any, rows: NDArray[np.bool_], where: str) -> None:
    """Add rows of one run."""
    kind = surface.facts["percentile"] or "p99"
    if kind not in PERCENTILES:
        raise InputError(f"{where}, column 'percentile': {kind!r}, expected one of {', '.join(PERCENTILES)}")
    column = PERCENTILES[kind]
    latency = numbers(table, column)[rows]
    if (latency < 0).any() or np.isinf(latency).any():
        raise InputError(f"{where}, column '{column}': {latency.min():g} to {latency.max():g}, expected finite ms >= 0")
    size = surface.shape[0] * surface.shape[1]
    cell = (at[0] * surface.shape[1] + at[1])[rows]

    def added(values: Floats) -> Floats:
        return np.bincount(cell, np.nan_to_num(values), size).reshape(surface.shape).astype(np.float64)

    offered = numbers(table, "offered_per_s")[rows] * numbers(table, "interval_s")[rows]
    gbps = numbers(table, "bandwidth_gbps")[rows]
    surface.seen += added(np.ones(len(cell)))
    surface.answered += added((~np.isnan(latency)).astype(np.float64))
    surface.total += added(latency)
    surface.squares += added(latency**2)
    surface.expected += added(offered)
    surface.gbps += added(gbps)
    surface.gbps_rows += added((~np.isnan(gbps)).astype(np.float64))


def add_rows(
    surfaces: dict[str, Surface], table: Any, where: str, shape: tuple[int, int], unit: float, platform: Fingerprint
) -> None:
    """Add a table of rows to the surfaces of their runs; `shape` is the grid of the platform.

    Rows in which the service and its neighbours can't each have had cores (or ways) of their own are left out: they
    are no cells of a surface. InputError where rows of one run contradict each other.
    """
    table = table.filter(pa.array(parted(table, shape, unit)))
    units, ways = _cells(table, where, shape, unit, platform)
    common = CommonFacts(table)
    runs = table.column("run").combine_chunks().dictionary_encode()
    codes: Ints = runs.indices.to_numpy(zero_copy_only=False)
    for code, run in enumerate(runs.dictionary.to_pylist()):
        mine = codes == code
        if run not in surfaces:
            if (len(surfaces) + 1) * shape[0] * shape[1] > MAX_FILE_CELLS:
                raise InputError(
                    f"{where}, column 'run': more than {len(surfaces)} runs on a grid of {shape[0]} x {shape[1]} cells "
                    "in one file: write fewer runs into each file"
                )
            first = int(mine.argmax())
            has_ways = table.column("ways")[first].as_py() is not None
            fresh = Surface(run, _first(table, first), shape, has_ways)
            common.check(fresh, mine, where)
            surfaces[run] = fresh
        else:
            common.check(surfaces[run], mine, where)
        _grow(surfaces[run], (units, ways), table, mine, where)


def surfaces_of(file: Path) -> Iterator[Surface]:
    """The surfaces of all runs of a traces file, each over the whole grid of the platform.

    One row group is in memory at a time, and about 40 KiB for each run of the file. Raises InputError with file, row
    group and column for rows that contradict the platform or are no latencies.
    """
    parquet = open_parquet(file)
    about = described(parquet.schema_arrow.metadata, str(file))
    unit = core_unit(about.provenance.settings)
    shape = grid_of(about.platform, unit)
    surfaces: dict[str, Surface] = {}
    for group in range(parquet.metadata.num_row_groups):
        table = read_group(parquet, file, group, list(READ))
        add_rows(surfaces, table, f"{file}: row group {group}", shape, unit, about.platform)
    yield from surfaces.values()
