"""The recipes of docs/how-to/recipes.md, word for word but for ports and paths: real nginx, real HAProxy."""

from __future__ import annotations

import http.server
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from osml.lab.trials.children import Child, Children, free_port, wait_until

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "recipes.md").read_text()
SBIN = os.environ.get("PATH", "") + ":/usr/sbin"
SERVED_MS = 30.0


def blocks(language: str, section: str | None = None) -> list[str]:
    text = PAGE if section is None else PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("number", range(len(blocks("yaml"))))
def test_every_configuration_is_one(agent: Path, tmp_path: Path, number: int) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text(blocks("yaml")[number])
    shown = subprocess.run([agent, "show", "--config", config], capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr


def free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Slow(http.server.BaseHTTPRequestHandler):
    """A service behind the proxy: 30 ms a request."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        time.sleep(SERVED_MS / 1000.0)
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def backend() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


class Bridge:
    """osml-latency as the recipe starts it, and a socket in the place of the agent's."""

    def __init__(self, children: Children, agent: Path, tmp_path: Path, section: str) -> None:
        self.port = free_udp_port()
        path = tmp_path / "agent.sock"
        self.inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.inbox.bind(str(path))
        self.inbox.settimeout(0.2)
        [command] = blocks("sh", section)
        command = re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{self.port}", command)
        program, *options = shlex.split(re.sub(r"unix:\S+", f"unix:{path}", command))
        binary = agent.parent / "latency" / program
        self.child: Child = children.start("latency", [str(binary), *options])
        taken = f"{0x100007F:08X}:{self.port:04X}"  # 127.0.0.1 as /proc/net/udp has it
        wait_until(lambda: taken in Path("/proc/net/udp").read_text(), "osml-latency to listen", [self.child])

    def lines(self) -> list[dict[str, Any]]:
        """What has come; empty where nothing came for a moment."""
        found: list[dict[str, Any]] = []
        try:
            while True:
                found.append(json.loads(self.inbox.recv(8192)))
        except TimeoutError:
            return found

    def wait_for(self, requests: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []

        def enough() -> bool:
            found.extend(self.lines())
            return sum(line["samples"] for line in found) >= requests

        wait_until(enough, f"{requests} requests", [self.child], timeout_s=60)
        assert sum(line["samples"] for line in found) == requests
        return found


@pytest.fixture
def bridge(children: Children, agent: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bridge]:
    made = Bridge(children, agent, tmp_path, request.param)
    yield made
    made.inbox.close()


def ask(port: int, times: int) -> None:
    with httpx.Client(timeout=30) as client:
        for _ in range(times):
            assert client.get(f"http://127.0.0.1:{port}/").status_code == 200


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def start_nginx(children: Children, directory: Path, port: int, backend: int, log: int) -> Child:
    [text] = blocks("nginx", "nginx")
    text = text.replace("127.0.0.1:5514", f"127.0.0.1:{log}").rstrip().removesuffix("}")
    config = directory / "nginx.conf"
    config.write_text(
        f"daemon off; master_process off; pid {directory}/nginx.pid; error_log stderr; events {{}}\n{text}"
        + "".join(f"  {name}_temp_path {directory}/{name};\n" for name in ("client_body", "proxy", "fastcgi"))
        + f"  uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;\n"
        + f"  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{backend}; }} }}\n}}\n"
    )
    return children.start("nginx", [shutil.which("nginx", path=SBIN) or "nginx", "-c", str(config)])


def start_haproxy(children: Children, directory: Path, port: int, backend: int, log: int) -> Child:
    [text] = blocks("haproxy", "HAProxy")
    config = directory / "haproxy.cfg"
    config.write_text(
        text.replace("127.0.0.1:5515", f"127.0.0.1:{log}")
        + f"\nlisten web\n  bind 127.0.0.1:{port}\n  server one 127.0.0.1:{backend}\n"
    )
    return children.start("haproxy", [shutil.which("haproxy", path=SBIN) or "haproxy", "-db", "-f", str(config)])


@pytest.mark.parametrize(("bridge", "start"), [("nginx", start_nginx), ("HAProxy", start_haproxy)], indirect=["bridge"])
def test_a_proxy_tells_what_its_requests_took(
    children: Children, tmp_path: Path, backend: int, bridge: Bridge, start: Any
) -> None:
    port = free_port()
    proxy = start(children, tmp_path, port, backend, bridge.port)
    wait_until(lambda: answers(port), "the proxy", [proxy])
    ask(port, 40)
    for line in bridge.wait_for(40):
        assert SERVED_MS - 1 <= line["p50_ms"] <= line["p95_ms"] <= line["p99_ms"]  # nginx counts whole milliseconds
        assert line["requests_per_s"] == pytest.approx(line["samples"] / line["interval_s"])


@pytest.mark.parametrize("bridge", ["StatsD"], indirect=True)
def test_statsd_timers_of_one_metric(bridge: Bridge) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        for latency_ms in (10, 20, 30):
            text = f"search.request:{latency_ms}|ms\nother:900|ms"
            client.sendto(text.encode(), ("127.0.0.1", bridge.port))
    lines = bridge.wait_for(3)
    assert max(line["p99_ms"] for line in lines) == 30
    assert min(line["p50_ms"] for line in lines) <= 20


@pytest.mark.parametrize("bridge", ["StatsD"], indirect=True)
def test_what_makes_no_sense_is_said_once_and_forgotten(children: Children, bridge: Bridge) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        for text in (b"\xff\x00", b"", b"search.request:-1|ms", b"search.request:nan|ms", b"x" * 60_000):
            client.sendto(text, ("127.0.0.1", bridge.port))
        client.sendto(b"search.request:5|ms", ("127.0.0.1", bridge.port))
    [line] = bridge.wait_for(1)
    assert line["p99_ms"] == 5
    assert bridge.child.log.read_text().count("a datagram has no latency, expected search.request:NUMBER|ms") == 1
    children.stop(bridge.child)
    assert bridge.child.exit_code == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--listen", "tcp:1", "--to", "unix:/x"], "--listen is 'tcp:1', expected udp:ADDRESS:PORT or unix:PATH"),
        (["--listen", "udp:host:1", "--to", "unix:/x"], "expected udp:ADDRESS:PORT with an IPv4 address"),
        (["--listen", "udp:127.0.0.1:70000", "--to", "unix:/x"], "a port from 1 to 65535"),
        (["--listen", "unix:" + "x" * 200, "--to", "unix:/x"], "a socket path of at most 107 bytes"),
        (["--listen", "udp:127.0.0.1:PORT", "--to", "/run/web.sock"], "--to is '/run/web.sock', expected unix:PATH"),
    ],
)
def test_wrong_options_are_one_sentence(agent: Path, options: list[str], words: str) -> None:
    options = [
        option.replace("PORT", str(free_udp_port())) if option.startswith("udp:") else option for option in options
    ]
    done = subprocess.run(
        [agent.parent / "latency" / "osml-latency", *options], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("interval_s", "accepted"), [("0.04", False), ("0.05", True), ("3600", True), ("3601", False)])
def test_the_interval_may_be_any_that_the_agent_may_have(
    children: Children, agent: Path, tmp_path: Path, interval_s: str, accepted: bool
) -> None:
    binary = agent.parent / "latency" / "osml-latency"
    options = ["--listen", f"unix:{tmp_path / 'log.sock'}", "--to", f"unix:{tmp_path / 'web.sock'}"]
    child = children.start("latency", [str(binary), *options, "--interval-s", interval_s])
    wait_until(lambda: (tmp_path / "log.sock").exists() or not child.running, "osml-latency", [], timeout_s=30)
    assert child.running == accepted, child.log.read_text()
    children.stop(child)
    assert child.exit_code == (0 if accepted else 2)
