"""A dry run of the agent on a virtual node: the policy moves on, the node stays, and the record gives advice."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from osml.cli.record_day import summarise
from osml.lab.trials.children import free_port, wait_until
from osml.records import read
from tests.e2e.conftest import Bench


def kernel_files(folder: Path) -> dict[str, str]:
    names = ("cpuset.cpus", "cpu.max", "cpu.weight", "schemata")
    return {str(file): file.read_text() for name in names for file in sorted(folder.rglob(name))}


def test_a_dry_run_supposes_what_it_would_have_applied(bench: Bench, tmp_path: Path) -> None:
    before = kernel_files(bench.directory)
    record = tmp_path / "record.jsonl"
    agent = bench.start_agent("--dry-run", "--ticks", "30", "--record", str(record))
    wait_until(lambda: not agent.running, "the agent", [], 120)
    assert agent.exit_code == 0, agent.log.read_text()
    assert kernel_files(bench.directory) == before
    day = summarise(read(record), record)
    assert (day.dry_run, day.intervals) == (True, 30)
    assert day.decisions == 30
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    for one, other in itertools.pairwise(lines):
        assert other["observation"]["partition"]["regions"] == one["decision"]["partition"]["regions"]
    said = agent.log.read_text().splitlines()
    assert sum("would set" in line for line in said) <= day.changes
    assert any("would set" in line for line in said)


def test_one_look_has_rates_of_cpu_time(bench: Bench, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    agent = bench.start_agent("--dry-run", "--once", "--record", str(record))
    wait_until(lambda: not agent.running, "the agent", [], 60)
    seen = json.loads(record.read_text())["observation"]
    assert seen["seq"] == 1
    assert all(service["counters"]["cpu_usage_cores"] is not None for service in seen["services"])


def test_one_look_without_a_server_says_so(bench: Bench) -> None:
    bench.change_config(server={"url": f"http://127.0.0.1:{free_port()}", "timeout_s": 0.3})
    agent = bench.start_agent("--dry-run", "--once")
    wait_until(lambda: not agent.running, "the agent", [], 60)
    assert agent.exit_code == 1
    assert "no decision: " in agent.log.read_text().splitlines()[-1]


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
