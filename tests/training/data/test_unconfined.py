"""Rows of services that nobody has confined yet: what a scheduler sees first; no cells of a surface."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from osml.simulator.closed_loop import ClosedLoop

collecting = pytest.importorskip("osml_training.collect.collect")
simulate = pytest.importorskip("osml_training.collect.simulate")
sweep_module = pytest.importorskip("osml_training.collect.sweep")
surfaces = pytest.importorskip("osml.datasets.surfaces")
unconfined_module = pytest.importorskip("osml_training.collect.unconfined")
Run = sweep_module.Run

Sweeps = Callable[..., Any]
RUN = Run("e5-2697v4", "xapian", 36, 0.5, (("img-dnn", 0.4),), (), (0.5, 0.5), 7)


def test_without_noise_the_first_half_is_the_virtual_node_before_anybody_decides(small_sweep: Sweeps) -> None:
    sweep = small_sweep(noise=False, unconfined=48)
    node = simulate.node_of_run(RUN)
    found = unconfined_module.unconfined(RUN, sweep, node)
    loop = ClosedLoop(node, {"xapian": 0.5, "img-dnn": 0.4}, "unmanaged")
    flows = [loop.step().flows[0] for _ in range(unconfined_module.INTERVALS)]
    p99 = [flow.p99_ms for flow in flows]
    np.testing.assert_allclose(found.own[:12, 3], p99, rtol=1e-6)
    np.testing.assert_allclose(found.own[12:24, 3], p99, rtol=1e-6)  # the same intervals again, other noise if any
    assert (found.others[:24] == (36, 20)).all()


def test_in_the_second_half_neighbours_have_parts_that_fit(small_sweep: Sweeps) -> None:
    found = unconfined_module.unconfined(RUN, small_sweep(unconfined=40), simulate.node_of_run(RUN))
    assert (found.others[:20] == (36, 20)).all()
    assert (found.others[20:] >= 1).all()
    assert (found.others[20:] <= (36, 20)).all()
    again = unconfined_module.unconfined(RUN, small_sweep(unconfined=40), simulate.node_of_run(RUN))
    np.testing.assert_array_equal(found.own, again.own)


def test_they_are_rows_of_the_run_and_no_cells_of_its_surface(small_sweep: Sweeps, tmp_path: Path) -> None:
    plain, more = tmp_path / "plain", tmp_path / "more"
    collecting.collect(plain, small_sweep(colocated=1))
    collecting.collect(more, small_sweep(colocated=1, unconfined=30, rows=small_sweep().rows))
    for file in sorted((more / "traces").rglob("*.parquet")):
        table = pq.read_table(file)
        wide = np.array(table.column("cores")) + np.array(table.column("neighbour_cores")) > 36
        beside = zip(table.column("run").to_pylist(), table.column("neighbours").to_pylist(), strict=True)
        runs = {run for run, neighbours in beside if neighbours}
        assert wide.sum() <= 30 * len(runs)
        same = plain / file.relative_to(more)
        if not same.exists():
            continue
        before = {found.run: found.latency_ms for found in surfaces.surfaces_of(same)}
        after = {found.run: found.latency_ms for found in surfaces.surfaces_of(file)}
        shared = set(before) & set(after)
        assert shared
        for run in shared:
            np.testing.assert_array_equal(before[run], after[run])
