"""The design against the full grid, on surfaces of the virtual node (simulated): the same labels out of few cells."""

from __future__ import annotations

from statistics import median

import numpy as np
import pytest

from osml.frontier import label
from osml.simulator import catalogs
from osml.simulator import columns as c
from osml.simulator.surface import surface

design = pytest.importorskip("osml_training.live_sweep.design")

PLATFORM = "e5-2697v4"
COLUMNS = {"p50": c.F_P50_MS, "p95": c.F_P95_MS, "p99": c.F_P99_MS}


def measured(latency_ms, target_ms):
    """What the design measures of a surface, NaN elsewhere."""
    found = np.full(latency_ms.shape, np.nan)
    every = np.ones(latency_ms.shape, np.bool_)
    while (cell := design.next_cell(found, target_ms, every)) is not None:
        assert np.isnan(found[cell])
        found[cell] = latency_ms[cell]
    return found


def same(one, other) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in one._fields)


@pytest.mark.simulation
def test_a_tenth_of_the_cells_gives_the_labels_of_the_full_grid() -> None:
    platform = catalogs.platform(PLATFORM)
    counts = []
    for name in ("img-dnn", "moses", "xapian", "masstree", "memcached", "nginx", "sphinx", "specjbb"):
        service = catalogs.service(name, PLATFORM)
        for load in (0.2, 0.8):
            full = surface(platform, service, load)[:, :, COLUMNS[service.percentile]]
            found = measured(full, service.target_ms)
            assert same(label(found, service.target_ms), label(full, service.target_ms)), (name, load)
            counts.append(int((~np.isnan(found)).sum()))
            quota = full[:, -1:]
            one = measured(quota, service.target_ms)
            assert same(label(one, service.target_ms), label(quota, service.target_ms)), (name, load)
            assert (~np.isnan(one)).sum() <= 10  # of 36
    assert max(counts) <= 90  # of 720
    assert median(counts) <= 50


def test_a_target_that_nothing_meets_costs_one_cell() -> None:
    found = measured(np.full((8, 4), 20.0), 10.0)
    assert (~np.isnan(found)).sum() == 1
    assert found[-1, -1] == 20.0


def test_cells_that_are_not_allowed_are_never_proposed() -> None:
    allowed = np.ones((6, 3), np.bool_)
    allowed[4:, :] = False
    found = np.full((6, 3), np.nan)
    while (cell := design.next_cell(found, 10.0, allowed)) is not None:
        assert allowed[cell]
        found[cell] = 5.0
    assert design.next_cell(found, 10.0, np.zeros((6, 3), np.bool_)) is None


def test_what_was_measured_counts_before_what_other_cells_say() -> None:
    found = np.full((4, 1), np.nan)
    found[1], found[2], found[3] = 5.0, 15.0, 6.0
    meets, misses = design.known(found, 10.0)
    assert meets[:, 0].tolist() == [False, True, False, True]
    assert misses[:, 0].tolist() == [True, False, True, False]


def test_a_full_sweep_measures_every_cell_from_the_largest_on() -> None:
    found = np.full((2, 2), np.nan)
    order = []
    while (cell := design.every_cell(found, 1.0, np.ones((2, 2), np.bool_))) is not None:
        order.append(cell)
        found[cell] = 9.0
    assert order[0] == (1, 1)
    assert sorted(order) == [(0, 0), (0, 1), (1, 0), (1, 1)]
