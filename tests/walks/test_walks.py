"""The first hour of three kinds of user: the pages docs/tutorial/first-*.md, read from top to bottom, and obeyed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.kit.pages import ROOT, commands_of
from tests.kit.walk import Step, script_of, walk

TUTORIAL = ROOT / "docs/tutorial"
THIS = "tests/walks/test_walks.py"
ENFORCES = "--record out/first-run/managed.jsonl"


def typed(page: str) -> list[str]:
    return [line for block in commands_of(TUTORIAL / page, THIS) for line in block.commands]


def records(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def tell(name: str, steps: list[Step]) -> None:
    """The times of a walk, for `pytest -s` and the note."""
    total = sum(step.seconds for step in steps)
    print(f"\n{name}: {len(steps)} commands, {total:.0f} s")
    print("\n".join(f"{step.seconds:7.1f} s  {step.command}" for step in steps))


def test_a_platform_engineer_watches_after_twelve_commands_and_enforces_after_three_more() -> None:
    commands = typed("first-run.md")
    [enforcing] = [number for number, line in enumerate(commands) if line.endswith(ENFORCES)]
    [shown] = [number for number, line in enumerate(commands) if line.startswith("osml-agent show")]
    assert enforcing <= 12
    assert shown - enforcing + 1 <= 3


@pytest.mark.parametrize("page", sorted(TUTORIAL.glob("first-*.md")), ids=lambda page: page.stem)
def test_a_page_has_no_command_that_its_walk_leaves_out(page: Path) -> None:
    text = page.read_text("utf-8")
    reasons = text.count("<!-- not run: ")
    assert len(commands_of(page, THIS)) == len(re.findall(r"^```(?:sh|console)", text, re.MULTILINE)) - reasons >= 3


def test_a_command_that_goes_on_is_waited_for() -> None:
    blocks = commands_of(TUTORIAL / "first-run.md", THIS)
    lines = script_of(blocks, Path("/there")).splitlines()
    at = lines.index("osml run serve --store none > beside.log 2>&1 &")
    assert lines[at + 1].startswith("until_ready 127.0.0.1 8080 /readyz || ")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_walk_of_a_platform_engineer(tmp_path: Path) -> None:
    blocks = commands_of(TUTORIAL / "first-run.md", THIS)
    kept = [block._replace(text=block.text.replace("rm -r out/first-run\n", "")) for block in blocks]
    steps, output = walk(kept, tmp_path, 3000)
    tell("platform engineer", steps)
    out = tmp_path / "osml/out/first-run"
    watched, managed = (
        [json.loads(line) for line in (out / f"{name}.jsonl").read_text().splitlines()]
        for name in ("watched", "managed")
    )
    assert len(watched) == len(managed) == 60
    latencies = [line["observation"]["services"][0]["latency"] for line in watched]
    assert sum(one is not None and one["p99_ms"] is not None for one in latencies) >= 50
    statuses = [(line["observation"].get("outcome") or {}).get("status") for line in managed]
    assert "applied" in statuses
    assert "dry run, nothing was applied" in output
    assert "decisions were applied" in output
    assert "restored the settings" in output


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_walk_of_a_researcher(tmp_path: Path) -> None:
    steps, output = walk(commands_of(TUTORIAL / "first-study.md", THIS), tmp_path, 3000)
    tell("researcher", steps)
    assert "targets missed" in output and "proportional" in output
    out = tmp_path / "osml/out/mine"
    summary = json.loads((out / "summary.json").read_text())
    text = json.dumps(summary)
    policies = ("even", "proportional", "parties", "arq", "osml", "staffing")
    assert all(f'"{policy}"' in text for policy in policies)
    table = (out / "report.md").read_text()
    assert all(re.search(rf"^\| {policy} \|", table, re.MULTILINE) for policy in policies)


@pytest.mark.slow
@pytest.mark.timeout(5400)
def test_the_walk_of_a_contributor(tmp_path: Path) -> None:
    steps, output = walk(commands_of(TUTORIAL / "first-contribution.md", THIS), tmp_path, 5000)
    tell("contributor", steps)
    checkout = tmp_path / "osml"
    assert "my-redis" in output
    fetched = json.loads((checkout / "out/fetched/dataset.json").read_text())
    assert fetched["provenance"]["kind"] == "real"
    assert list((checkout / "out/fetched/labels").rglob("*.parquet"))
    [model] = (checkout / "out/models").glob("a2-*/metadata.json")
    about = json.loads(model.read_text())
    assert (about["simulated"], about["parent"], about["services"]) == (False, "a2-masked-any", ["redis"])
