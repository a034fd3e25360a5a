"""Where the knowledge of interference comes from, and when it is too old."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from osml.base.failure import InputError
from osml.dispatch.haproxy.command import level_of
from osml.dispatch.haproxy.interference_server import ServerSignal
from osml.dispatch.haproxy.interference_signal import FileSignal, Level, ScheduleSignal, Switch, load_schedule


def soon(condition: Callable[[], bool], timeout_s: float = 5.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def test_schedule_follows_its_switches() -> None:
    signal = ScheduleSignal([Switch(3, "a", False), Switch(1, "a", True), Switch(2, "b", True)], started=100.0)
    assert [signal.read(100.0 + t) for t in (0.5, 1.5, 2.5, 9)] == [
        {"a": False, "b": False}, {"a": True, "b": False}, {"a": True, "b": True}, {"a": False, "b": True},
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "{}", "[]", '[{"t": "x"}]', '[{"t": 1, "backend": "a", "interfered": 1}]'])
def test_a_bad_schedule_is_said(tmp_path: Path, text: str) -> None:
    path = tmp_path / "schedule.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"--schedule .*expected"):
        load_schedule(path)
    with pytest.raises(InputError, match="can't be read"):
        load_schedule(tmp_path / "none")


def test_file_takes_words_and_numbers_and_expires(tmp_path: Path) -> None:
    path, clock = tmp_path / "signal.json", [time.time()]
    signal = FileSignal(path, Level(0.2), 5.0, lambda: clock[0])
    assert signal.read(0) == {}
    assert signal.problem is not None
    path.write_text('{"a": true, "b": 0.1, "c": 0.2}')
    assert signal.read(0) == {"a": True, "b": False, "c": True}
    clock[0] += 6
    assert signal.read(0) == {}, "too old"
    os.utime(path, (clock[0], clock[0]))
    assert signal.read(0) == {"a": True, "b": False, "c": True}, "touched: still true"


def test_unknown_names_in_a_file_are_said_until_such_servers_come(tmp_path: Path) -> None:
    servers = ["web1", "web2"]
    path = tmp_path / "signal.json"
    signal = FileSignal(path, Level(0.2), 5.0, time.time, lambda: servers)
    path.write_text('{"web_1": true, "web2": false}')
    assert signal.read(0).get("web2") is False
    assert signal.problem == f"{path} names web_1, expected servers of the backend: web1, web2"
    path.write_text(json.dumps({f"x{n}": True for n in range(7)}))
    signal.read(0)
    assert "names x0, x1, x2, x3, x4 and 2 more, expected" in (signal.problem or "")
    path.write_text('{"web1": true}')
    assert signal.read(0) == {"web1": True}
    assert signal.problem is None
    path.write_text('{"web1": true, "web3": true}')
    signal.read(0)
    assert signal.problem == f"{path} names web3, expected servers of the backend: web1, web2"
    servers.append("web3")  # HAProxy has it from now on
    assert signal.read(0) == {"web1": True, "web3": True}
    assert signal.problem is None


def test_a_half_written_file_changes_nothing_until_it_is_too_old(tmp_path: Path) -> None:
    path, clock = tmp_path / "signal.json", [time.time()]
    signal = FileSignal(path, Level(0.2), 5.0, lambda: clock[0])
    path.write_text('{"a": true}')
    assert signal.read(0) == {"a": True}
    path.write_text('{"a": fal')
    assert signal.read(0) == {"a": True}
    assert signal.problem is not None
    path.unlink()
    assert signal.read(0) == {"a": True}
    clock[0] += 6
    assert signal.read(0) == {}


class FakeServer:
    """Answers /v1/nodes with a node `n1` whose last observation is `age_s` old."""

    def __init__(self) -> None:
        self.e_s: float | None = 0.5
        self.age_s = 0.0
        self.garbage = False
        self.speed = 0.25
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = b"<html>" if owner.garbage else json.dumps(owner.answer(self.path)).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, path: str) -> object:
        if path == "/v1/nodes":
            node = {"node": "n1", "at": 1000.0 - self.age_s, "seq": 1, "policy": "arq", "e_s": self.e_s}
            return {"server_time": 1000.0, "nodes": [node]}
        return {"node": "n1", "now": None, "points": [{"services": [{"speed": None}, {"speed": self.speed}]}]}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"


@pytest.fixture
def server() -> Iterator[FakeServer]:
    fake = FakeServer()
    yield fake
    fake.http.shutdown()
    fake.http.server_close()


def test_entropy_of_a_node_is_compared_with_the_level_and_expires(server: FakeServer) -> None:
    signal = ServerSignal(server.url, {"a": "n1", "b": "n2"}, "e_s", Level(0.2), 1.0, interval_s=0.02)
    try:
        assert soon(lambda: signal.read(time.monotonic()) == {"a": True}), "n2 never reported"
        assert soon(lambda: signal.problem == "b: the server knows no node 'n2'"), "a typing error is said"
        server.e_s = 0.1
        assert soon(lambda: signal.read(time.monotonic()) == {"a": False})
        server.age_s = 3.0
        assert soon(lambda: signal.read(time.monotonic()) == {}), "the node fell silent"
        assert soon(lambda: "a: node 'n1' was silent for 3 s" in (signal.problem or ""))
        server.age_s, server.e_s = 0.0, None
        assert soon(lambda: "a: node 'n1' reports no e_s" in (signal.problem or ""))
        server.age_s, server.garbage = 0.0, True
        assert soon(lambda: signal.problem is not None)
    finally:
        signal.stop()


def test_slowdown_is_that_of_the_worst_job(server: FakeServer) -> None:
    for limit, reached in ((4.0, True), (4.1, False)):
        signal = ServerSignal(server.url, {"a": "n1"}, "slowdown", Level(limit), 1.0, interval_s=0.02)
        assert soon(lambda signal=signal, reached=reached: signal.read(time.monotonic()) == {"a": reached})
        signal.stop()


def test_no_slowdown_is_no_interference_by_default(server: FakeServer) -> None:
    server.speed = 1.0
    level = Level(level_of(None, "slowdown"))
    signal = ServerSignal(server.url, {"a": "n1"}, "slowdown", level, 1.0, interval_s=0.02)
    assert soon(lambda: signal.read(time.monotonic()) == {"a": False})
    signal.stop()


def test_a_job_that_stands_still_is_under_interference(server: FakeServer) -> None:
    server.speed = 0.0
    signal = ServerSignal(server.url, {"a": "n1"}, "slowdown", Level(1e6), 1.0, interval_s=0.02)
    assert soon(lambda: signal.read(time.monotonic()) == {"a": True})
    signal.stop()


def test_a_server_that_is_gone_is_a_signal_that_expires(server: FakeServer) -> None:
    signal = ServerSignal(server.url, {"a": "n1"}, "e_s", Level(0.2), 0.5, interval_s=0.02)
    assert soon(lambda: signal.read(time.monotonic()) == {"a": True})
    server.http.shutdown()
    server.http.server_close()
    assert soon(lambda: signal.read(time.monotonic()) == {})
    assert signal.problem is not None
    signal.stop()
