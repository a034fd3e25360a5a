"""The page of measured against predicted, with and without held-out cells."""

from __future__ import annotations

import json
from pathlib import Path

from osml.lab.results import live_validation
from osml.lab.validation.cells import Cell, Measured, Predicted, Range, Row
from osml.lab.validation.score import document


def row(calibrated: bool, p99: float) -> Row:
    """A quiet cell whose p99 was predicted as 10 ms."""
    measured = Measured(
        seconds=4.0, rate=100.0, p50_ms=1.0, p95_ms=5.0, p99_ms=p99, low=p99 * 0.9, high=p99 * 1.1,
        throughput=100.0, samples=400, errors=0, cpu=0.1, company_cpu=0.0, company_throughput=0.0, generator_cpu=0.01,
        lateness_p50_ms=0.01, lateness_p99_ms=0.05, steal=0.0, foreign=0.01, waited_s=0.0, throttled_share=0.0,
        noisy="",
    )  # fmt: skip
    said = Range(10.0, 8.0, 12.5, simulated=14.0, spread=0.3)
    predicted = Predicted(said, said, said, said, said, (1.0, 5.0, 20.0), (1.0, 5.0, 40.0), 1.0)
    return Row(Cell("redis", 1, 0.3, 0.5, "stress", 1.0, "idle"), calibrated, 2.0, measured, predicted)


def made(rows: list[Row]) -> str:
    """The page out of a document that went through a file."""
    return live_validation.page(json.loads(json.dumps(document(rows, {}))))


def test_page_says_that_nothing_is_scored_where_only_calibration_was_measured(tmp_path: Path) -> None:
    text = made([row(True, 9.0)])
    assert "No held-out cell is scored yet" in text
    assert "| redis 1/0.3/0.5 stress idle | calibration | 9 |" in text
    assert live_validation.PICTURE.name not in text
    live_validation.draw(document([row(True, 9.0)], {}), tmp_path / "x.png")
    assert not (tmp_path / "x.png").exists()


def test_page_has_errors_by_group_the_simple_predictors_and_a_picture(tmp_path: Path) -> None:
    rows = [row(False, 9.0), row(False, 30.0)]
    text = made(rows)
    assert "| p99 within 25 %, prediction | 50 % | 80 % |" in text
    assert "| p99 within 25 %, simulation alone | 0 % |" in text
    assert "| p99 within 25 %, nearest cell | 0 % |" in text
    assert "| redis | 2 | 50 % |" in text
    assert "redis/1/0.3/0.5/stress/1/idle/0 | 30 | 10 |" in text
    live_validation.draw(document(rows, {}), tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 1000
