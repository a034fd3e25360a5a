"""Sudden death: of the server in mid-run, of the agent in mid-apply."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import httpx
import msgspec
import pytest
import yaml

from osml.lab.trials.children import wait_until
from osml.lab.trials.records import Record, RecordReader
from tests.kit.kernel_state import steady_state


def collect(reader: RecordReader, records: list[Record], enough: int, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while len(records) < enough and time.monotonic() < deadline:
        records.extend(reader.new())
        time.sleep(0.02)
    assert len(records) >= enough, f"{len(records)} of {enough} records after {timeout_s} s"


def test_the_agent_carries_on_when_the_server_is_killed_and_restarted(exact_bench, tmp_path):
    bench = exact_bench  # what was decided is in force
    found = steady_state(bench.directory)
    record = tmp_path / "record.jsonl"
    agent = bench.start_agent("--record", str(record))
    reader, records = RecordReader(record), []
    collect(reader, records, 15)
    bench.server.kill()
    before = records[-1]
    time.sleep(1.5)
    agent.check()
    assert (bench.directory / "resctrl/osml-moses/schemata").exists(), "the allocation is held while the server is away"
    bench.start_server()
    records.extend(reader.new())
    known = len(records)
    collect(reader, records, known + 15)
    agent.check()
    assert reader.unanswered > 0
    # The new server starts from the state that rode with the agent: it goes on, it does not start over.
    after = next(record for record in records if record.observation.seq > before.observation.seq)
    assert after.observation.policy_state == before.decision.policy_state
    assert after.observation.partition == before.decision.partition
    assert not any("start:" in reason.text for record in records[known:] for reason in record.decision.reasons)
    assert records[-1].observation.seq > before.observation.seq
    assert httpx.get(f"{bench.url}/v1/nodes").json()
    agent.stop()
    assert agent.exit_code == 0
    assert steady_state(bench.directory) == found
    state_dir = Path(yaml.safe_load(bench.config.read_text())["state_dir"])
    last = json.loads((state_dir / "audit.jsonl").read_text().splitlines()[-1])
    assert (last["policy"], last["status"]) == ("restore", "applied")
    assert last["changes"]
    assert [reason["text"] for reason in last["reasons"]] == ["the agent stops"]


def decision_of(record: Record, seq: int) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(record.decision, seq=seq))


@pytest.mark.parametrize("steps", [1, 2, 4, 7])
def test_an_agent_killed_in_mid_apply_is_healed_at_the_next_start(exact_bench, tmp_path, steps):
    found = steady_state(exact_bench.directory)
    record = tmp_path / "record.jsonl"
    exact_bench.start_agent("--record", str(record), "--ticks", "12", name="first")
    reader, records = RecordReader(record), []
    collect(reader, records, 12)
    decision = tmp_path / "decision.json"
    decision.write_bytes(decision_of(records[-1], 99))
    wait_until(lambda: steady_state(exact_bench.directory) == found, "the restored node", [exact_bench.node])
    agent = [str(exact_bench.agent), "apply", str(decision), "--config", str(exact_bench.config)]
    crash = subprocess.run(
        [*agent, "--fault-injection"],
        env={"OSML_CRASH_AFTER_STEP": str(steps)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert crash.returncode == -signal.SIGKILL, crash.stderr
    journal = json.loads((exact_bench.directory / "state/journal.json").read_text())
    assert journal, "the journal says what was under way"
    # The next start undoes the half of a decision first, and then works as ever.
    healed = subprocess.run([*agent, "--json"], capture_output=True, text=True, check=False)
    assert healed.returncode == 0, healed.stderr
    assert "interrupted" in healed.stderr + healed.stdout
    restored = subprocess.run(
        [str(exact_bench.agent), "restore", "--config", str(exact_bench.config)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert restored.returncode == 0, restored.stderr
    assert steady_state(exact_bench.directory) == found


def test_a_running_agent_killed_with_sigkill_is_healed_and_restores_what_was_found_first(exact_bench, tmp_path):
    found = steady_state(exact_bench.directory)
    record = tmp_path / "record.jsonl"
    agent = exact_bench.start_agent("--record", str(record), name="first")
    collect(RecordReader(record), [], 12)
    agent.kill()
    assert steady_state(exact_bench.directory) != found
    again = exact_bench.start_agent("--record", str(record) + ".2", name="second")
    reader, records = RecordReader(Path(str(record) + ".2")), []
    collect(reader, records, 5)
    again.stop()
    assert again.exit_code == 0
    assert steady_state(exact_bench.directory) == found
