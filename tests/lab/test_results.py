"""The figures of README and docs: over which mixes a number is a mean."""

from typing import Any

import pytest

from osml.lab.results import render
from osml.lab.results.__main__ import described
from osml.lab.results.figures import FIGURES

CORES = next(figure for figure in FIGURES if figure.name == "osml-302-cores")
OTHERS = ("osml-302-converged", "osml-302-missed", "osml-302-entropy")
POLICIES = ("osml", "osml:formula", "parties", "clite", "arq", "staffing:climb", "unmanaged", "oracle")


def rows_of(converged: dict[str, set[int]]) -> list[dict[str, Any]]:
    """Four mixes under all policies; those that are not named converge nowhere."""
    return [
        {"policy": policy, "case": case, "converged": case in converged.get(policy, set()), "cores_used": 10.0 + case}
        for policy in POLICIES
        for case in range(4)
    ]


def headline(cores: dict[str, Any]) -> str:
    other = {"rows": [{"of": policy, "ours": 0.5} for policy in POLICIES]}
    return render.headline({CORES.name: cores, **dict.fromkeys(OTHERS, other)}).splitlines()[-1]


def test_the_number_of_mixes_is_in_the_file_and_in_the_row_of_readme() -> None:
    cores = described(CORES, rows_of({"osml": {0, 1, 3}, "parties": {0, 1, 2}, "clite": {1, 0}}))
    assert cores["mixes"] == 2
    assert {row["ours"] for row in cores["rows"]} == {10.5}
    assert "(only the 2 mixes on which osml, PARTIES and CLITE all converge) | 10.5 |" in headline(cores)
    assert "There are 2 such mixes." in render.page({CORES.name: cores})


def test_a_file_without_the_number_says_which_mixes_it_means() -> None:
    cores = described(CORES, rows_of({name: {0} for name in POLICIES}))
    del cores["mixes"]
    assert "(only mixes on which osml, PARTIES and CLITE all converge) | 10 |" in headline(cores)


@pytest.mark.parametrize("figure", [figure for figure in FIGURES if figure.mixes], ids=lambda figure: figure.name)
def test_no_common_mix_leaves_the_figure_empty(figure: Any) -> None:
    rows = [row | {"ways_used": 1.0} for row in rows_of({"osml": {0}, "parties": {1}, "clite": {2}})]
    cores = described(figure, rows)
    assert cores["mixes"] == 0
    assert {row["ours"] for row in cores["rows"]} == {None}
