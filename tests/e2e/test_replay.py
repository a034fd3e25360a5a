"""What the agent recorded, applied once more by `osml-agent replay` on a virtual node."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from osml.lab.trials.children import Child, Children, wait_until
from tests.e2e.conftest import make_bench
from tests.kit.kernel_state import kernel_state, steady_state

Line = dict[str, Any]
TICKS = 15


@dataclass
class Recorded:
    """A node that is as it was found, and the record of a run on it."""

    agent: Path
    node: Path
    record: Path
    found: dict[str, str]
    children: Children

    def config(self, path: Path, **changes: object) -> Path:
        document = yaml.safe_load((self.node / "agent.yaml").read_text())
        path.write_text(yaml.safe_dump(document | changes))
        return path

    def run(self, command: str, *arguments: str | Path, config: Path | None = None) -> subprocess.CompletedProcess[str]:
        line = [self.agent, command, *arguments, "--config", config or self.node / "agent.yaml"]
        return subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)

    def start(self, name: str, command: str, *arguments: str) -> Child:
        line = [str(self.agent), command, *arguments, "--config", str(self.node / "agent.yaml")]
        return self.children.start(name, line)


@pytest.fixture(scope="module")
def recorded(agent: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    scratch = tmp_path_factory.mktemp("replay")
    with Children(scratch / "logs") as children:
        bench = make_bench(children, agent, scratch / "node", "auto")
        found = steady_state(bench.directory)
        record = scratch / "record.jsonl"
        bench.start_agent("--record", str(record), "--ticks", str(TICKS))
        wait_until(lambda: record.exists() and len(lines_of(record)) == TICKS, "the record", [bench.node])
        wait_until(lambda: steady_state(bench.directory) == found, "the restored node", [bench.node])
        bench.server.stop()  # a replay asks nobody
        yield Recorded(agent, bench.directory, record, found, children)


def lines_of(record: Path) -> list[Line]:
    return [json.loads(line) for line in record.read_text().splitlines()]


def write(record: Path, lines: list[Line]) -> Path:
    record.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return record


def test_a_replay_comes_to_what_the_run_came_to_and_restores_what_was_found(recorded: Recorded) -> None:
    done = recorded.run("replay", recorded.record, "--json")
    assert done.returncode == 0, done.stderr + done.stdout
    document = json.loads(done.stdout)
    assert document["summary"] == {
        "decisions": TICKS,
        "agree": TICKS - 1,  # nothing says what came of the last
        "differ": 0,
        "not_compared": 1,
        "unanswered": 0,
        "damaged": 0,
        "stopped": False,
    }
    assert [one["seq"] for one in document["decisions"]] == list(range(1, TICKS + 1))
    assert document["decisions"][0]["status"] == "applied"
    assert {one["status"] for one in document["decisions"]} <= {"applied", "unchanged"}
    assert steady_state(recorded.node) == recorded.found


def test_the_range_ends_with_its_last_decision_in_force(recorded: Recorded, tmp_path: Path) -> None:
    config = recorded.config(tmp_path / "agent.yaml", on_exit="leave")
    done = recorded.run("replay", recorded.record, "--from", "2", "--to", "6", config=config)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "5 decisions: 5 agree" in done.stdout
    # What the node observed before the seventh decision is what the sixth had set.
    seventh = next(line["observation"] for line in lines_of(recorded.record) if line["observation"]["seq"] == 7)
    assert json.loads(recorded.run("show", "--json").stdout)["assignments"] == seventh["assignments"]
    assert steady_state(recorded.node) != recorded.found
    assert recorded.run("restore").returncode == 0
    assert steady_state(recorded.node) == recorded.found


def test_a_look_writes_nothing_and_says_what_it_would_write(recorded: Recorded) -> None:
    done = recorded.run("replay", recorded.record, "--dry-run")
    assert done.returncode == 0, done.stderr + done.stdout
    assert "would write" in done.stdout
    assert " 0 differ" in done.stdout
    assert kernel_state(recorded.node) == recorded.found


def test_what_comes_out_otherwise_is_named_and_exit_code_1(recorded: Recorded, tmp_path: Path) -> None:
    lines = lines_of(recorded.record)
    lines[3]["decision"]["assignments"][0]["cpus"] = "0-400"  # then it was applied
    lines[6]["observation"]["outcome"]["status"] = "rolled_back"  # of the decision before
    done = recorded.run("replay", write(tmp_path / "record.jsonl", lines), "--json")
    assert done.returncode == 1
    assert "2 of 15 decisions have another outcome" in done.stderr
    differing = [one for one in json.loads(done.stdout)["decisions"] if one["agrees"] is False]
    assert [one["seq"] for one in differing] == [4, 6]
    assert differing[0]["status"] == "refused"
    assert "cpus 0-400 are not all CPUs of this node" in differing[0]["message"]
    assert steady_state(recorded.node) == recorded.found


def test_a_broken_record_touches_nothing(recorded: Recorded, tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    record.write_text(recorded.record.read_text() + '{"observation": {"node": "')
    broken = recorded.run("replay", record)
    assert broken.returncode == 2
    assert f"record.jsonl:{TICKS + 1}: not valid JSON" in broken.stderr
    lines = lines_of(recorded.record)
    lines[2]["decision"]["assignments"][0]["service"] = "steam"
    stranger = recorded.run("replay", write(record, lines))
    assert stranger.returncode == 2
    assert "service 'steam' is not in the configuration" in stranger.stderr
    another = recorded.run("replay", recorded.record, config=recorded.config(tmp_path / "agent.yaml", node="another"))
    assert another.returncode == 2
    assert "expected 'another'" in another.stderr
    assert kernel_state(recorded.node) == recorded.found


def test_the_pace_is_node_time_and_a_signal_ends_it_in_order(recorded: Recorded) -> None:
    lines = lines_of(recorded.record)
    span_s = lines[-1]["observation"]["time_s"] - lines[0]["observation"]["time_s"]
    start = time.monotonic()
    assert recorded.run("replay", recorded.record, "--pace", "7").returncode == 0
    assert time.monotonic() - start >= span_s / 7
    slow = recorded.start("slow", "replay", str(recorded.record), "--pace", "0.01")
    wait_until(lambda: "agrees" in slow.log_tail(), "the first decision", [slow])
    assert steady_state(recorded.node) != recorded.found
    slow.stop()
    assert slow.exit_code == 1
    assert "a signal stopped the replay" in slow.log_tail()
    assert steady_state(recorded.node) == recorded.found


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_who_stops_reading_the_output_ends_it_in_order(recorded: Recorded, form: list[str]) -> None:
    command = [recorded.agent, "replay", recorded.record, "--pace", "2", *form]
    with subprocess.Popen(
        [*command, "--config", recorded.node / "agent.yaml"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as replay:
        assert replay.stdout is not None
        assert replay.stderr is not None
        replay.stdout.readline()
        replay.stdout.close()  # as `| head -n 1` does
        said = replay.stderr.read().decode()
        assert replay.wait(timeout=60) == 1, said
    assert "standard output cannot be written" in said
    assert steady_state(recorded.node) == recorded.found


def test_a_replay_beside_a_running_agent_is_refused_and_a_look_is_not(recorded: Recorded) -> None:
    running = recorded.start("running", "run")
    wait_until(lambda: "manages node" in running.log_tail(), "the agent", [running])
    refused = recorded.run("replay", recorded.record)
    assert refused.returncode == 1
    assert "another osml-agent uses state_dir" in refused.stderr
    assert recorded.run("replay", recorded.record, "--dry-run").returncode == 0
    running.stop()
