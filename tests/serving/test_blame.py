"""Who slows whom: the server keeps the last observations, and a process asks the node's twin when somebody asks."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from osml_serving.blame import blamer
from osml_serving.blame import recent as recent_module
from osml_serving.blame.answer import Answer
from osml_serving.blame.recent import INTERVALS, LONGEST_LINE, MOST_NODES, SILENT_S, Recent
from osml_serving.example import EXAMPLE

from osml.decide.outlook import BlameNow, CauseNow, ServiceNow
from osml.twin.document import save
from osml.twin.make import made
from tests.kit.server import InProcess
from tests.kit.twin_records import watched

FOUND = BlameNow(
    "node-17",
    12,
    [ServiceNow("web", 12.0, 5.0, 7.0, True, "batch costs it 7 ms.", [CauseNow("batch", "cache", 7.0, 0.1, 1.0)])],
)


@pytest.fixture
def blaming(serve: Callable[..., InProcess], tmp_path: Path) -> InProcess:
    (tmp_path / f"{EXAMPLE.node}.json").write_text("{}")
    return serve(twins=tmp_path)


@pytest.mark.timeout(1000)
def test_the_twin_of_a_node_says_who_slows_its_services(
    serve: Callable[..., InProcess], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blamer, "WITHIN_S", 900)  # 20 s of CPU at low priority, beside a build
    record = watched()
    save(made(record, seed=0), tmp_path / f"{record.node}.json")
    server = serve(twins=tmp_path, max_node_rate=1000)
    for line in record.lines[-20:]:
        assert server.post(replace(line.observation, policy=None)).status_code == 200
    answer = server.client.get(f"/v1/nodes/{record.node}/blame")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert [one["name"] for one in found["services"]] == ["service-2"]
    assert found["services"][0]["words"]


def test_a_node_without_a_twin_is_said_with_what_to_do_and_no_process_starts(
    blaming: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blamer, "_run", None)
    blaming.post(replace(EXAMPLE, node="other"))
    answer = blaming.client.get("/v1/nodes/other/blame")
    assert answer.status_code == 404
    assert "make other.json with `osml look twin fit`" in answer.json()["error"]["hint"]
    assert blaming.runtime.blamer._recent.lines("other") == []


def test_a_file_that_is_no_twin_is_said(blaming: InProcess) -> None:
    blaming.post(EXAMPLE)
    answer = blaming.client.get(f"/v1/nodes/{EXAMPLE.node}/blame")
    assert (answer.status_code, answer.json()["error"]["field"]) == (404, "node")
    assert f"{EXAMPLE.node}.json" in answer.json()["error"]["message"]


def test_a_server_without_twins_says_so_and_keeps_nothing(serve: Callable[..., InProcess]) -> None:
    server = serve()
    server.post(EXAMPLE)
    answer = server.client.get(f"/v1/nodes/{EXAMPLE.node}/blame")
    assert (answer.status_code, answer.json()["error"]["hint"]) == (404, "start the server with --twins FOLDER")
    assert server.client.get("/v1/nodes").json()["blame"] is False
    assert server.runtime.blamer._recent.lines(EXAMPLE.node) == []


def test_an_answer_holds_for_a_while(blaming: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    async def run(_folder: Path, lines: bytes) -> Answer:
        asked.append(lines)
        return Answer(FOUND)

    monkeypatch.setattr(blamer, "_run", run)
    for seq in (1, 2, 3):
        blaming.post(replace(EXAMPLE, seq=seq, time_s=float(seq)))
    for _ in range(3):
        assert blaming.client.get(f"/v1/nodes/{EXAMPLE.node}/blame").json()["services"][0]["name"] == "web"
    assert len(asked) == 1
    assert asked[0].count(b"\n") == 3
    assert blaming.client.get("/v1/nodes").json()["blame"] is True


def _clock_of(blaming: InProcess, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the clock of the server's blame shows, to be changed."""
    now_s = [1000.0]
    for one in (blaming.runtime.blamer, blaming.runtime.blamer._recent):
        monkeypatch.setattr(one, "_clock", lambda: now_s[0])
    return now_s


def test_who_is_told_to_ask_again_gets_a_new_answer_soon(blaming: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [Answer(fault="no"), Answer(BlameNow("node-17", 0, [], "ask again in some intervals")), Answer(FOUND)]
    asked: list[bytes] = []

    async def run(_folder: Path, lines: bytes) -> Answer:
        asked.append(lines)
        return answers[len(asked) - 1]

    monkeypatch.setattr(blamer, "_run", run)
    now_s = _clock_of(blaming, monkeypatch)
    blaming.post(EXAMPLE)
    path = f"/v1/nodes/{EXAMPLE.node}/blame"
    for _ in range(2):
        assert blaming.client.get(path).status_code == 404
    now_s[0] += blamer.EMPTY_HOLDS_S
    for _ in range(2):
        assert "ask again" in blaming.client.get(path).json()["reason"]
    assert len(asked) == 2
    now_s[0] += blamer.EMPTY_HOLDS_S
    assert blaming.client.get(path).json()["services"]
    now_s[0] += blamer.HOLDS_S - 1.0
    assert blaming.client.get(path).json()["services"]
    assert len(asked) == 3


def test_what_a_silent_node_sent_last_is_not_told_as_present(
    blaming: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(_folder: Path, _lines: bytes) -> Answer:
        return Answer(FOUND)

    monkeypatch.setattr(blamer, "_run", run)
    now_s = _clock_of(blaming, monkeypatch)
    blaming.post(replace(EXAMPLE, interval_s=10.0))
    path = f"/v1/nodes/{EXAMPLE.node}/blame"
    now_s[0] += 8 * 3600.0
    answer = blaming.client.get(path)
    assert (answer.status_code, answer.json()["error"]["field"]) == (404, "node")
    assert answer.json()["error"]["message"] == f"node '{EXAMPLE.node}' sent nothing for 28800 s"
    now_s[0] += blamer.EMPTY_HOLDS_S
    blaming.post(replace(EXAMPLE, seq=EXAMPLE.seq + 1, interval_s=10.0))
    now_s[0] += 49.0
    assert blaming.client.get(path).json()["services"], "five intervals are no silence"


@pytest.mark.parametrize("command", ["import sys; sys.exit(3)", "print('what?')"])
def test_a_process_that_fails_is_an_error_and_a_line_in_the_log(
    blaming: InProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec python3 -c "{command}"\n')
    python.chmod(0o755)
    monkeypatch.setattr(blamer.sys, "executable", str(python))
    blaming.post(EXAMPLE)
    answer = blaming.client.get(f"/v1/nodes/{EXAMPLE.node}/blame")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
    assert blaming.client.get(f"/v1/nodes/{EXAMPLE.node}/blame").status_code == 500  # held: no further process
    assert blaming.log.getvalue().decode().count("the process of the twin of node") == 1


def test_a_twin_that_takes_too_long_is_ended(
    blaming: InProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 60\n")
    python.chmod(0o755)
    monkeypatch.setattr(blamer.sys, "executable", str(python))
    monkeypatch.setattr(blamer, "WITHIN_S", 0.2)
    blaming.post(EXAMPLE)
    answer = blaming.client.get(f"/v1/nodes/{EXAMPLE.node}/blame")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")


def test_decisions_go_on_while_a_twin_is_asked_and_a_client_has_one_open_question(
    blaming: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_end = threading.Event(), threading.Event()

    async def run(_folder: Path, _lines: bytes) -> Answer:
        began.set()
        while not may_end.is_set():
            await blamer.asyncio.sleep(0.01)
        return Answer(FOUND)

    monkeypatch.setattr(blamer, "_run", run)
    blaming.post(EXAMPLE)
    answers: list[Any] = []
    path = f"/v1/nodes/{EXAMPLE.node}/blame"
    asking = threading.Thread(target=lambda: answers.append(blaming.client.get(path)))
    asking.start()
    try:
        assert began.wait(30)
        assert blaming.post(replace(EXAMPLE, seq=EXAMPLE.seq + 1)).status_code == 200
        again = blaming.client.get(path)
        assert (again.status_code, again.json()["error"]["message"]) == (503, "your last question is still open")
    finally:
        may_end.set()
        asking.join()
    assert answers[0].status_code == 200


def test_an_answer_that_holds_waits_for_no_other_question(blaming: InProcess) -> None:
    held, portal = blaming.runtime.blamer, blaming.client.portal
    assert portal is not None
    blaming.post(EXAMPLE)
    held._hold(EXAMPLE.node, FOUND)
    portal.call(held._one.acquire)
    held._asking.update(object() for _ in range(blamer.MOST_WAITING))
    assert blaming.client.get(f"/v1/nodes/{EXAMPLE.node}/blame").status_code == 200


def test_only_the_last_observations_are_kept_and_an_agent_that_starts_anew_begins_anew() -> None:
    recent = Recent()
    for seq in range(1, INTERVALS + 11):
        recent.keep(replace(EXAMPLE, seq=seq, policy_state="secret"))
    lines = recent.lines(EXAMPLE.node)
    assert len(lines) == INTERVALS
    assert not any(b"secret" in line for line in lines)
    recent.keep(replace(EXAMPLE, seq=1))
    assert len(recent.lines(EXAMPLE.node)) == 1


def test_one_node_more_than_there_is_room_for_costs_the_others_nothing() -> None:
    now_s = 0.0
    recent = Recent(lambda: now_s)
    for seq in range(1, 6):
        for number in range(MOST_NODES + 1):
            recent.keep(replace(EXAMPLE, node=f"n{number}", seq=seq))
    assert all(len(recent.lines(f"n{number}")) == 5 for number in range(MOST_NODES))
    assert recent.lines(f"n{MOST_NODES}") == []
    now_s = SILENT_S + 1
    recent.keep(replace(EXAMPLE, node="late", seq=1))
    assert len(recent.lines("late")) == 1


def test_long_observations_are_not_kept_and_the_whole_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    observation = replace(EXAMPLE, missing={"x": "y" * LONGEST_LINE})
    recent = Recent()
    recent.keep(observation)
    assert recent.lines(EXAMPLE.node) == []
    monkeypatch.setattr(recent_module, "MOST_BYTES", 20_000)
    for seq in range(1, 41):
        for number in range(10):
            recent.keep(replace(EXAMPLE, node=f"n{number}", seq=seq))
    held = sum(len(line) for number in range(10) for line in recent.lines(f"n{number}"))
    assert held == recent._bytes
    assert held < 20_000 + 10 * LONGEST_LINE
