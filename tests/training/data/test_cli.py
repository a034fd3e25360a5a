"""`osml learn data`: JSON that scripts hang on, sentences for people, exit codes."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from osml.base.failure import Failure, InputError
from osml.base.whole_file import whole_file
from osml.datasets.label import label_file

data = pytest.importorskip("osml_training.cli.data.app")
SMALL = [
    "--platform", "e5-2630v4", "--service", "moses", "--neighbour", "xapian", "--rows", "600", "--samples", "2",
    "--workers", "1", "--load", "0.3,0.6", "--threads", "1",
]  # fmt: skip


def run(*arguments: str, code: int = 0) -> Any:
    found = CliRunner().invoke(data.app, list(arguments))
    if isinstance(found.exception, Failure):
        assert found.exception.exit_code == code
        return str(found.exception)
    assert found.exit_code == code, found.output
    return json.loads(found.stdout) if "--json" in arguments else found.stdout


def test_from_collection_to_package(tmp_path: Path) -> None:
    folder = str(tmp_path / "set")
    collected = run("collect", folder, *SMALL, "--json")
    assert collected["simulated"] is True
    assert collected["rows"] >= 600
    assert collected["rows_asked"] == 600
    assert collected["rows_resumed"] == 0
    assert run("collect", folder, *SMALL, "--json")["rows_resumed"] == collected["rows"]
    labelled = run("label", folder, "--json")
    assert labelled["runs"] == sum(labelled["outcomes"].values()) > 0
    again = run("label", folder, "--labelling", "reference", "--against", str(tmp_path / "set" / "labels"), "--json")
    assert again["labels"] == "labels-reference"
    assert {found["label"] for found in again["against"]["labels_of"]} >= {"oaa_cores", "outcome"}
    checked = run("validate", folder, "--json")
    assert set(checked) >= {"findings", "rows", "accepted"}
    assert checked["accepted"] is True
    packed = run("contribute", folder, "--to", str(tmp_path / "out"), "--name", "small", "--json")
    assert Path(packed["package"]).exists()
    assert packed["rows"] == collected["rows"]


def test_few_rows_are_still_whole_runs_and_that_is_said(tmp_path: Path) -> None:
    assert "more than the 10 rows of --rows" in run("collect", str(tmp_path / "few"), *SMALL, "--rows", "10")
    assert "rows of --rows" not in run("collect", str(tmp_path / "set"), *SMALL, "--rows", "5000")


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="space") as full, whole_file(tmp_path / "part.parquet"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert full.value.filename == str(tmp_path / "part.parquet")


def test_findings_have_the_contracts_keys_and_exit_code_1(dataset: Path, traces: Path) -> None:
    traces.write_bytes(b"PAR1")
    found = run("validate", str(dataset), "--json", code=1)
    assert set(found["findings"][0]) == {"severity", "file", "row_group", "column", "message"}
    assert found["accepted"] is False
    assert "NOT accepted" in run("validate", str(dataset), code=1)


def test_a_column_with_a_unit_in_brackets_is_shown(
    dataset: Path, traces: Path, rewrite: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(columns: dict[str, Any]) -> None:
        columns.update(dict.fromkeys(("latency[ms]", "rate[/s]", "a\x1b[2J"), columns["ipc"]))

    rewrite(traces, spoil)
    monkeypatch.setenv("COLUMNS", "200")
    shown = run("validate", str(dataset), code=1)
    assert all(name in shown for name in ("latency[ms]", "rate[/s]", "a?[2J"))


def test_labels_never_replace_the_traces(dataset: Path, traces: Path) -> None:
    before = traces.read_bytes()
    assert "--into is 'traces'" in run("label", str(dataset), "--into", "traces", code=2)
    with pytest.raises(InputError, match="the folder of labels is 'traces', expected another one"):
        label_file(dataset, traces, labels="traces")
    assert traces.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["collect", "x", "--platform", "nowhere"], "unknown platform 'nowhere', known are"),
        (["collect", "x", "--load", "a"], "--load is 'a', expected numbers"),
        (["collect", "x", "--service", "moses,moses"], "expected different names"),
        (["collect", "x", "--workers", "0"], "--workers is 0"),
        (["label", "nowhere"], "'nowhere' is not a folder"),
        (["label", "nowhere", "--slowdown", "x"], "--slowdown is 'x'"),
        (["label", "nowhere", "--into", "../x"], "--into is '../x'"),
        (["label", "nowhere", "--into", "traces"], "--into is 'traces', expected a name that begins with 'labels'"),
        (["validate", "nowhere"], "neither a folder nor a file"),
        (["contribute", "nowhere", "--to", "a", "--server", "b"], "not both"),
        (["import-osml", "nowhere", "out", "--platform", "word"], "unknown platform 'word'"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_2(arguments: list[str], said: str) -> None:
    assert said in run(*arguments, code=2)
