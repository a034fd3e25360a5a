"""`osml lab dispatch solve`: the contract's keys, and one sentence for each kind of bad input."""

import json
import math
import time

import pytest
from typer.testing import CliRunner

from osml.base.failure import InputError
from osml.cli.main import application
from osml.dispatch.mdp import policy_iteration
from osml.dispatch.mdp.lookup import ThresholdLookup
from osml.dispatch.mdp.parameters import FarmParameters
from osml.dispatch.mdp.policy_iteration import TimeLimitError
from osml.dispatch.mdp.thresholds import ThresholdTable, solve, thresholds_for

GOOD = {"servers": 2, "arrival": 10, "mu-high": 50, "mu-low": 1, "alpha-high": 0.3, "alpha-low": 0.3}


def run(change, *flags):
    arguments = [text for key, value in {**GOOD, **change}.items() for text in (f"--{key}", str(value))]
    return CliRunner().invoke(application(), ["dispatch", "solve", *arguments, *flags])


def test_json_has_the_keys_of_the_contract():
    result = json.loads(run({}, "--json").stdout)
    assert result["thresholds"] == {"N_i": 29, "N_ib": 1, "N_ii": 0}
    assert result["queue_thresholds"] == {"Q_i": 28, "Q_ib": 0, "Q_ii": 0}
    assert result["mean_optimal"] == pytest.approx(4.864033530927635, abs=1e-6)
    assert result["mean_non_idling"] == pytest.approx(5.1474763391718215, abs=1e-6)
    assert result["improvement_pct"] == pytest.approx(5.50644217802829, abs=1e-6)
    assert result["truncation"] > 29
    assert 0 <= result["error_bound"] < 1e-6
    assert result["seconds"] > 0


def test_more_than_two_servers_have_a_table_by_state():
    result = json.loads(run({"servers": 3, "epochs": "anytime"}, "--json").stdout)
    assert set(result["thresholds"]) == {"N(1,0)", "N(2,0)", "N(2,1)", "N(3,0)", "N(3,1)", "N(3,2)"}


def test_people_get_a_table():
    output = run({}).stdout
    assert "29" in output
    assert "stable below 51" in output


def test_rates_that_are_far_apart_end_at_the_limit():
    extreme = {"mu-low": 1e-9, "alpha-high": 1e-6, "alpha-low": 1e-6}
    result = run(extreme, "--limit-s", "1e-9")
    assert isinstance(result.exception, TimeLimitError)
    assert result.exception.exit_code == 1, "nothing is wrong with the input"
    assert "no solution within 1e-09 s: after 1 rounds, thresholds reach" in str(result.exception)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"limit-s": 0}, "--limit-s is 0, expected a number above 0"),
        ({"limit-s": "nan"}, "--limit-s is nan, expected a number above 0"),
        ({"arrival": 51}, "stable only below 51 jobs"),
        ({"arrival": 1000}, "stable only below 51 jobs"),
        ({"mu-low": 60}, "mu_low is 60, above mu_high \\(50\\)"),
        ({"mu-high": 0}, "mu_high is 0.0, expected a finite rate above 0"),
        ({"arrival": -1}, "arrival is -1.0, expected a finite rate above 0"),
        ({"alpha-low": "nan"}, "alpha_low is nan"),
        ({"alpha-high": "inf"}, "alpha_high is inf"),
        ({"servers": 0}, "servers is 0, expected a whole number from 1"),
        ({"servers": 100000}, "expected a whole number from 1 to 1000"),
        ({"servers": 60}, "states a level need at least .* GiB, limit 1 GiB"),
    ],
)
def test_bad_input_is_one_sentence_that_names_the_field(change, words):
    result = run(change)
    assert isinstance(result.exception, InputError)
    assert result.exception.exit_code == 2
    with pytest.raises(InputError, match=words):
        raise result.exception


def test_servers_so_slow_that_the_table_would_not_fit_are_named():
    with pytest.raises(InputError, match="mu_low is so small"):
        solve(FarmParameters(9, 5.0, 1000.0, 1e-9, 1e-9, 1e-9))


def test_the_lookup_of_a_live_dispatcher_is_solved_once_and_asks_back_for_nonsense():
    parameters = FarmParameters(2, 10.04, 50.1, 1.0, 0.3, 0.3)
    table = thresholds_for(parameters.rounded())
    assert thresholds_for(FarmParameters(2, 9.96, 49.9, 1.0, 0.3, 0.3).rounded()) is table
    assert not table.uses(28, 1, 0)
    assert table.uses(29, 1, 0)
    assert table.uses(0, 2, 0)
    assert table.queue(1, 0) == 28
    for interfered, busy in ((0, 0), (1, 1), (3, 0), (1, -1)):
        with pytest.raises(InputError, match="no threshold"):
            table.uses(5, interfered, busy)


def test_tables_that_need_no_solution():
    assert ThresholdTable.non_idling(2).named() == {"N_i": 1, "N_ib": 1, "N_ii": 0}
    assert ThresholdTable.non_idling(2).named_queues() == {"Q_i": 0, "Q_ib": 0, "Q_ii": 0}
    avoid = ThresholdTable.avoid(3)
    assert avoid.queue(1, 0) is None
    assert not avoid.uses(10**9, 3, 0)


def test_a_solution_that_is_not_found_leaves_the_lookup_alive(monkeypatch):
    hard, easy = FarmParameters(2, 7.0, 20.0, 1.0, 0.5, 0.5), FarmParameters(2, 3.0, 20.0, 1.0, 0.5, 0.5)
    monkeypatch.setattr(policy_iteration, "_MAX_ROUNDS", 0)
    lookup = ThresholdLookup()
    lookup.ask(hard)
    wait_for(lambda: lookup.problem is not None)
    assert "did not converge in 0 rounds" in lookup.problem
    assert lookup.table.named() == ThresholdTable.non_idling(2).named()
    monkeypatch.undo()
    lookup.ask(easy)
    wait_for(lambda: lookup.problem is None)
    assert lookup.table.named() == thresholds_for(easy).named()
    lookup.stop()


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_rounding_keeps_what_is_not_a_rate():
    rounded = FarmParameters(3, 12.345, 50.49, 1.049, 0.03333, math.pi, "anytime").rounded()
    assert rounded == FarmParameters(3, 12.0, 50.0, 1.0, 0.033, 3.1, "anytime")
