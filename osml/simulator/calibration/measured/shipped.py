"""The measured facts that come with the product (catalog/measured/), in the columns that all such files have."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path

from osml.simulator.calibration.measured import batch, inference, memory_latency, speedup
from osml.simulator.calibration.measured.clite import figures
from osml.simulator.calibration.measured.memcached import beside, colocation
from osml.simulator.calibration.measured.spec import sizes
from osml.simulator.calibration.measured.table import Columns, Row, read_table

TABLES: dict[str, Columns] = {
    "memcached_p95.csv": beside.COLUMNS,
    "colocation_intervals.csv": colocation.COLUMNS,
    "batch_slowdown.csv": batch.COLUMNS,
    "batch_speedup.csv": speedup.COLUMNS,
    "inference_cpu_limit.csv": inference.COLUMNS,
    "spec_llc.csv": sizes.COLUMNS,
    "memory_latency.csv": memory_latency.COLUMNS,
}
"""Files that tests read, with their columns."""

CLITE = "clite_facts.yaml"


def folder() -> Path:
    """Where the shipped facts are."""
    return Path(str(resources.files("osml.simulator").joinpath("catalog", "measured")))


@cache
def table(name: str) -> tuple[Row, ...]:
    """All rows of a shipped file."""
    return tuple(read_table(folder() / name, TABLES[name]))


@cache
def clite_facts() -> figures.Facts:
    """CLITE's figures."""
    return figures.read_facts(folder() / CLITE)


@cache
def population() -> sizes.Population:
    """SPEC programs that the prior of a miss curve is learned from."""
    return sizes.Population(sizes.programs(table("spec_llc.csv")))


def counts() -> dict[str, dict[str, int]]:
    """Facts of each file, by `fit` and `check`."""
    found: dict[str, dict[str, int]] = {}
    for name in TABLES:
        marks = [row["split"] for row in table(name)]
        found[name] = {mark: marks.count(mark) for mark in ("fit", "check")}
    facts = clite_facts()
    cells = sum(len(curve) for curve in facts.figure_6_p95_over_load.values() if not isinstance(curve, str))
    cells += sum(len(row) for name, row in facts.figure_1_qos_region.items() if name != "cores")
    cells += sum(len(row) for schemes in facts.heat_maps.values() for rows in schemes.values() for row in rows.values())
    found[CLITE] = {"fit": cells, "check": 0}
    return found
