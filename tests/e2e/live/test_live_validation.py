"""Measured against predicted in small: two real services, stopped in the middle, and gone on with."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.trial_process import TrialProcess, groups, skip_where_no_trial_can_run, wait_for

pytestmark = pytest.mark.root

KNOBS = (
    "--services",
    "redis,memcached",
    "--cells",
    "2",
    "--saturated",
    "0",
    "--seconds",
    "0.5",
    "--windows",
    "1",
    "--seed",
    "3",
)


@pytest.fixture(autouse=True)
def _able() -> None:
    skip_where_no_trial_can_run()


@pytest.fixture
def started() -> Generator[list[TrialProcess]]:
    """Runs that the test started; whatever happens, they end with it."""
    runs: list[TrialProcess] = []
    yield runs
    for run in runs:
        run.process.kill()
        assert wait_for(lambda run=run: not run.processes(), 20), run.processes()


class Validation(TrialProcess):
    """`osml lab live validate`; no accuracy is asserted, so it does not wait and leaves other tests their CPUs."""

    def __init__(self, out: Path, *arguments: str) -> None:
        command = [
            "lab",
            "live",
            "validate",
            "--out",
            str(out),
            "--patience-s",
            "0",
            "--precedence",
            "1",
            *KNOBS,
            *arguments,
        ]
        super().__init__(out.parent, command)


def lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file that grows."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


@pytest.mark.timeout(600)
def test_killed_run_goes_on_and_every_prediction_is_older_than_its_cell(
    tmp_path: Path, started: list[TrialProcess]
) -> None:
    out = tmp_path / "validation"
    first = Validation(out)
    started.append(first)
    assert wait_for(lambda: len(lines(out / "rows.jsonl")) >= 3, 150), first.log.read_text()
    first.process.kill()
    assert wait_for(lambda: not first.processes(), 20), first.processes()
    before = lines(out / "rows.jsonl")

    second = Validation(out, "--json")
    started.append(second)
    code, output = second.end(400)
    assert code == 0, second.log.read_text()
    document = json.loads(output)
    assert document == json.loads((out / "live-validation.json").read_text())
    assert document["simulated"] is False
    rows = lines(out / "rows.jsonl")
    assert rows[: len(before)] == before, "nothing is measured twice"
    keys = [json.dumps(row["cell"]) for row in rows]
    assert len(set(keys)) == len(keys)
    held_out = [cell for cell in document["cells"] if not cell["calibrated"]]
    assert {cell["service"] for cell in held_out} == {"redis", "memcached"}
    for cell in held_out:
        assert cell["predicted"]["at"] < cell["measured_at"]
        for kind in ("p50_ms", "p95_ms", "p99_ms"):
            said = cell["predicted"][kind]
            assert said["low"] <= said["value"] <= said["high"]
        seen = cell["measured"]
        assert seen["throughput"] > 0
        assert seen["samples"] > 0
        assert set(seen) >= {"low", "high", "steal", "foreign", "lateness_p99_ms", "noisy"}
    once = [cell for cell in held_out if not cell["repeat"]]  # a second measurement is no further cell
    assert 0 < len(once) < len(held_out)
    noisy = sum(bool(cell["measured"]["noisy"]) for cell in once)
    assert document["noisy"] == noisy
    assert document["held_out"] + document["held_out_saturated"] == len(once) - noisy
    assert groups() == []


def test_folder_of_another_run_is_refused_in_one_sentence(tmp_path: Path) -> None:
    out = tmp_path / "validation"
    out.mkdir()
    (out / "settings.json").write_text('{"seed":9,"services":["redis"],"per_service":1,"saturated":0,"seconds":0.5}')
    (out / "rows.jsonl").write_text("{}\n")
    trial = Validation(out)
    code, _ = trial.end(60)
    assert code == 2
    assert "holds a run with other settings" in trial.log.read_text()
