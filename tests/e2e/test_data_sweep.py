"""A sweep of a real redis on this machine: cells, labels, and a machine that is as before however it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from osml.datasets.validate import validate
from osml.lab.trials.children import Children, free_port, wait_until
from osml.lab.trials.live import machine
from tests.kit.pages import commands_of
from tests.kit.trial_process import TrialProcess, groups, skip_where_no_trial_can_run, wait_for

pytest.importorskip("osml_training")
pytestmark = pytest.mark.root


@pytest.fixture(autouse=True)
def _able() -> None:
    skip_where_no_trial_can_run()


class Sweep(TrialProcess):
    """`osml learn data sweep --trial redis`."""

    def __init__(self, out: Path, *arguments: str) -> None:
        super().__init__(out.parent, ["learn", "data", "sweep", str(out), "--trial", "redis", *arguments, "--json"])
        self.out = out

    def cells(self) -> int:
        journal = self.out / "sweep.jsonl"
        return max(0, journal.read_bytes().count(b"\n") - 1) if journal.exists() else 0


def test_a_dry_run_tells_time_and_risk_and_changes_nothing(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path / "set", "--dry-run")
    code, output = sweep.end(60)
    said = sweep.log.read_text()
    assert code == 0, said
    assert json.loads(output)["plan"]["cells"] > 3
    assert "minutes" in said
    assert "risk: redis misses its target" in said
    assert "and when one of these misses its target: nginx" in said
    assert not (tmp_path / "set").exists()
    assert groups() == []


def test_nothing_begins_where_nobody_can_be_asked(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path / "set")
    code, _ = sweep.end(60)
    assert code != 0
    assert "say --yes to begin" in sweep.log.read_text()
    assert groups() == []


def test_the_first_command_of_the_page_on_contributions_is_this_one() -> None:
    """Beginning without a question, labels and validation are in the walk below; this is what the page adds."""
    page = Path(__file__).parents[2] / "docs/how-to/contribute-data.md"
    [block] = commands_of(page, "tests/e2e/test_data_sweep.py")
    kinds = [" ".join(line.split()[:4]) for line in block.commands]
    assert kinds == [f"osml learn data {name}" for name in ("sweep", "sweep", "label", "validate")]
    options = block.commands[0].removeprefix("osml learn data sweep out/redis ").split()
    assert options == ["--trial", "redis", "--load", "1000,1500,2000,3000", "--dry-run"]


@pytest.mark.slow
def test_a_sweep_into_a_relative_folder_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sweep = Sweep(Path("set"), "--load", "1000", "--samples", "3", "--yes")
    code, output = sweep.end(150)
    assert code == 0, sweep.log.read_text()
    assert json.loads(output)["rows"] > 0, sweep.log.read_text()


@pytest.mark.slow
def test_a_sweep_goes_on_after_ctrl_c_and_after_kill_and_gives_labels(tmp_path: Path) -> None:
    short = ("--load", "1000", "--samples", "3", "--yes")
    first = Sweep(tmp_path / "set", *short)
    assert wait_for(lambda: first.cells() >= 1, 60), first.log.read_text()
    first.process.send_signal(signal.SIGINT)
    assert first.end(30)[0] == 130
    assert "Traceback" not in first.log.read_text()
    assert wait_for(lambda: not first.processes(), 10), first.processes()
    assert groups() == []
    kept = first.cells()

    killed = Sweep(tmp_path / "set", *short)
    assert wait_for(lambda: killed.cells() > kept, 60), killed.log.read_text()
    killed.process.kill()
    killed.process.wait()
    assert wait_for(lambda: not killed.processes(), 15), killed.processes()
    kept = killed.cells()

    last = Sweep(tmp_path / "set", *short)
    code, output = last.end(150)
    assert code == 0, last.log.read_text()
    found = json.loads(output)
    assert found["complete"] is True
    assert sum(found["cells"].values()) > kept
    assert f"cell {kept + 1} of about" in last.log.read_text()
    assert "cell 1 of about" not in last.log.read_text()
    assert groups() == []
    assert not machine.WORK.exists()
    osml = [sys.executable, "-m", "osml", "learn", "data"]
    said = subprocess.run([*osml, "label", str(tmp_path / "set"), "--json"], capture_output=True, check=True).stdout
    assert set(json.loads(said)["outcomes"]) <= {"labelled", "always_met"}
    assert validate(tmp_path / "set").accepted


@pytest.mark.slow
def test_the_walk_of_a_contributor_ends_in_rows_to_train_on(tmp_path: Path, children: Children) -> None:
    """Sweep, label, contribute, list, fetch: commands only, from this machine's redis to examples of Model-A'."""
    tables = pytest.importorskip("osml_training.tables.examples")

    def osml(*arguments: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "osml", "learn", "data", *arguments, "--json"]
        done = subprocess.run(command, capture_output=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr.decode()
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    folder, port = str(tmp_path / "set"), free_port()
    url = f"http://127.0.0.1:{port}"
    shelf = ["--store", "none", "--datasets", str(tmp_path / "shelf")]
    server = children.start("server", ["osml", "serve", "--port", str(port), *shelf])
    assert osml("sweep", folder, "--trial", "redis", "--load", "1000,2000", "--samples", "3", "--yes")["complete"]
    assert osml("label", folder)["outcomes"].get("labelled", 0) >= 1
    wait_until(lambda: httpx.get(f"{url}/readyz", timeout=1).is_success, "the server", [server])
    sent = osml("contribute", folder, "--name", "my-redis", "--server", url)["answer"]["id"]
    assert wait_for(lambda: osml("list", "--server", url)["datasets"] != [], 60)
    listed = osml("list", "--server", url)["datasets"][0]
    assert (listed["id"], listed["content"]["kind"], listed["content"]["services"]) == (sent, "real", ["redis"])
    fetched = tmp_path / "fetched"
    assert osml("fetch", sent[:12], str(fetched), "--server", url)["fetched"]["rows"] > 0
    rows = sum(len(batch.y) for batch in tables.ExampleSource(fetched, "a2").batches(64, epoch=0))
    assert rows > 0
