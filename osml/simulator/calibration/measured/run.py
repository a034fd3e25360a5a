"""Runs the node's equations against a folder of measurements: one test, or several, for each file that is there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from osml.base.failure import InputError
from osml.simulator.calibration.measured import batch, inference, memory_latency, shipped, speedup
from osml.simulator.calibration.measured.clite import figures
from osml.simulator.calibration.measured.machines import Machines
from osml.simulator.calibration.measured.memcached import beside, colocation, threads
from osml.simulator.calibration.measured.outcome import Test
from osml.simulator.calibration.measured.spec import sharing, sizes
from osml.simulator.calibration.measured.table import Row, completed, read_table

_SAID_AFTER_S = 2.0


class Step(NamedTuple):
    """The tests of one file."""

    name: str
    run: Callable[[], list[Test]]


Say = Callable[[str], None]
"""Takes one line for people, on stderr."""


def _steps(tables: dict[str, Sequence[Row]], facts: figures.Facts | None, machines: Machines) -> Iterator[Step]:
    """The tests of everything that was read."""
    constants = batch.BatchConstants()
    cells = batch.cells(shipped.table("batch_slowdown.csv"))

    def memcached_tests() -> list[Test]:
        rows, known = tables["memcached_p95.csv"], shipped.table("memcached_p95.csv")
        return beside.tests(rows, machines, known) + threads.tests(rows, machines, known)

    def colocations() -> list[Test]:
        name = "colocation_intervals.csv"
        return colocation.tests(tables[name], machines, shipped.table(name))

    def slowdown() -> list[Test]:
        known = speedup.appetite_of(tables.get("batch_speedup.csv", ()), constants)
        return batch.tests(tables["batch_slowdown.csv"], machines, cells, known)

    def scaling() -> list[Test]:
        name, appetite = "batch_speedup.csv", batch.fit(cells, constants).appetite
        rows = completed(tables[name], shipped.table(name), ("repo", "vm", "program"), ("threads",))
        return speedup.tests(rows, machines, appetite)

    def quotas() -> list[Test]:
        name = "inference_cpu_limit.csv"
        rows = completed(tables[name], shipped.table(name), ("model",), ("input", "batch", "gpu", "cpus"))
        return inference.tests(rows, machines)

    def programs() -> list[Test]:
        name, population = "spec_llc.csv", shipped.population()
        group = ("suite", "program", "source", "prefetch")
        given = [row | {"copies": row["copies"] or 1.0} for row in tables[name]]
        rows = completed(given, shipped.table(name), group, ("llc_mib", "copies"))
        return sizes.tests(rows, machines, population) + sharing.tests(rows, machines, population)

    def latencies() -> list[Test]:
        name = "memory_latency.csv"
        return memory_latency.tests(tables[name], machines, shipped.table(name))

    known: dict[str, Callable[[], list[Test]]] = {
        "memcached_p95.csv": memcached_tests,
        "colocation_intervals.csv": colocations,
        "batch_slowdown.csv": slowdown,
        "batch_speedup.csv": scaling,
        "inference_cpu_limit.csv": quotas,
        "spec_llc.csv": programs,
        "memory_latency.csv": latencies,
    }
    for name, run in known.items():
        if name in tables:
            yield Step(name, run)
    if facts is not None:
        yield Step(shipped.CLITE, lambda: figures.tests(facts, shipped.clite_facts()))


def _run(steps: Sequence[Step], say: Say) -> list[Test]:
    """All tests that have something to compare; after two seconds each step says its name."""
    begun = time.monotonic()
    found: list[Test] = []
    for i, step in enumerate(steps):
        if time.monotonic() - begun > _SAID_AFTER_S:
            say(f"testing {step.name} ({i + 1} of {len(steps)})")
        with np.errstate(all="ignore"):  # a wrong number of ours is an error of infinite size, not a warning
            found += [test for test in step.run() if test.pairs]
    return found


def measured_tests(folder: Path, machines: Machines, say: Say = lambda _: None) -> list[Test]:
    """Tests on the files of a folder. Files that are not there are skipped, which `say` hears."""
    names = (*shipped.TABLES, shipped.CLITE)
    if not folder.is_dir():
        raise InputError(f"--measured {folder}: not a folder, expected one with files such as {names[0]}")
    there = [name for name in names if (folder / name).exists()]
    if not there:
        raise InputError(f"--measured {folder}: none of the files expected is there: {', '.join(names)}")
    for name in names:
        if name not in there:
            say(f"skipped: {name} is not in {folder}")
    tables: dict[str, Sequence[Row]] = {
        name: read_table(folder / name, columns) for name, columns in shipped.TABLES.items() if name in there
    }
    named = {row[key] for rows in tables.values() for row in rows for key in ("vm", "machine") if key in row}
    for name in machines.told:
        if name not in named:
            raise InputError(f"--machine {name}: no file of {folder} has this machine")
    facts = figures.read_facts(folder / shipped.CLITE) if shipped.CLITE in there else None
    return _run(list(_steps(tables, facts, machines)), say)


def shipped_tests(machines: Machines, say: Say = lambda _: None) -> list[Test]:
    """The same tests on the facts that come with the product."""
    return measured_tests(shipped.folder(), machines, say)
