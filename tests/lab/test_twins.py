"""The study of twins: its hidden nodes, its truth and its page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from osml.lab.twins.hidden import hidden, record_of
from osml.lab.twins.page import page
from osml.lab.twins.score_blame import summary as blame_summary
from osml.lab.twins.score_whatif import last_time, summary
from osml.lab.twins.truth import true_outcomes
from osml.twin import edits
from osml.twin.scenes import scenes_of

ROOT = Path(__file__).parents[2]


def test_the_page_is_made_from_the_figures() -> None:
    figures = json.loads((ROOT / "docs/results/twin.json").read_text("utf-8"))
    assert (ROOT / "docs/reference/twin.md").read_text("utf-8") == page(figures)
    assert figures["kind"] == "simulated"


def test_a_hidden_node_writes_the_same_record_again_and_names_tell_nothing() -> None:
    one, two = (record_of(hidden("real", 4, beside_job=True, seconds=30), 30) for _ in range(2))
    assert one.lines == two.lines
    names = {service.name for service in one.lines[0].observation.services}
    assert names == {"service-1", "service-2", "service-3", "job-1"}
    assert one.dry_run


def test_the_truth_without_an_edit_is_what_the_record_shows() -> None:
    one = hidden("nominal", 5, beside_job=True, seconds=60)
    record = record_of(one, 60)
    scenes = scenes_of(record)
    true = true_outcomes(one, record, scenes, [])
    for name in ("service-1", "service-2"):
        seen = [(len(scene.intervals), scene.seen[name]["p99"].log) for scene in scenes]
        mean = sum(n * log for n, log in seen) / sum(n for n, _ in seen)
        assert true[name] == pytest.approx(2.718281828**mean, rel=0.1)
    assert true_outcomes(one, record, scenes, [edits.removed("job-1")])["service-1"] <= true["service-1"]


def test_last_time_knows_changes_of_the_services_own_load_only() -> None:
    one = hidden("nominal", 5, beside_job=True, seconds=60)
    scenes = scenes_of(record_of(one, 60))
    assert last_time(scenes, scenes, "service-1", "p99", ("service-2", 1.3)) == 0.0
    assert last_time(scenes, scenes, "service-1", "p99", None) == 0.0
    assert last_time(scenes, scenes, "service-1", "p99", ("service-1", 1.0)) == 0.0  # each scene is its own nearest
    most, least = (pick(scenes, key=lambda scene: scene.rates["service-1"]) for pick in (max, min))
    found = last_time(scenes, [least], "service-1", "p99", ("service-1", 1e6))
    assert found == most.seen["service-1"]["p99"].log - least.seen["service-1"]["p99"].log


def test_signs_of_last_time_count_where_it_has_an_answer() -> None:
    row = {"seed": 1, "experiment": "x", "true": 0.5, "twin": 0.3, "low": 0.2, "high": 0.6, "last_time": 0.0}
    own = {**row, "last_time": 0.4, "own_load": True}
    found = summary([own, *[{**row, "own_load": False}] * 9])
    assert (found["own_load_signed"], found["sign_right_last_time"], found["sign_right_own_load"]) == (1, 1.0, 1.0)


def test_summaries_count_signs_bounds_and_false_blame() -> None:
    row = {
        "seed": 1,
        "experiment": "x",
        "true": -0.5,
        "twin": -0.3,
        "low": -0.4,
        "high": -0.2,
        "last_time": 0.0,
        "own_load": False,
    }
    found = summary([row, {**row, "twin": 0.1, "low": -0.6, "high": 0.2}, {**row, "true": 0.0, "low": -0.1}])
    assert (found["signed"], found["sign_right"], found["within_bounds"]) == (2, 0.5, pytest.approx(1 / 3))
    case = {
        "kind": "own limit", "victim": "a", "culprit": "a", "resource": "own limit", "twin_culprit": "b",
        "twin_resource": "cache", "certain": True, "simple_culprit": "b",
    }  # fmt: skip
    assert blame_summary([case])["own_limit_blamed_on_neighbour"] == 1
    assert blame_summary([{**case, "certain": False}])["own_limit_blamed_on_neighbour"] == 0
