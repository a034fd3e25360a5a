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
    parts = {"rows": [{"of": f"{p}: {one}", "ours": 0.5} for p in ("alone", "beside a job") for one in POLICIES]}
    found = {CORES.name: cores, "osml-changes-missed": parts, **dict.fromkeys(OTHERS, other)}
    return render.headline(found).splitlines()[-3]


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


def test_figures_by_part_compare_each_policy_with_osml_on_the_mixes_of_the_part() -> None:
    figure = next(figure for figure in FIGURES if figure.name == "osml-changes-missed")
    rows = [
        {"part": part, "policy": policy, "case": case, "seed": 0, "target_missed_share": share + 0.1 * case}
        for part, shares in (("fresh-alone", (0.1, 0.3)), ("fresh-beside-a-job", (0.2, 0.1)))
        for policy, share in zip(("osml", "arq"), shares, strict=True)
        for case in range(3)
    ]
    found = {row["of"]: row for row in described(figure, rows)["rows"]}
    assert list(found) == ["alone: osml", "alone: arq", "beside a job: osml", "beside a job: arq"]
    assert found["alone: osml"]["ours"] == pytest.approx(0.2)
    assert found["alone: arq"]["more"][0] == pytest.approx(0.2)
    assert found["beside a job: arq"]["more"][0] == pytest.approx(-0.1)


def test_readme_shows_no_row_of_a_figure_that_is_not_there() -> None:
    cores = described(CORES, rows_of({name: {0} for name in POLICIES}))
    other = {"rows": [{"of": policy, "ours": 0.5} for policy in POLICIES]}
    assert "loads change" not in render.headline({CORES.name: cores, **dict.fromkeys(OTHERS, other)})
