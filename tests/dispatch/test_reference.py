"""The solver against numbers of independent programs: means to 1e-6, thresholds exactly."""

import json
from pathlib import Path

import pytest

from osml.dispatch.mdp.model import Farm, ServerKind
from osml.dispatch.mdp.parameters import FarmParameters
from osml.dispatch.mdp.policy_iteration import solve_farm
from osml.dispatch.mdp.thresholds import solve

DATA = json.loads((Path(__file__).parent / "data/dispatch-two-servers.json").read_text("utf-8"))
ROWS = [dict(zip(DATA["columns"], row, strict=True)) for row in DATA["rows"]]
PRONE = [dict(zip(DATA["prone"]["columns"], row, strict=True)) for row in DATA["prone"]["rows"]]


@pytest.mark.parametrize("epochs", ["literal", "anytime"])
def test_two_servers_as_in_the_independent_solution(epochs):
    assert len(ROWS) > 130
    for row in ROWS:
        rates = (row[key] for key in ("arrival", "mu_high", "mu_low", "alpha_high", "alpha_low"))
        solved = solve(FarmParameters(2, *rates, epochs))
        assert solved.table.named() == {key: row[f"{epochs}_{key}"] for key in ("N_i", "N_ib", "N_ii")}, row
        assert solved.solution.mean_optimal == pytest.approx(row[f"{epochs}_mean_optimal"], rel=1e-7, abs=1e-6), row
        assert solved.solution.mean_non_idling == pytest.approx(row["mean_non_idling"], rel=1e-7, abs=1e-6), row


@pytest.mark.parametrize("row", PRONE, ids=lambda row: f"{row['arrival']}-{row['mu_low']}")
def test_one_of_two_servers_prone_to_interference(row):
    steady = ServerKind(1, (125.0,), (((0.0,),),))
    prone = ServerKind(1, (125.0, row["mu_low"]), (((0.0, 1 / 30), (1 / 30, 0.0)),))
    solution = solve_farm(Farm(row["arrival"], (steady, prone), epochs="anytime"))
    assert solution.mean_optimal == pytest.approx(row["mean_optimal"], rel=1e-7)
    assert solution.mean_non_idling == pytest.approx(row["mean_non_idling"], rel=1e-7)


def erlang_number(servers, offered):
    term, below = 1.0, 0.0
    for n in range(servers):
        below += term
        term *= offered / (n + 1)
    wait = term * servers / (servers - offered)
    wait /= below + wait
    return offered + wait * offered / (servers - offered)


@pytest.mark.parametrize("servers", [1, 2, 5, 12])
@pytest.mark.parametrize("load", [0.05, 0.5, 0.95, 0.9999])
def test_servers_that_interference_does_not_slow_are_an_erlang_queue(servers, load):
    farm = FarmParameters(servers, load * servers * 3.0, 3.0, 3.0, 0.2, 0.7)
    assert solve(farm).solution.mean_optimal == pytest.approx(erlang_number(servers, load * servers), rel=1e-8)
