"""E_S over sizes of node, against the numbers that `osml lab simulator validate` prints."""

from dataclasses import replace

import pytest

from osml.base.failure import InputError
from osml.lab.theory.equivalence import equivalence
from osml.lab.theory.experiments import entropy_grid
from osml.lab.theory.experiments.entropy_grid import AHQ_MIX, GridSetup, pairs_of, run_cell, run_grid
from osml.lab.theory.experiments.published_equivalence import published_beside
from osml.lab.theory.experiments.settled_runs import Settling
from osml.simulator.calibration.validate import mix_entropies
from osml.simulator.mix import parse_mix

SHORT = Settling(10.0, 5.0)
SMALL = GridSetup(cores=(5, 8), ways=(8, 20), policies=("unmanaged", "even"), settling=SHORT)


@pytest.fixture(scope="module")
def grid():
    return run_grid(SMALL)


def test_entropies_are_those_that_validate_finds_for_the_same_node():
    """The facts of the node were fitted with an ARQ without priorities."""
    without = GridSetup(settling=replace(GridSetup().settling, knobs=False))
    cell, known = run_cell(without, "arq", 7, 20), mix_entropies(7, 20, "arq")
    assert (cell.e_lc, cell.e_be, cell.e_s) == pytest.approx((known["e_lc"], known["e_be"], known["e_s"]))
    assert cell.e_s_range == (cell.e_s, cell.e_s)
    assert run_cell(GridSetup(), "arq", 7, 20).e_s < cell.e_s  # with them, as Ah-Q has it


def test_a_grid_has_a_cell_for_each_policy_and_size(grid):
    assert len(grid.cells) == 8
    assert grid.e_s("even").shape == (2, 2)
    assert grid.curve("even").e_s == tuple(grid.e_s("even")[:, 1])
    assert grid.curve("even", 8).e_s == tuple(grid.e_s("even")[:, 0])


def test_fewer_resources_never_help_here(grid):
    for name in ("unmanaged", "even"):
        found = grid.e_s(name)
        assert (found[0] >= found[1] - 0.01).all()  # cores
        assert (found[:, 0] >= found[:, 1] - 0.01).all()  # ways


def test_the_result_does_not_depend_on_the_number_of_processes(grid):
    setup = replace(SMALL, policies=("even",))
    assert run_grid(setup, workers=2).cells == [cell for cell in grid.cells if cell.policy == "even"]


def test_several_seeds_give_a_median_within_a_range():
    cell = run_cell(replace(SMALL, seeds=3), "random", 8, 20)
    assert cell.e_s_range[0] <= cell.e_s <= cell.e_s_range[1]
    assert cell.e_s_range[0] < cell.e_s_range[1]


def test_work_a_second_shows_what_priorities_take_from_jobs():
    by_cycle, by_second = (
        run_cell(replace(SMALL, be_measure=measure), "lc_first", 5, 20).e_be for measure in ("ipc", "work")
    )
    assert by_second > 3 * by_cycle


def test_progress_is_told_to_the_end():
    told = []
    run_grid(replace(SMALL, policies=("even",)), progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_every_policy_is_compared_with_those_before_it():
    assert pairs_of(["a", "b", "c"]) == [("b", "a"), ("c", "a"), ("c", "b")]


def test_the_papers_numbers_stand_beside_ours_only_for_its_own_mix(grid):
    found = {
        row.text: row
        for row in published_beside(run_grid(replace(SMALL, cores=(4, 6, 8), policies=("unmanaged", "arq"))))
    }
    assert found["E_S of unmanaged, 6 cores, 20 ways"].published == 0.53
    assert found["cores of unmanaged at E_S 0.25, between the rows"].published == 6.83
    saved = found["cores that arq saves against unmanaged, 8 ways, E_S 0.3"]
    assert saved.published == 2.0
    assert published_beside(run_grid(replace(SMALL, mix=parse_mix("moses=0.2"), policies=("even",)))) == []
    assert equivalence(grid.curve("even"), grid.curve("even"), 0.3) in (0.0, None)


def test_a_policy_that_fails_is_left_out_with_its_reason(monkeypatch):
    real = entropy_grid.under_policy

    def fails(node, loads, policy, settling):
        if policy == "arq" and node.platform.cpus == 8:
            raise ValueError("lost")
        return real(node, loads, policy, settling)

    monkeypatch.setattr(entropy_grid, "under_policy", fails)
    found = run_grid(replace(SMALL, policies=("even", "arq")))
    assert found.policies_that_ran == ["even"]
    assert [cell.failed for cell in found.cells if cell.policy == "arq"] == [
        None,
        None,
        "ValueError: lost",
        "ValueError: lost",
    ]
    with pytest.raises(InputError, match="policy 'arq' lacks E_S in some cells: ValueError: lost"):
        found.e_s("arq")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cores": ()}, r"cores are \[\], expected ascending"),
        ({"ways": (8, 4)}, r"ways are \[8, 4\], expected ascending"),
        ({"policies": ()}, "no policy, expected at least one"),
        ({"policies": ("best",)}, "policy 'best' is unknown"),
        ({"seeds": 0}, "seeds is 0, expected at least 1"),
    ],
)
def test_wrong_setups_are_refused(change, said):
    with pytest.raises(InputError, match=said):
        replace(SMALL, **change)


def test_sizes_and_mixes_that_can_not_be_are_refused_before_anything_runs():
    with pytest.raises(InputError, match="ways is 21, expected 1 to 20"):
        run_grid(replace(SMALL, ways=(8, 21)))
    with pytest.raises(InputError, match="the mix has no LC service"):
        run_grid(replace(SMALL, mix=parse_mix("be:stream")))
    assert str(AHQ_MIX) == "xapian=0.2,moses=0.2,img-dnn=0.2,be:fluidanimate"
