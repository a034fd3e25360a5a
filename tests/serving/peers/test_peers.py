"""Servers that show each other's nodes: real processes, and others that fail."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import time
from collections.abc import Callable, Generator, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx
import msgspec
import pytest
from msgspec.structs import replace
from osml_serving.example import EXAMPLE
from osml_serving.view.broker import MAX_VIEWERS

from osml.lab.trials.children import free_port
from tests.kit.http_thread import HttpThread, Quiet
from tests.kit.server import Process, wait_for

JSON = {"content-type": "application/json"}
PATIENT = ("--peer-timeout-s", "60", "--policies", "osml")  # this machine may be busy, and `clite` takes long to start
Start = Callable[..., Process]


def post(server: Process, node: str, seq: int = 0, **headers: str) -> None:
    body = msgspec.json.encode(replace(EXAMPLE, node=node, seq=seq, time_s=100.0 + seq))
    answer = httpx.post(f"{server.url}/v1/decisions", content=body, headers={**JSON, **headers})
    assert answer.status_code == 200, answer.text


def get(server: Process, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{server.url}{path}", headers=headers, timeout=90)


@pytest.fixture
def two(start_process: Start) -> tuple[Process, Process]:
    """Two servers that know both addresses, their own too."""
    ports = free_port(), free_port()
    peers = ",".join(f"http://127.0.0.1:{port}" for port in ports)
    first, second = (start_process("--peers", peers, *PATIENT, port=port) for port in ports)
    post(first, "a")
    post(second, "b")
    return first, second


def test_each_server_shows_the_nodes_of_both(two: tuple[Process, Process]) -> None:
    for server in two:
        found = get(server, "/v1/nodes").json()
        assert [line["node"] for line in found["nodes"]] == ["a", "b"]
        assert (found["servers"], found["silent"]) == (2, 0)
        for node in "ab":
            assert get(server, f"/v1/nodes/{node}").json()["points"]
            assert get(server, f"/v1/nodes/{node}/explain").json()["node"] == node
            assert get(server, f"/v1/nodes/{node}/day").json()["bins"]
            assert get(server, f"/v1/nodes/{node}/rollout").json()["policy"] == "osml"
        missing = get(server, "/v1/nodes/c")
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "not_found")


def test_a_node_is_shown_by_the_server_that_saw_it_last(two: tuple[Process, Process]) -> None:
    _, second = two
    time.sleep(3)
    post(second, "a", 1)
    post(second, "a", 2)
    for server in two:
        deadline = time.monotonic() + 60
        while [point["seq"] for point in get(server, "/v1/nodes/a").json()["points"]] != [1, 2]:
            assert time.monotonic() < deadline  # ages are asked for: a late answer may make them look alike
            time.sleep(0.2)


@contextlib.contextmanager
def stream(server: Process, node: str) -> Generator[Iterator[str]]:
    with httpx.stream("GET", f"{server.url}/v1/events?node={node}", timeout=90) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield answer.iter_lines()


def test_events_of_a_node_come_through_the_other_server_until_it_moves(two: tuple[Process, Process]) -> None:
    first, second = two
    with stream(second, "a") as lines:
        assert next(lines) == "event: hello"
        post(first, "a", 1)
        assert next(one for one in lines if one.startswith("event: obs")) == "event: observation"
        time.sleep(3)
        post(second, "a", 2)  # from now on here
        began_s = time.monotonic()
        assert not [one for one in lines if one.startswith("event: obs")]  # to the end
        assert time.monotonic() - began_s < 60


def opened(server: Process, node: str) -> tuple[socket.socket, bytes]:
    """An event stream, and its status."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    connection.sendall(f"GET /v1/events?node={node} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return connection, connection.recv(12)[9:]


def test_streams_that_are_passed_on_have_the_limit_of_all_and_keep_nobody_waiting(start_process: Start) -> None:
    others = [start_process("--policies", "osml") for _ in range(2)]
    peers = ",".join(other.url for other in others)
    server = start_process("--peers", peers, *PATIENT)
    for other, node in zip(others, "ab", strict=True):
        post(other, node)
    with contextlib.ExitStack() as stack:
        statuses: list[bytes] = []
        for number in range(MAX_VIEWERS + 45):  # two servers, each below its own limit
            connection, status = opened(server, "ab"[number % 2])
            stack.enter_context(connection)
            statuses.append(status)
        assert statuses == [b"200"] * MAX_VIEWERS + [b"503"] * 45
        assert f"osml_event_streams {MAX_VIEWERS}.0" in get(server, "/metrics").text
        found = get(server, "/v1/nodes").json()
        assert ([line["node"] for line in found["nodes"]], found["silent"]) == (["a", "b"], 0)
        assert get(server, "/v1/nodes/a").status_code == 200
    assert wait_for(lambda: "osml_event_streams 0.0" in get(server, "/metrics").text)


def test_a_server_that_is_killed_is_counted_and_named_once(two: tuple[Process, Process]) -> None:
    first, second = two
    for seq in range(1, 6):  # a busy machine may take longer than a server waits for another
        with stream(second, "a") as lines:
            assert next(lines) == "event: hello"
            post(first, "a", seq)
            if next(one for one in lines if one.startswith(("event: obs", "event: heart"))) == "event: observation":
                first.process.kill()
                first.process.wait(10)
                list(lines)  # ends
                break
    else:
        pytest.fail("no observation came through the other server")
    found = get(second, "/v1/nodes").json()
    assert ([line["node"] for line in found["nodes"]], found["silent"]) == (["b"], 1)
    assert get(second, "/v1/nodes/a").status_code == 404
    assert get(second, "/v1/nodes/b").status_code == 200
    get(second, "/v1/nodes")
    deadline = time.monotonic() + 30
    while "does not answer" not in second.errors.read_text():  # logs are written in the background
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert second.errors.read_text().count("does not answer") == 1


class Bad(Quiet, BaseHTTPRequestHandler):
    """Another server that gives what it is told to."""

    status, body, wait_s = 200, b"<html>", 0.0

    def do_GET(self) -> None:
        time.sleep(self.wait_s)
        self.tell(self.status, self.body, {})


@pytest.mark.parametrize(
    ("status", "body", "wait_s"),
    [
        (200, b"<html>", 0.0),
        (200, b'{"nodes": 7}', 0.0),
        (500, b"{}", 0.0),
        (401, b"{}", 0.0),
        (302, b"{}", 0.0),
        (200, b"{}", 6.0),
    ],
)
def test_a_server_that_answers_nonsense_takes_nothing_away(
    start_process: Start, monkeypatch: pytest.MonkeyPatch, status: int, body: bytes, wait_s: float
) -> None:
    for name, value in {"status": status, "body": body, "wait_s": wait_s}.items():
        monkeypatch.setattr(Bad, name, value)
    other = HttpThread(Bad)
    other.start()
    server = start_process("--policies", "osml", "--peers", f"http://127.0.0.1:{other.port}")
    try:
        post(server, "b")
        found = get(server, "/v1/nodes").json()
        assert ([line["node"] for line in found["nodes"]], found["servers"], found["silent"]) == (["b"], 2, 1)
        assert get(server, "/v1/nodes/b").json()["points"]
        assert get(server, "/v1/fleet/events").json() == {"events": []}
    finally:
        other.stop()


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (403, b'{"error": {"code": "forbidden", "message": "this server is\\n called other"}}', ": this server is"),
        (429, b"<html>", ""),
        (302, b"{}", ""),
    ],
)
def test_a_server_that_refuses_is_named_with_its_reason(
    start_process: Start, monkeypatch: pytest.MonkeyPatch, status: int, body: bytes, words: str
) -> None:
    for name, value in {"status": status, "body": body}.items():
        monkeypatch.setattr(Bad, name, value)
    other = HttpThread(Bad)
    other.start()
    server = start_process("--policies", "osml", "--peers", f"http://127.0.0.1:{other.port}")
    try:
        assert get(server, "/v1/fleet/events?limit=none").status_code == 422
        monkeypatch.setattr(Bad, "status", 200)
        get(server, "/v1/nodes")
        monkeypatch.setattr(Bad, "status", status)
        for _ in range(3):
            assert get(server, "/v1/nodes").json()["silent"] == 1
        line = f"server http://127.0.0.1:{other.port} does not answer: it answers HTTP {status}{words}"
        assert wait_for(lambda: line in server.errors.read_text())
        assert server.errors.read_text().count("does not answer") == 1
        assert "answers again" not in server.errors.read_text(), "a request that is refused here says nothing of others"
    finally:
        other.stop()


def test_a_token_sees_its_own_node_on_any_server(start_process: Start, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    digests = {node: hashlib.sha256(node.encode()).hexdigest() for node in "ab"}
    tokens.write_text("".join(f"{node}:{digest}\n" for node, digest in digests.items()))
    tokens.chmod(0o600)
    ports = free_port(), free_port()
    peers = ",".join(f"http://127.0.0.1:{port}" for port in ports)
    first, second = (
        start_process("--peers", peers, *PATIENT, "--token-file", str(tokens), port=port) for port in ports
    )
    for server, node in ((first, "a"), (second, "b")):
        post(server, node, authorization=f"Bearer {node}")
    as_a = {"authorization": "Bearer a"}
    for server in (first, second):
        assert [line["node"] for line in get(server, "/v1/nodes", **as_a).json()["nodes"]] == ["a"]
        assert get(server, "/v1/nodes/a", **as_a).status_code == 200
        assert get(server, "/v1/nodes/b", **as_a).status_code == 403
        assert get(server, "/v1/nodes", **{"osml-peer": "x"}).status_code == 401
