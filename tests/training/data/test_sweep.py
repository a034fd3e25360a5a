"""What is swept: reproducible, a small collection is the beginning of a large one, nobody without a core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osml.base.failure import InputError

sweep_module = pytest.importorskip("osml_training.collect.sweep")
simulate_module = pytest.importorskip("osml_training.collect.simulate")

Sweep, parts_of, runs_of, splits = (
    sweep_module.Sweep,
    sweep_module.parts_of,
    sweep_module.runs_of,
    simulate_module.splits,
)


Sweeps = Callable[..., Any]


def test_same_seed_same_runs_and_another_seed_others(small_sweep: Sweeps) -> None:
    one, same = (list(islice(runs_of(small_sweep(), "e5-2630v4", "moses"), 12)) for _ in range(2))
    other = list(islice(runs_of(small_sweep(seed=1), "e5-2630v4", "moses"), 12))
    assert one == same
    assert [run.id for run in one] == [run.id for run in same]
    assert one != other
    assert len({run.id for run in one}) == 12


def test_more_rows_begin_with_the_same_runs(small_sweep: Sweeps) -> None:
    def runs(rows: int) -> list[str]:
        return [run.id for part in parts_of(small_sweep(rows=rows)) if part.service == "moses" for run in part.runs]

    few, many = runs(2000), runs(20000)
    assert len(many) > len(few)
    assert many[: len(few)] == few


def test_runs_alone_go_through_the_whole_grid_first(small_sweep: Sweeps) -> None:
    sweep = small_sweep(threads=(1.0, 0.5), loads=(0.2, 0.5, 0.8), colocated=1)
    alone = [run for run in islice(runs_of(sweep, "e5-2697v4", "moses"), 12) if run.neighbours == 0]
    assert {(run.threads, run.load) for run in alone} == {(t, x) for t in (36, 18) for x in (0.2, 0.5, 0.8)}


def test_neighbours_are_others_and_as_many_as_the_paper_has(small_sweep: Sweeps) -> None:
    sweep = small_sweep(platforms=("e5-2697v4",), neighbours=("moses", "xapian", "img-dnn", "sphinx", "masstree"))
    runs = [run for run in islice(runs_of(sweep, "e5-2697v4", "moses"), 200) if run.neighbours]
    assert {run.neighbours for run in runs} == {1, 2, 3, 4}
    for run in runs:
        names = [name for name, _ in run.beside]
        assert "moses" not in names
        assert len(set(names)) == len(names)
        assert len(run.jobs) <= 1
        assert len(run.shares) == run.neighbours + 1
    assert any(run.jobs for run in runs)
    assert {run.shares[-1] > 0 for run in runs} == {True, False}  # with and without something idle


@given(st.integers(1, 4), st.integers(5, 70), st.lists(st.floats(0, 1), min_size=5, max_size=5))
def test_everybody_has_one_and_nothing_is_given_twice(neighbours: int, total: int, drawn: list[float]) -> None:
    shares = (*(0.1 + x for x in drawn[:neighbours]), drawn[4])
    given_to = splits(total, shares, neighbours)
    own = np.arange(1, total - neighbours + 1)
    assert given_to.shape == (len(own), neighbours)
    assert given_to.min() >= 1
    assert (own + given_to.sum(1) <= total).all()
    if shares[-1] == 0:
        assert (own + given_to.sum(1) == total).all()
    exact = (total - neighbours - own)[:, None] * np.array(shares) / sum(shares)
    assert (np.abs(given_to - 1 - exact[:, :-1]) < 1).all()  # rounded to a neighbouring whole number


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"platforms": ("nowhere",)}, "unknown platform 'nowhere'"),
        ({"services": ("moses", "word")}, "unknown LC service 'word'"),
        ({"jobs": ("none",)}, "unknown BE job 'none'"),
        ({"loads": (0.5, 3.0)}, "loads are [0.5, 3.0], expected shares of the maximum load, above 0 and at most 2"),
        ({"threads": ()}, "threads are []"),
        ({"samples": 0}, "samples is 0, expected 1 to"),
        ({"interval_s": float("nan")}, "interval_s is nan"),
        ({"services": ()}, "no platform or no service, expected at least one of each"),
        ({"neighbours": (), "jobs": ()}, "colocated runs have no neighbours and no jobs, expected some"),
    ],
)
def test_impossible_sweeps_are_refused_with_a_sentence(
    small_sweep: Sweeps, change: dict[str, object], said: str
) -> None:
    with pytest.raises(InputError) as caught:
        replace(small_sweep(), **change).checked()
    assert said in str(caught.value)
