"""Every farm of the reference solutions, where these lie beside the checkout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from osml.dispatch.mdp.parameters import FarmParameters
from osml.dispatch.mdp.thresholds import solve

REFERENCE = Path(__file__).resolve().parents[3] / "shared/facts/mdp.json"

pytestmark = pytest.mark.skipif(not REFERENCE.exists(), reason="the reference solutions are not here")


def _sets() -> list[tuple[dict[str, Any], FarmParameters]]:
    found = json.loads(REFERENCE.read_text("utf-8"))
    sets = [(row, FarmParameters(2, row["lam"], 50, 1, 0.3, 0.3)) for row in found["environment1"]]
    sets += [(row, FarmParameters(2, 10, 50, 1, row["alpha"], row["alpha"])) for row in found["environment3"]]
    for group in found["environment4"].values():
        sets += [
            (row, FarmParameters(2, row["lam"], group["mu_H"], group["mu_L"], row["alpha_H"], group["alpha_L"]))
            for row in group["rows"]
        ]
    both = found["testbed"]["A_both_VMs_interference_prone"]
    return sets + [(row, FarmParameters(2, row["lam"], 125, row["mu_L"], 1 / 30, 1 / 30)) for row in both]


@pytest.mark.parametrize("epochs", ["literal", "anytime"])
def test_all_reference_farms(epochs: str) -> None:
    checked = 0
    for row, farm in _sets():
        if epochs not in row or "mean_opt" not in row[epochs]:
            continue
        solved = solve(FarmParameters(**{**farm.__dict__, "epochs": epochs}))
        assert solved.table.named() == {key: row[epochs][key] for key in ("N_i", "N_ib", "N_ii")}, farm
        assert solved.solution.mean_optimal == pytest.approx(row[epochs]["mean_opt"], rel=1e-6), farm
        assert solved.solution.mean_non_idling == pytest.approx(row["mean_nonidling"], rel=1e-6), farm
        checked += 1
    assert checked > 100


@pytest.mark.parametrize("alpha", ["0.3", "3", "30"])
def test_environment_2(alpha: str) -> None:
    for row in json.loads(REFERENCE.read_text("utf-8"))["environment2"][alpha]:
        solved = solve(FarmParameters(2, row["lam"], 50, 1, float(alpha), float(alpha)))
        assert solved.solution.improvement_pct == pytest.approx(row["improvement_pct"], abs=1e-6)
