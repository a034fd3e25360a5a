"""Labels of hand-made surfaces with known answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osml.base.failure import InputError
from osml.frontier import (
    KINDS,
    b_points,
    cliff_kind,
    label,
    optimal_area,
    reference,
    resource_cliff,
    steepest_losses,
)

TARGET = 10.0
GOOD, BAD = 5.0, 5000.0


def where(good: np.ndarray) -> np.ndarray:
    """5 ms in good cells, 5 s elsewhere."""
    return np.where(good, GOOD, BAD)


def grid(n_cores: int = 8, n_ways: int = 6) -> tuple[np.ndarray, np.ndarray]:
    return np.meshgrid(np.arange(1, n_cores + 1), np.arange(1, n_ways + 1), indexing="ij")


def kind(surface: np.ndarray) -> str:
    return KINDS[int(cliff_kind(surface, TARGET))]


def cost(cores: float, ways: float, platform: tuple[int, int]) -> float:
    """Its share of the platform's cores plus its share of the ways, 0 to 2."""
    return cores / platform[0] + ways / platform[1]


def test_core_only_cliff() -> None:
    cores, _ = grid()
    surface = where(cores >= 4)
    assert resource_cliff(surface, TARGET).tolist() == [4, 1]
    assert optimal_area(surface, TARGET).tolist() == [5, 1]
    assert kind(surface) == "cores"


def test_way_only_cliff() -> None:
    _, ways = grid()
    surface = where(ways >= 3)
    assert resource_cliff(surface, TARGET).tolist() == [1, 3]
    assert optimal_area(surface, TARGET).tolist() == [1, 4]
    assert kind(surface) == "ways"


def test_cliff_of_both() -> None:
    cores, ways = grid()
    surface = where((cores >= 3) & (ways >= 2))
    assert resource_cliff(surface, TARGET).tolist() == [3, 2]
    assert optimal_area(surface, TARGET).tolist() == [4, 3]
    assert kind(surface) == "both"


def test_cliff_only_when_both_are_lost_together_counts_as_both() -> None:
    surface = np.full((3, 3), GOOD)
    surface[0, 0] = BAD
    assert resource_cliff(surface, TARGET).tolist() == [1, 2]  # loses a way, falls
    surface = where(np.array([[False, True], [True, True]]))
    assert KINDS[int(cliff_kind(surface, TARGET, np.array([2, 2])))] == "both"
    assert KINDS[int(cliff_kind(surface, TARGET, np.array([1, 2])))] == "ways"


def test_infeasible_everywhere_has_no_labels() -> None:
    labels = label(np.full((8, 6), BAD), TARGET)
    assert labels.rcliff.tolist() == [0, 0]
    assert labels.oaa.tolist() == [0, 0]
    assert KINDS[int(labels.kind)] == "none"
    assert not labels.b_points.any()


def test_feasible_everywhere_takes_the_cheapest_cell_and_has_no_cliff() -> None:
    labels = label(np.full((8, 6), GOOD), TARGET)
    assert labels.rcliff.tolist() == [1, 1]
    assert labels.oaa.tolist() == [1, 1]
    assert KINDS[int(labels.kind)] == "none"
    assert not labels.b_points.any()  # the last core and the last way are never taken


def test_gentle_slope_has_an_rcliff_but_no_cliff() -> None:
    cores, _ = grid()
    surface = 10.5 - 0.125 * cores  # within the target from 4 cores on
    assert resource_cliff(surface, TARGET).tolist() == [4, 1]
    assert kind(surface) == "none"


def test_feasible_only_in_the_last_corner_has_no_optimal_area() -> None:
    surface = np.full((4, 3), BAD)
    surface[3, 2] = GOOD
    assert resource_cliff(surface, TARGET).tolist() == [4, 3]
    assert optimal_area(surface, TARGET).tolist() == [0, 0]


def test_the_steepest_part_of_the_boundary_wins_over_cheaper_cells() -> None:
    cores, ways = grid(8, 8)
    surface = np.where(ways >= 5, np.where(cores >= 2, 9.0, 1e6), np.where(cores >= 5, 9.0, 11.0))
    # Cheapest on the boundary is (2, 5), cost 7; (5, 1), cost 6, only slides to 11 ms.
    assert resource_cliff(surface, TARGET).tolist() == [2, 5]


def test_of_equally_bad_falls_the_cheapest_and_then_the_one_with_fewer_cores_wins() -> None:
    cores, ways = grid(6, 6)
    surface = where(cores + ways >= 6)
    assert resource_cliff(surface, TARGET).tolist() == [1, 5]
    assert resource_cliff(surface, TARGET, platform=(12, 6)).tolist() == [5, 1]  # ways are dearer there


def test_what_was_not_measured_is_neither_feasible_nor_safe() -> None:
    cores, _ = grid()
    surface = where(cores >= 3)
    surface[2, :] = np.nan  # 3 cores
    assert optimal_area(surface, TARGET).tolist() == [5, 1]
    assert resource_cliff(surface, TARGET).tolist() == [4, 1]


def test_a_service_that_never_answers_counts_as_infinite() -> None:
    cores, _ = grid()
    labels = label(np.where(cores >= 4, GOOD, np.inf), TARGET)
    assert labels.rcliff.tolist() == [4, 1]
    assert KINDS[int(labels.kind)] == "cores"


def test_latency_of_just_the_target_is_feasible() -> None:
    assert optimal_area(np.full((2, 2), TARGET), TARGET).tolist() == [1, 1]
    rcliff, _ = reference(np.full((2, 2), TARGET), TARGET)
    assert rcliff.tolist() == [2, 2]  # the published rule wants less than the target


def test_b_points_take_what_the_slowdown_allows_in_each_direction() -> None:
    surface = np.full((4, 4), BAD)
    surface[2:, 2:] = 4.0  # (3, 3) and more
    surface[1, 2:] = 4.15  # one core less: 3.75 % slower
    surface[0, 2:] = 4.5  # 12.5 %
    surface[2:, 1] = 4.3  # one way less: 7.5 %
    surface[1, 1] = 4.5  # both: 12.5 %
    oaa = np.array([3, 3])
    points = b_points(surface, oaa, (0.05, 0.10, 0.15))
    assert points[0].tolist() == [[0, 0], [1, 0], [0, 0]]  # balanced, core-dominated, way-dominated
    assert points[1].tolist() == [[0, 0], [1, 0], [0, 1]]
    assert points[2].tolist() == [[1, 1], [2, 0], [1, 1]]


def test_b_points_do_not_jump_over_a_bad_allocation_in_between() -> None:
    surface = np.full((5, 3), 4.0)
    surface[2, :] = BAD  # a ridge at 3 cores
    points = b_points(surface, np.array([5, 3]), (0.05,))
    assert points[0, 1].tolist() == [1, 2]
    surface[2, :] = np.nan
    assert b_points(surface, np.array([5, 3]), (0.05,))[0, 1].tolist() == [1, 2]


def test_more_slowdown_never_allows_less() -> None:
    rng = np.random.default_rng(3)
    surface = np.sort(np.sort(rng.uniform(4, 8, (12, 9)), 0)[::-1], 1)[:, ::-1]
    points = b_points(surface, optimal_area(surface, TARGET), (0.0, 0.05, 0.1, 0.2, 0.4))
    assert (np.diff(points[:, 1, 0]) >= 0).all()
    assert (np.diff(points[:, 2, 1]) >= 0).all()


def test_published_rule_prefers_more_cores_and_adds_two_of_each() -> None:
    cores, ways = grid(6, 6)
    rcliff, oaa = reference(where(cores + ways >= 6), TARGET)
    assert rcliff.tolist() == [5, 1]
    assert oaa.tolist() == [7, 3]
    rcliff, oaa = reference(np.full((6, 6), BAD), TARGET)
    assert (rcliff.tolist(), oaa.tolist()) == ([6, 6], [8, 8])


def test_steepest_losses_are_those_of_the_whole_surface() -> None:
    surface = np.array([[4644.0, 34.0], [40.0, 5.0]])
    cores, ways = steepest_losses(surface)
    assert cores == pytest.approx(4644 / 40)
    assert ways == pytest.approx(4644 / 34)
    assert np.isnan(steepest_losses(np.array([[3.0, 2.0]]))[0])


def test_many_surfaces_get_the_labels_of_each() -> None:
    rng = np.random.default_rng(7)
    surfaces = rng.uniform(1, 30, (3, 4, 9, 7))
    targets = rng.uniform(5, 20, (3, 4))
    many = label(surfaces, targets)
    for index in np.ndindex(3, 4):
        one = label(surfaces[index], targets[index])
        for got, wanted in zip(many, one, strict=True):
            assert np.array_equal(got[index], wanted)
    rcliffs, _ = reference(surfaces, targets)
    assert rcliffs[1, 2].tolist() == reference(surfaces[1, 2], targets[1, 2])[0].tolist()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: label(np.zeros(3), 1.0), "latency_ms has shape (3,)"),
        (lambda: label(np.full((2, 2), -1.0), 1.0), "latency_ms has the value -1"),
        (lambda: label(np.ones((2, 2)), float("nan")), "target_ms is nan"),
        (lambda: label(np.ones((2, 2)), 0.0), "target_ms is 0.0"),
        (lambda: label(np.ones((3, 2, 2)), np.ones(2)), "target_ms has shape (2,)"),
        (lambda: label(np.ones((2, 2)), 1.0, platform=(1, 2)), "platform is (1, 2)"),
        (lambda: label(np.ones((2, 2)), 1.0, slowdowns=(-0.1,)), "slowdowns are [-0.1]"),
        (lambda: b_points(np.ones((2, 2)), np.array([1])), "oaa has shape (1,)"),
    ],
)
def test_bad_input_is_named(call: object, says: str) -> None:
    with pytest.raises(InputError) as caught:
        call()  # type: ignore[operator]
    assert says in str(caught.value)


@st.composite
def falling(draw: st.DrawFn) -> np.ndarray:
    """A surface on which more of anything never hurts."""
    shape = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    seed = draw(st.integers(0, 2**31))
    steps = np.random.default_rng(seed).exponential(0.4, shape)
    return 2.0 * np.exp(np.cumsum(np.cumsum(steps[::-1, ::-1], 0), 1)[::-1, ::-1])


@settings(deadline=None, max_examples=200)
@given(falling(), st.floats(2.5, 2000))
def test_labels_hold_what_they_promise(surface: np.ndarray, target: float) -> None:
    labels, shape = label(surface, target), surface.shape
    feasible = surface <= target
    rcliff, oaa = tuple(labels.rcliff - 1), tuple(labels.oaa - 1)
    assert (labels.rcliff[0] == 0) == (not feasible.any())
    losses = ((1, 0), (0, 1), (1, 1))

    def after(cell: tuple[int, int]) -> list[float]:
        cells = [(cell[0] - c, cell[1] - w) for c, w in losses]
        return [surface[c] for c in cells if min(c) >= 0]

    safe = [c for c in np.ndindex(shape) if feasible[c] and all(x <= target for x in after(c))]
    if not safe:
        assert labels.oaa[0] == 0
        return
    price = [cost(c + 1, w + 1, shape) for c, w in safe]
    assert oaa in safe
    assert cost(*labels.oaa, shape) == pytest.approx(min(price))
    assert feasible[rcliff]
    if not all(x <= target for x in after(rcliff)):
        assert cost(*labels.rcliff, shape) > 0
        assert oaa != rcliff
        assert not (oaa[0] <= rcliff[0] and oaa[1] <= rcliff[1])  # OAA is never inside of what RCliff has
    for taken in labels.b_points.reshape(-1, 2):
        assert (labels.oaa - taken >= 1).all()
    for k, slowdown in enumerate((0.05, 0.10, 0.15, 0.20)):
        for taken in labels.b_points[k]:
            left = tuple(labels.oaa - taken - 1)
            assert surface[left] <= (1 + slowdown) * surface[oaa] * (1 + 1e-12)
