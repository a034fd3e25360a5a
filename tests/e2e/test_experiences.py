"""What came of the decisions goes from the agent's binary over the wire into the server's store."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import time
import zlib
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import yaml

from osml.domain import Experience
from osml.lab.trials.children import Child, Children, free_port, wait_until
from tests.e2e.conftest import PATIENT_S, Bench, start_node

ENOUGH = 30


def start(children: Children, agent: Path, tmp_path: Path, store: str) -> Bench:
    port = free_port()
    server = children.start("server", ["osml", "serve", "--port", str(port), "--store", store])
    url = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        try:
            return httpx.get(f"{url}/readyz", timeout=1).is_success
        except httpx.HTTPError:
            return False

    wait_until(ready, "the server", [server], PATIENT_S)
    node = start_node(children, tmp_path / "node", url, "arq")
    bench = Bench(children, agent, port, server, node, tmp_path / "node")
    services = yaml.safe_load(bench.config.read_text())["services"]
    for service in services:
        if "latency" in service:  # the node runs ten times as fast: half a second of a busy machine is five of its own
            service["latency"]["max_age_s"] = 600
    bench.change_config(services=services)
    return bench


def stats(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def wait_for_ticks(path: Path, agent: Child, ticks: int) -> None:
    wait_until(lambda: len(stats(path)) >= ticks, f"{ticks} intervals", [agent], timeout_s=60)


def stored(path: Path) -> list[Experience]:
    with sqlite3.connect(path) as database:
        rows = database.execute("select payload from experiences order by seq").fetchall()
    return [msgspec.json.decode(zlib.decompress(payload), type=Experience) for (payload,) in rows]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "experiences.db"


def test_decisions_that_were_carried_out_arrive_with_what_came_of_them(
    children: Children, agent: Path, tmp_path: Path, database: Path
) -> None:
    bench = start(children, agent, tmp_path, f"sqlite:///{database}")
    figures = tmp_path / "stats.jsonl"
    running = bench.start_agent("--stats", str(figures))
    wait_until(
        lambda: bool(lines := stats(figures)) and lines[-1]["experiences"]["sent"] >= ENOUGH,
        "the agent to send experiences",
        [running],
        timeout_s=90,
    )
    children.stop(running)
    last = stats(figures)[-1]["experiences"]
    assert last["dropped"] == last["refused"] == 0
    deadline = time.monotonic() + 10  # the store writes beside the answers
    while len(stored(database)) < last["sent"] and time.monotonic() < deadline:
        time.sleep(0.1)
    found = stored(database)
    assert len(found) >= last["sent"]
    for experience in found:
        assert experience.before.node == experience.decision.node == experience.after.node
        assert experience.before.seq == experience.decision.seq == experience.after.seq - 1
        assert experience.after.outcome is not None
        assert experience.after.outcome.seq == experience.decision.seq
        assert experience.after.outcome.status in ("applied", "unchanged")
        assert (
            experience.before.policy_state is experience.decision.policy_state is experience.after.policy_state is None
        )
        assert all(service.latency is not None for service in experience.after.services if service.kind == "lc")
    seqs = [experience.before.seq for experience in found]
    assert len(set(seqs)) == len(seqs)


def test_a_server_that_keeps_none_is_asked_once_and_decides_on(children: Children, agent: Path, tmp_path: Path) -> None:
    bench = start(children, agent, tmp_path, "none")
    figures = tmp_path / "stats.jsonl"
    running = bench.start_agent("--stats", str(figures))
    wait_for_ticks(figures, running, 60)
    children.stop(running)
    assert running.log.read_text().count("the server does not store experiences") == 1
    assert "no decision" not in running.log.read_text()
    found = stats(figures)[-1]["experiences"]
    assert (found["sent"], found["waiting"], found["refused"]) == (0, 0, 0)
    assert found["dropped"] > 0, "those that waited for the answer"


def test_they_go_on_after_the_configuration_was_read_anew(
    children: Children, agent: Path, tmp_path: Path, database: Path
) -> None:
    bench = start(children, agent, tmp_path, f"sqlite:///{database}")
    figures = tmp_path / "stats.jsonl"
    running = bench.start_agent("--stats", str(figures))
    wait_for_ticks(figures, running, 5)
    before = len(stats(figures))
    os.kill(running.pid, signal.SIGHUP)
    wait_until(
        lambda: any(line["experiences"]["sent"] > 0 for line in stats(figures)[before + 1 :]),
        "the agent to send experiences after the reload",
        [running],
        timeout_s=90,
    )
    assert "the configuration was reloaded" in running.log.read_text()
    now = len(stats(figures))
    os.kill(running.pid, signal.SIGHUP)
    wait_until(lambda: len(stats(figures)) > now + 10, "ten more intervals", [running], timeout_s=30)
    children.stop(running)
    counts = [line["experiences"] for line in stats(figures)]
    for name in ("sent", "dropped", "refused"):
        values = [found[name] for found in counts]
        assert values == sorted(values), f"{name} fell"
    totals = [sum(found.values()) for found in counts]
    assert totals == sorted(totals), "what waited was lost"
    assert counts[-1]["dropped"] == 0


def test_what_waits_when_a_reload_turns_them_off_is_counted(
    children: Children, agent: Path, tmp_path: Path, database: Path
) -> None:
    bench = start(children, agent, tmp_path, f"sqlite:///{database}")
    figures, textfile = tmp_path / "stats.jsonl", tmp_path / "osml.prom"
    bench.change_config(metrics={"textfile": str(textfile)})
    running = bench.start_agent("--stats", str(figures))
    wait_for_ticks(figures, running, 5)
    bench.change_config(server={"url": bench.url, "experiences": "off"})
    os.kill(running.pid, signal.SIGHUP)
    wait_until(lambda: stats(figures)[-1]["experiences"] is None, "the reload", [running], timeout_s=30)
    children.stop(running)
    before = [line["experiences"] for line in stats(figures) if line["experiences"]][-1]
    total = {
        status: float(value)
        for status, value in re.findall(
            r'^osml_agent_experiences_total{.*status="(\w+)"} (\S+)$', textfile.read_text(), re.MULTILINE
        )
    }
    assert total["sent"] + total["dropped"] == before["sent"] + before["dropped"] + before["waiting"]


def test_an_operator_keeps_them_to_the_node(children: Children, agent: Path, tmp_path: Path, database: Path) -> None:
    bench = start(children, agent, tmp_path, f"sqlite:///{database}")
    bench.change_config(server={"url": bench.url, "experiences": "off"})
    figures = tmp_path / "stats.jsonl"
    running = bench.start_agent("--stats", str(figures))
    wait_for_ticks(figures, running, 60)
    children.stop(running)
    assert stats(figures)[-1]["experiences"] is None
    assert stored(database) == []
