"""`osml look entropy`: the contract's keys, and one sentence for each kind of bad input."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from osml.base.failure import InputError
from osml.cli.entropy import entropy
from osml.cli.main import application

GOOD = {
    "relative_importance": 0.8,
    "lc": [{"name": "xapian", "ideal_ms": 2.0, "real_ms": 20.0, "target_ms": 10.0}],
    "be": [{"name": "stream", "ipc_solo": 2.0, "ipc_real": 1.0}],
}


def run(document, *flags):
    text = document if isinstance(document, str) else json.dumps(document)
    return CliRunner().invoke(application(), ["entropy", "-", *flags], input=text)


def test_json_has_the_keys_of_the_contract():
    result = json.loads(run(GOOD, "--json").stdout)
    assert result["e_lc"] == pytest.approx(0.5)
    assert result["e_be"] == pytest.approx(0.5)
    assert result["e_s"] == pytest.approx(0.5)
    assert set(result["services"][0]) == {"name", "tolerance", "interference", "remaining_tolerance", "intolerable"}


def test_a_closed_standard_input_is_one_sentence(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="standard input is closed, expected the measurements there: name a file"):
        entropy(Path("-"))


def test_table_shows_the_services_and_their_names_are_not_markup():
    document = {**GOOD, "lc": [{**GOOD["lc"][0], "name": "[bold]x"}]}
    assert "[bold]x" in run(document).stdout


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lc": [], "be": []}, "neither `lc` nor `be`"),
        ({"relative_importance": 2}, "relative_importance is 2.0, expected 0 to 1"),
        ({"lc": [{"name": "a", "real_ms": 1, "target_ms": 0}]}, "target_ms of 'a' is 0.0"),
        ({"lc": [{"name": "a", "real_ms": -1, "target_ms": 1}]}, "real_ms of 'a' is -1.0"),
        ({"be": [{"name": "a", "ipc_solo": 0, "ipc_real": 1}]}, "ipc_solo of 'a' is 0.0"),
        ({"lc": GOOD["lc"] * 2}, "two services are called 'xapian'"),
        ({"lc": [{"name": "a", "real_ms": "fast", "target_ms": 1}]}, "Expected `float`, got `str`"),
        ({"ls": []}, "unknown field `ls`"),
    ],
)
def test_bad_input_is_one_sentence(change, words):
    failure = run({**GOOD, **change}).exception
    assert isinstance(failure, InputError)
    assert words in str(failure)
    assert failure.exit_code == 2


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_file_is_called_so(text):
    failure = run(text).exception
    assert isinstance(failure, InputError)
    assert str(failure).startswith("standard input is empty, expected a JSON document")


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '{"lc": NaN}', "\x00"])
def test_text_that_is_no_json_is_refused(text):
    assert isinstance(run(text).exception, InputError)


def test_missing_file_names_the_path(tmp_path):
    failure = CliRunner().invoke(application(), ["entropy", str(tmp_path / "none.json")]).exception
    assert "none.json can't be read: No such file" in str(failure)
