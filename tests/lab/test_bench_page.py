"""docs/reference/bench.md lists the suites that `osml lab bench list` has, with their numbers of mixes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from osml.cli.main import application
from osml.lab.bench.report.convergence import HEADS, who_converges
from osml.lab.bench.report.figures import figure, legend, own_legend
from osml.lab.bench.results import Results

PAGE = Path(__file__).parents[2] / "docs/reference/bench.md"
ROW = re.compile(r"^\| `(?P<name>[\w-]+)` \| (?P<mixes>[\d +]+) \|", re.MULTILINE)


def test_the_page_has_every_suite_with_its_number_of_mixes() -> None:
    done = CliRunner().invoke(application(), ["lab", "bench", "list", "--json"], catch_exceptions=False)
    listed = {suite["name"]: suite["mixes"] for suite in json.loads(done.stdout)["suites"]}
    written = {
        row["name"]: sum(int(part) for part in row["mixes"].split("+")) for row in ROW.finditer(PAGE.read_text("utf-8"))
    }
    assert written == listed


def row(case: int, seed: int, feasible: bool | None, converged: bool) -> dict[str, object]:
    return {
        "case": case, "seed": seed, "policy": "a", "part": "p", "feasible_oracle": feasible, "load": 1.0,
        "converged": converged, "infeasible_reported": False,
    }  # fmt: skip


def test_a_report_says_which_numbers_are_mixes_and_which_are_runs() -> None:
    said = {0: True, 1: True, 2: False, 3: None}
    rows = [row(case, seed, feasible, case == 0) for case, feasible in said.items() for seed in range(3)]
    section = who_converges(Results(rows, [], {"policies": ["a"]}), figure_11=False)
    text = " ".join(section.text)
    assert "2 mixes are feasible, 1 are infeasible, and 1 are undecided" in text
    assert "With 3 seeds, these are 6, 3 and 3 runs of each policy" in text
    [table] = section.tables
    assert table.rows == [["a", "3 of 12", "3 of 6", "50.0%", "-", "0 of 3"]]
    assert len(HEADS) == len(table.rows[0])


@pytest.mark.parametrize("feasible", [True, None])
def test_without_infeasible_mixes_nobody_is_asked_to_report_one(feasible: bool | None) -> None:
    section = who_converges(Results([row(0, 0, feasible, False)], [], {"policies": ["a"]}), figure_11=False)
    assert section.tables[0].rows[0][-1] == "-"


@pytest.mark.filterwarnings("error")
def test_a_picture_without_data_has_no_legend_and_warns_of_nothing(tmp_path: Path) -> None:
    def draw(made: Any, axes: Any) -> None:
        own_legend(axes[0, 0])
        legend(made, axes[0, 0])

    figure(1, 1, (2, 2), draw)(tmp_path / "empty.png")
    assert (tmp_path / "empty.png").exists()
