"""`osml lab simulator surface` and `osml lab simulator oracle` as people and scripts meet them."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from osml.base.failure import InputError, MachineError
from osml.simulator.commands import app
from osml.simulator.commands.heat_map import draw_surface, heat_lines

RUNNER = CliRunner()
SURFACE = ["surface", "--platform", "e5-2630v4", "--service", "img-dnn"]


def run(*arguments: str) -> str:
    result = RUNNER.invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_surface_as_json_has_the_agreed_keys_and_shapes() -> None:
    found: dict[str, Any] = json.loads(run(*SURFACE, "--load", "0.4", "--json"))
    shape = (len(found["cores"]), len(found["ways"]))
    assert shape == (10, 20)
    for key in ("p99_ms", "p95_ms", "mean_ms", "service_time_ms"):
        assert np.array(found[key], float).shape == shape
    assert found["servers"] == [min(4, cores) for cores in found["cores"]]
    assert found["distribution"] == "lognormal"
    assert found["arrival_rate_per_s"] > 0
    assert found["cv2"] > 0
    assert found["simulated"] is True
    rcliff, oaa = found["rcliff"], found["oaa"]
    tails = np.array(found[f"{found['percentile']}_ms"], float)
    for cell in (rcliff, oaa):
        assert tails[cell["cores"] - 1, cell["ways"] - 1] <= found["target_ms"]
    assert {"balanced", "core_dominated", "way_dominated", "slowdown"} == set(found["b_points"][0])


def test_surface_without_a_feasible_cell_says_so() -> None:
    found = json.loads(run(*SURFACE, "--load", "2", "--json"))
    assert found["rcliff"] is None
    assert found["oaa"] is None
    assert "no allocation meets the target" in run(*SURFACE, "--load", "2")


def test_surface_for_people_shows_map_and_labels() -> None:
    shown = run(*SURFACE, "--load", "0.4")
    assert "simulated" in shown
    assert "RCliff:" in shown
    assert "OAA:" in shown
    assert " R" in shown.split("ways\n")[0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--platform", "vax", "--service", "moses", "--load", "0.4"], "unknown platform 'vax', known are"),
        (["--platform", "e5-2697v4", "--service", "x", "--load", "0.4"], "unknown LC service 'x', known are"),
        (["--platform", "e5-2697v4", "--service", "moses", "--load", "nan"], "--load is 'nan'"),
        (["--platform", "e5-2697v4", "--service", "moses", "--load", "-1"], "--load is '-1'"),
        (["--platform", "e5-2697v4", "--service", "moses", "--load", "9"], "above 0 and up to 2"),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], says: str) -> None:
    result = RUNNER.invoke(app, ["surface", *arguments])
    assert isinstance(result.exception, InputError)
    assert says in str(result.exception)


def test_heat_map_marks_both_cells_and_the_unmeasured() -> None:
    lines = [str(line) for line in heat_lines(np.array([[np.nan, 20.0], [4.0, 9.0]]), 10.0, (2, 2), (2, 1))]
    assert lines[1].split() == ["2", "O", "R"]
    assert lines[2].split() == ["1", "?", "+"]


def test_picture_is_a_png_and_an_unwritable_one_is_named(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    surface = np.array([[np.inf, 20.0, 12.0], [30.0, 9.0, 4.0]])
    path = tmp_path / "map.png"
    draw_surface(surface, 10.0, (2, 2), None, "title", "p99 in ms", path)
    assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="can't be written"):
        draw_surface(surface, 10.0, None, None, "title", "p99 in ms", tmp_path / "no" / "map.png")


def test_missing_matplotlib_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MachineError, match="--extra lab"):
        draw_surface(np.ones((2, 2)), 10.0, None, None, "title", "p99 in ms", tmp_path / "map.png")


def test_oracle_as_json_has_the_agreed_keys() -> None:
    mix = "img-dnn=0.2,be:stream"
    found: dict[str, Any] = json.loads(run("oracle", mix, "--platform", "e5-2630v4", "--json"))
    assert found["mix"] == mix
    assert found["feasible"] is all(service["met"] for service in found["services"])
    assert set(found["partition"]) == {"img-dnn", "stream"}
    own, rest = found["partition"]["img-dnn"], found["partition"]["stream"]
    assert (own["cores"] + rest["cores"], own["ways"] + rest["ways"]) == (10, 20)
    assert (found["cores_used"], found["ways_used"]) == (own["cores"], own["ways"])
    assert 0 <= found["e_s"] <= 1
    assert found["seconds"] > 0
    assert found["nodes_evaluated"] > 0


def test_oracle_says_what_is_missing() -> None:
    shown = run("oracle", "img-dnn=1.9,moses=1.9", "--platform", "e5-2630v4")
    assert "infeasible" in shown
    assert "misses its p95" in shown or "are needed" in shown
