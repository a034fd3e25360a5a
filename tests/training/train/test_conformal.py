"""Margins hold what they promise."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("osml_training")

from osml_training.train.conformal import covered, margins_of, runs_needed, too_few_runs


def _runs(count: int, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Errors that are common to the rows of a run, as labels make them; (points, y, run)."""
    rng = np.random.default_rng(seed)
    run = np.repeat(np.arange(count), rows)
    y = np.repeat(rng.normal(0, 2, count), rows)[:, None].astype(np.float32)
    return np.zeros_like(y), y, run


@pytest.mark.parametrize("coverage", [0.9, 0.95])
def test_coverage_on_new_runs_is_at_least_the_promise_on_average(coverage: float) -> None:
    shares: list[float] = []
    for seed in range(60):
        points, y, run = _runs(100, 20, seed)
        margin = margins_of(points, np.ones_like(y), y, run)[f"{coverage:g}"].two_sided[0]
        tested = _runs(400, 5, 10_000 + seed)
        shares += covered(np.full_like(tested[1], margin), *tested)
    assert coverage - 0.005 <= np.mean(shares) <= coverage + 0.02


def test_long_runs_do_not_outvote_short_ones() -> None:
    """One run of 1000 rows with an error of 9 among 99 runs of one row with an error of 1."""
    run = np.concatenate([np.zeros(1000, np.int64), np.arange(1, 100)])
    y = np.concatenate([np.full(1000, 9.0), np.ones(99)]).astype(np.float32)[:, None]
    found = margins_of(np.zeros_like(y), np.ones_like(y), y, run)
    assert found["0.9"].two_sided == [1.0]


def test_too_few_runs_for_a_coverage_give_the_largest_error() -> None:
    points, y, run = _runs(5, 3, 0)
    assert margins_of(points, np.ones_like(y), y, run)["0.95"].two_sided[0] == pytest.approx(np.abs(y).max())


def test_too_few_runs_are_said_with_the_number_that_is_needed() -> None:
    assert (runs_needed(0.9), runs_needed(0.95)) == (9, 19)
    _, y, run = _runs(4, 3, 0)
    first, second = too_few_runs(y, run)
    assert first == (
        "the margins for 0.9 are made of 4 runs, expected at least 9: "
        "they hold 0.80 of new runs only; measure more loads or neighbours"
    )
    assert "for 0.95 are made of 4 runs, expected at least 19" in second
    _, y, run = _runs(9, 3, 0)
    assert len(too_few_runs(y, run)) == 1
    _, y, run = _runs(19, 3, 0)
    assert too_few_runs(y, run) == []
    y[run > 3] = np.nan
    assert len(too_few_runs(y, run)) == 2


@pytest.mark.parametrize(("runs", "coverage"), [(9, 0.9), (19, 0.95)])
def test_as_many_runs_as_are_needed_hold_the_promise(runs: int, coverage: float) -> None:
    rng = np.random.default_rng(0)
    held = []
    for _ in range(2000):
        y = rng.normal(size=(runs, 1)).astype(np.float32)
        margin = margins_of(np.zeros_like(y), np.ones_like(y), y, np.arange(runs))[f"{coverage:g}"].two_sided[0]
        held.append(abs(rng.normal()) <= margin)
    assert np.mean(held) > coverage - 0.02


def test_the_upper_margin_looks_at_one_side_only() -> None:
    y = np.concatenate([np.full(50, -9.0), np.full(50, 1.0)]).astype(np.float32)[:, None]
    found = margins_of(np.zeros_like(y), np.ones_like(y), y, np.arange(100))
    assert (found["0.9"].upper, found["0.9"].two_sided) == ([1.0], [9.0])


def test_rows_without_a_label_do_not_count() -> None:
    points, y, run = _runs(100, 2, 1)
    holes = y.copy()
    holes[::2] = np.nan
    np.testing.assert_allclose(
        margins_of(points, np.ones_like(y), y, run)["0.9"].two_sided,
        margins_of(points, np.ones_like(y), holes, run)["0.9"].two_sided,
    )


def test_bands_share_the_margin_of_the_one_that_is_answered_worst() -> None:
    points, y, run = _runs(200, 3, 2)
    band = run % 2
    y[band == 1] *= 3
    wide = margins_of(points[band == 1], np.ones_like(y)[band == 1], y[band == 1], run[band == 1])
    both = margins_of(points, np.ones_like(y), y, run, band=band)
    assert both == wide
    assert both["0.95"].two_sided[0] > margins_of(points, np.ones_like(y), y, run)["0.95"].two_sided[0]
