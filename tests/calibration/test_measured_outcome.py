"""What a test says: errors of three kinds, and JSON that every reader can read."""

import json
import math

import pytest

from osml.simulator.calibration.measured import outcome
from osml.simulator.calibration.measured.outcome import Pair, Rule, document, error


@pytest.mark.parametrize(
    ("kind", "measured", "ours", "expected"),
    [
        ("relative", 2.0, 2.5, 0.25),
        ("factor", 2.0, 1.0, 2.0),
        ("factor", 2.0, 4.0, 2.0),
        ("distance", 90.0, 100.0, 10.0),
        ("factor", 2.0, 0.0, math.inf),
        ("relative", 0.0, 1.0, math.inf),
        ("distance", 1.0, math.nan, math.inf),
    ],
)
def test_errors(kind, measured, ours, expected):
    assert error(kind, measured, ours) == pytest.approx(expected)


def test_a_document_counts_and_ranks_and_shows_the_simplest_rules():
    pairs = [Pair(f"k{i}", 100.0, 100.0 + i, 100.0) for i in range(11)]
    rule = Rule("half", [50.0, *[None] * 10])
    found = document(outcome.Test("name", "us", "relative", 0.05, pairs, "same", 0.8, "why", (rule,)))
    assert (found["n"], found["within"], found["aim"]) == (11, 0.05, 0.8)
    assert found["median_error"] == pytest.approx(0.05)
    assert found["p90_error"] == pytest.approx(0.09)
    assert found["share_within"] == pytest.approx(6 / 11)
    assert [row["key"] for row in found["worst"]][:2] == ["k10", "k9"]
    assert len(found["worst"]) == 10
    assert found["simplest"]["name"] == "same"
    assert found["rules"][0] | {"p90_error": 0} == {
        "name": "half", "n": 1, "median_error": 0.5, "p90_error": 0, "share_within": 0.0,
    }  # fmt: skip


@pytest.mark.parametrize("ours", [math.nan, math.inf, -math.inf, 0.0])
def test_what_is_no_number_becomes_null_and_counts_as_a_miss(ours):
    found = document(outcome.Test("n", "u", "factor", 1.3, [Pair("a", 1.0, ours, math.nan)], "s"))
    assert found["share_within"] == 0.0
    assert found["median_error"] is None
    json.loads(json.dumps(found, allow_nan=False))


def test_no_pairs_are_no_numbers():
    found = document(outcome.Test("n", "u", "factor", 1.3, []))
    assert (found["n"], found["median_error"], found["share_within"], found["worst"]) == (0, None, None, [])
