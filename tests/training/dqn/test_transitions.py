"""Model-C's tuples: every pair of one run within reach, once; rewards as the environment pays them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("osml_training")

from osml_training.dqn import transitions as t
from osml_training.dqn.rewards import MOVES, Reward, costs_of, entropy_gain, intolerable, latency_gain
from osml_training.dqn.state import STATE

from osml.base.failure import InputError
from osml.datasets.description import described
from osml.datasets.store import open_parquet, trace_files
from osml.entropy import intolerable as intolerable_of_one
from osml.simulator.colocation.rewards import entropy_rewards, latency_rewards


@pytest.fixture(scope="module")
def found(made: Path) -> t.Transitions:
    return t.transitions_of([made])


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 7)), min_size=1, max_size=60))
def test_actions_lead_to_the_cell_that_they_say_or_nowhere(cells: list[tuple[int, int]]) -> None:
    rows = np.array(cells)
    following = t.next_rows(rows)
    for row in range(len(cells)):
        for action, (cores, ways) in enumerate(MOVES.tolist()):
            wanted = (cells[row][0] + cores, cells[row][1] + ways)
            if wanted in cells:
                assert tuple(rows[following[row, action]]) == wanted
            else:
                assert following[row, action] == t.NONE


def test_of_two_samples_the_other_one_follows_so_that_the_noise_is_not_the_same() -> None:
    following = t.next_rows(np.array([[1, 1], [1, 1], [2, 1], [2, 1]]))
    stay, more = 24, 31
    assert MOVES[more].tolist() == [1, 0]
    assert following[:, stay].tolist() == [1, 0, 3, 2]
    assert following[:2, more].tolist() == [3, 2]


def test_every_row_of_every_run_is_a_status_and_pairs_stay_within_their_run(found: t.Transitions, made: Path) -> None:
    rows = sum(open_parquet(file).metadata.num_rows for file in trace_files(made))
    assert len(found.states) == rows
    cells = np.stack([found.column("cores"), found.column("ways")], axis=1)
    before, action = np.nonzero(found.next >= 0)
    after = found.next[before, action]
    assert (found.run[before] == found.run[after]).all()
    np.testing.assert_array_equal(cells[after] - cells[before], MOVES[action])
    assert found.tuples == len(before)
    # All pairs of cells within reach, counted another way: a full grid of C x W cells, two samples each.
    expected = 0
    for run in range(len(found.runs)):
        shape = cells[found.run == run].max(axis=0).astype(int)
        expected += 2 * int(np.prod([sum(max(0, n - abs(k)) for k in range(-3, 4)) for n in shape]))
    assert found.tuples == expected


def test_rows_of_services_that_nobody_has_confined_are_no_statuses(
    tmp_path: Path, small_sweep: Callable[..., Any]
) -> None:
    from osml_training.collect.collect import collect

    settings = {"services": ("moses",), "rows": 1500, "samples": 1}
    plain = collect(tmp_path / "plain", small_sweep(**settings))
    more = collect(tmp_path / "more", small_sweep(**settings, unconfined=12))
    assert more > plain
    first, second = (t.transitions_of([tmp_path / name]) for name in ("plain", "more"))
    same = {key.run for key in first.runs} & {key.run for key in second.runs}
    assert any(key.neighbours for key in first.runs if key.run in same)
    for run in same:
        ours, theirs = ([key.run for key in found.runs].index(run) for found in (first, second))
        np.testing.assert_array_equal(first.states[first.run == ours], second.states[second.run == theirs])


def test_entropy_of_a_status_is_its_own(found: t.Transitions, made: Path) -> None:
    latencies, targets = [], []
    for file in trace_files(made):
        table = pq.ParquetFile(file).read()
        assert set(table.column("percentile").to_pylist()) <= {"p95", "p99"}
        for p95, p99, kind, target in zip(
            *(table.column(name).to_pylist() for name in ("p95_ms", "p99_ms", "percentile", "target_ms")), strict=True
        ):
            latencies.append(p99 if kind == "p99" else p95)
            targets.append(target)
    wanted = [intolerable_of_one(x, y) for x, y in zip(latencies, targets, strict=True)]
    np.testing.assert_allclose(np.sort(found.q_i), np.sort(wanted), atol=1e-6)
    assert np.isnan(intolerable(np.array([np.nan], np.float32)))[0]


def test_rewards_are_those_of_the_environment(found: t.Transitions) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(len(found.states), size=500)
    action = rng.integers(49, size=500)
    there = found.next[rows, action] >= 0
    rows, action = rows[there], action[there]
    after, taken = found.next[rows, action], MOVES[action][:, None, :]
    cpus, ways = found.platform
    ours = t.rewards_of(found, rows, action, Reward(price=0.2))
    q_i = found.q_i.astype(np.float64)
    theirs = entropy_rewards(q_i[rows], q_i[after], taken, cpus, ways, 0.2)[:, 0]
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    ours = t.rewards_of(found, rows, action, Reward("latency"))
    mean = found.column("mean_ms").astype(np.float64)
    theirs = latency_rewards(mean[rows][:, None], mean[after][:, None], taken)[:, 0]
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_fall_costs_and_coming_back_does_not_pay_for_it() -> None:
    q_i = np.array([0.0, 0.25], np.float32)
    down, up = entropy_gain(q_i[:1], q_i[1:], 1.0), entropy_gain(q_i[1:], q_i[:1], 1.0)
    assert (down[0], up[0]) == (-1.25, 0.25)
    assert entropy_gain(q_i[1:], q_i[1:], 1.0)[0] == 0
    costs = costs_of(36, 20, Reward(price=0.1, move=0.01))
    assert costs[24] == 0
    assert costs[48] == pytest.approx(0.05 * (3 / 36 + 3 / 20) + 0.01)
    assert costs_of(36, 20, Reward("latency"))[48] == 6
    assert latency_gain(np.float32([3.0]), np.float32([1.0]))[0] == pytest.approx(np.log(3))


def test_a_file_gives_back_what_was_written(found: t.Transitions, made: Path, tmp_path: Path) -> None:
    about = described(open_parquet(trace_files(made)[0]).schema_arrow.metadata, "x")
    file = tmp_path / "c.parquet"
    t.write_transitions(file, found, about)
    back = t.read_transitions(file)
    for ours, theirs in zip(found[:4], back[:4], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert back[4:] == found[4:]
    some = t.read_transitions(file, lambda key: key.run == found.runs[1].run)
    assert [key.run for key in some.runs] == [found.runs[1].run]
    mine = found.run == 1
    np.testing.assert_array_equal(some.states, found.states[mine])
    there = some.next >= 0
    np.testing.assert_array_equal(there, found.next[mine] >= 0)
    np.testing.assert_array_equal(some.states[some.next[there]], found.states[found.next[mine][there]])


def test_a_file_that_points_beyond_itself_is_refused(
    found: t.Transitions, made: Path, tmp_path: Path, rewrite: Any
) -> None:
    about = described(open_parquet(trace_files(made)[0]).schema_arrow.metadata, "x")
    few = t.of_runs(found, np.arange(len(found.runs)) == 0)
    file = tmp_path / "c.parquet"
    t.write_transitions(file, few._replace(next=few.next + len(few.next)), about)
    with pytest.raises(InputError, match="column 'next': expected 49 rows of this file"):
        t.read_transitions(file)
    with pytest.raises(InputError, match="expected 'osml/transitions/v1'"):
        t.read_transitions(trace_files(made)[0])


def test_fewer_statuses_are_whole_runs_and_the_same_ones_again(found: t.Transitions, made: Path) -> None:
    some = t.transitions_of([made], statuses=len(found.states) // 2)
    assert 0 < len(some.runs) < len(found.runs)
    assert len(some.states) <= len(found.states) // 2
    again = t.transitions_of([made], statuses=len(found.states) // 2)
    assert again.runs == some.runs
    assert t.transitions_of([made], statuses=len(found.states) // 2, seed=5).runs != some.runs
    with pytest.raises(InputError, match="no run of the data sets is left; collect more runs, or hold out fewer"):
        t.transitions_of([made], lambda key: False)


def test_sampled_tuples_are_tuples_of_the_runs(found: t.Transitions) -> None:
    tuples = t.sample_tuples(found, 300, Reward(), np.random.default_rng(1))
    assert len(tuples.before) == 300
    cells = [STATE.index("cores"), STATE.index("ways")]
    np.testing.assert_array_equal(tuples.after[:, cells] - tuples.before[:, cells], MOVES[tuples.action])
    assert (tuples.legal_after[:, 24] == 1).all()
    again = t.sample_tuples(found, 300, Reward(), np.random.default_rng(1))
    np.testing.assert_array_equal(tuples.reward, again.reward)
