"""From the agent's own record of a dry run to advice, a twin and a replay, through the commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from osml.lab.trials.children import wait_until
from tests.e2e.conftest import Bench


def osml(folder: Path, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", "from osml.cli.main import main; main()", *arguments, "--json"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=150,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_watching_agent_leads_to_an_answer(bench: Bench, tmp_path: Path) -> None:
    record = tmp_path / "day.jsonl"
    agent = bench.start_agent("--dry-run", "--ticks", "60", "--record", str(record))
    wait_until(lambda: not agent.running, "the agent", [], 150)
    assert agent.exit_code == 0, agent.log.read_text()
    fitted = osml(tmp_path, "twin", "fit", "day.jsonl", "--members", "16")
    assert (fitted["watched"], fitted["intervals"]) == (True, 60)
    names = {json.loads(line)["observation"]["services"][0]["name"] for line in record.read_text().splitlines()}
    advice = osml(tmp_path, "advise", "twin.json")
    assert names <= {service["name"] for service in advice["services"]}
    assert advice["answer"]
    replayed = osml(tmp_path, "replay", "day.jsonl", "--policy", "parties")
    assert len(replayed["intervals"]) == 60
    assert all(row["recorded"] is not None for row in replayed["intervals"])
