"""What goes wrong while the agent runs: it says what once, holds the allocation and goes on."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from contextlib import nullcontext, suppress
from pathlib import Path

import httpx
import pytest

from tests.e2e.divided_node import Document, Node, node
from tests.e2e.hostile_server import HostileServer

__all__ = ["node"]  # the fixture
SERVED = pytest.mark.parametrize("node", ["served"], indirect=True)


def warnings(log: str, about: str) -> list[str]:
    return [line for line in log.splitlines() if " warning " in line and about in line]


BAD_SERVERS: dict[str, tuple[HostileServer | str, str]] = {
    "nobody-listens": (
        "http://127.0.0.1:1",
        "Couldn't connect to server; check server.url, and that the osml server runs",
    ),
    "unresolvable": ("http://no-such-host.invalid:8080", "no-such-host.invalid; check server.url"),
    "slow": (
        HostileServer(delay_s=2),
        "timed out after .*; check server.url; if the server is slow, raise server.timeout_s (now 0.5 s)",
    ),
    "html": (
        HostileServer(),
        "answered text/html beginning with '<html><body>Welcome to nginx!.*', expected a decision as application/json; "
        "check that server.url is the address of the osml server",
    ),
    "html-404": (
        HostileServer(status=404),
        "HTTP 404: expected JSON, got text/html .*; check that server.url is the address of",
    ),
}


@SERVED
@pytest.mark.parametrize("case", BAD_SERVERS)
def test_an_agent_without_an_answer_says_why_once_and_holds_the_allocation(node: Node, case: str) -> None:
    hostile, words = BAD_SERVERS[case]
    before = node.kernel_state()
    with nullcontext() if isinstance(hostile, str) else hostile:
        url = hostile if isinstance(hostile, str) else hostile.url
        timeout_s = 0.5 if case == "slow" else 20  # others answer, if late
        path = node.config(lambda document: document.update(server={"url": url, "timeout_s": timeout_s}, hold_s=600))
        ended = node.run("run", "--ticks", "6", "--config", path)
    assert ended.returncode == 0, ended.stderr
    [sentence] = warnings(ended.stderr, "no decision")
    assert f"the agent holds the allocation for 600 s: {url}/v1/decisions" in sentence
    assert re.search(words.replace("(", r"\(").replace(")", r"\)"), sentence), sentence
    assert isinstance(hostile, str) or hostile.asked >= 2, "it keeps asking"
    assert node.kernel_state() == before


@SERVED
def test_an_agent_whose_questions_take_longer_than_an_interval_gives_signs_of_life(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signs = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    signs.bind(str(tmp_path / "notify"))
    signs.setblocking(False)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "800000")  # a sign every 0.4 s, longer than a question may last
    with HostileServer(delay_s=2) as silent:
        server = {"url": silent.url, "timeout_s": 0.3}
        path = node.config(lambda document: document.update(server=server, interval_s=1, time_scale=10, hold_s=600))
        ended = node.run("run", "--ticks", "6", "--config", path)
    assert ended.returncode == 0, ended.stderr
    words = []
    with signs, suppress(BlockingIOError):
        while True:
            words.append(signs.recv(100))
    assert words[0] == b"READY=1"
    assert words.count(b"WATCHDOG=1") >= 3, "between two turns, in 1.8 s"


LC = ("moses", "img-dnn", "xapian")
OLD_S = 60  # of wall time, ten times as much of node time


def missing(folder: Path, name: str) -> None:
    assert not (folder / name).exists()


def stale(folder: Path, name: str) -> None:
    (folder / name).write_text('{"t": 1, "p99_ms": 3.0}\n')
    os.utime(folder / name, (time.time() - OLD_S,) * 2)


def half_written(folder: Path, name: str) -> None:
    (folder / name).write_text('{"t": 1, "p99_ms": 3')


def page(folder: Path, name: str) -> None:
    (folder / name).write_text("<html>\n")


BAD_TELEMETRY = {
    "missing": (missing, "No such file or directory, expected JSON lines; check the path, and that the service writes"),
    "stale": (
        stale,
        r"is stale: last written [6-9]\d\d\.\d s ago, expected at most 5\.0 s; check that the service",
    ),
    "half-written": (half_written, "contains no complete line yet"),
    "html": (page, "contains no JSON lines"),
}


def run_recorded(node: Node, config: Path, ticks: int) -> tuple[str, list[Document]]:
    record = node.scratch / "record.jsonl"
    record.unlink(missing_ok=True)
    ended = node.run("run", "--ticks", str(ticks), "--record", record, "--config", config)
    assert ended.returncode == 0, ended.stderr
    return ended.stderr, [json.loads(line) for line in record.read_text().splitlines()]


@SERVED
@pytest.mark.parametrize("case", BAD_TELEMETRY)
def test_bad_telemetry_is_a_missing_measurement_and_the_allocation_is_held(node: Node, case: str) -> None:
    spoil, words = BAD_TELEMETRY[case]
    folder = node.scratch / f"telemetry-{case}"
    folder.mkdir()
    for name in LC:
        spoil(folder, name)

    def change(config: Document) -> None:
        for service in config["services"][:3]:
            service["latency"]["file"] = str(folder / service["name"])

    log, records = run_recorded(node, node.config(change), 8)
    for name in LC:
        [sentence] = warnings(log, f"latency.{name} is missing: telemetry {folder / name}")
        assert re.search(words, sentence), sentence
    answered = [record for record in records if record["decision"] is not None]
    assert len(answered) >= 6, log
    for record in answered:
        assert all(service["latency"] is None for service in record["observation"]["services"])
        assert record["decision"]["assignments"] == answered[0]["decision"]["assignments"], "held"


@SERVED
def test_with_good_telemetry_the_same_agent_changes_the_allocation(node: Node) -> None:
    _, records = run_recorded(node, node.config(lambda _: None), 8)
    decisions = [record["decision"] for record in records if record["decision"] is not None]
    assert any(decision["assignments"] != decisions[0]["assignments"] for decision in decisions)


@SERVED
def test_a_half_written_line_is_read_once_it_is_complete(node: Node) -> None:
    file = node.scratch / "moses.jsonl"
    file.write_text('{"t": 1, "p99_ms": 3')

    def change(config: Document) -> None:
        config["services"][0]["latency"] = {"file": str(file), "max_age_s": 600}

    config = node.config(change)
    _, [before] = run_recorded(node, config, 1)
    with file.open("a") as stream:
        stream.write('.25}\n{"t": 2, "p99_ms": 9')
    log, [after] = run_recorded(node, config, 1)
    assert before["observation"]["services"][0]["latency"] is None
    assert after["observation"]["services"][0]["latency"]["p99_ms"] == 3.25
    assert warnings(log, "latency.moses") == []


BAD_OBSERVATIONS = {
    "two-of-one-name": (1, {"name": "moses"}, "services[1].name", "'moses' is also the name of services[0]; give each"),
    "target-of-zero": (
        0,
        {"target_ms": 0},
        "services[0].target_ms",
        "target_ms is 0, expected `float` > 0",
    ),
}


@SERVED
@pytest.mark.parametrize("case", BAD_OBSERVATIONS)
def test_the_server_refuses_a_bad_observation_in_one_sentence(node: Node, case: str) -> None:
    index, values, field, words = BAD_OBSERVATIONS[case]
    _, [record] = run_recorded(node, node.config(lambda _: None), 1)
    observation = record["observation"]
    observation["services"][index] |= values
    answer = httpx.post(f"{node.url}/v1/decisions", json=observation)
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["field"] == field
    assert words in error["message"]
    assert "\n" not in error["message"]


@SERVED
def test_the_server_leaves_out_a_key_that_it_does_not_know_and_names_it(node: Node) -> None:
    _, [record] = run_recorded(node, node.config(lambda _: None), 1)
    observation = record["observation"]
    observation["services"][0] |= {"taget_ms": 1}
    answer = httpx.post(f"{node.url}/v1/decisions", json=observation)
    assert answer.status_code == 200
    assert "taget_ms" in answer.headers["osml-unknown-keys"]
