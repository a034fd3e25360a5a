"""`osml run dispatch` as a process: a real HAProxy, the real osml server, sudden deaths of both, and bad input."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from osml.lab.testbed.haproxy_process import BACKEND, start_haproxy, write_config
from osml.lab.trials.children import OSML, Child, Children, free_port, wait_until

pytestmark = pytest.mark.skipif(
    shutil.which("haproxy", path=os.environ.get("PATH", "") + ":/usr/sbin") is None,
    reason="haproxy is not installed: scripts/setup dispatch",
)


class Proxy:
    """HAProxy with two servers that nobody has to answer for."""

    def __init__(self, directory: Path, children: Children) -> None:
        self.directory, self.children, self.port = directory, children, free_port()
        self.socket = directory / "haproxy.sock"
        self.config = write_config(directory, self.port, {"web1": free_port(), "web2": free_port()}, 5)
        self.child = self.start()

    def start(self) -> Child:
        self.child = start_haproxy(self.children, self.config, self.port)
        return self.child

    def status(self) -> dict[str, str]:
        """web1 and web2 in HAProxy's words; empty while it is away."""
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(self.socket))
                connection.sendall(f"show stat {BACKEND} 4 -1\n".encode())
                text = b""
                while piece := connection.recv(65536):
                    text += piece
            except OSError:
                return {}
        lines = [line.split(",") for line in text.decode().splitlines() if line]
        return {line[1]: line[lines[0].index("status")] for line in lines[1:]}

    def run(self, *arguments: str, name: str = "run") -> Child:
        command = [*OSML, "dispatch", "run", "--socket", str(self.socket), "--backend", BACKEND, *arguments]
        return self.children.start(name, [*command, "--json", "--report-s", "0.1"])

    def lines(self, name: str = "run") -> list[dict[str, Any]]:
        text = (self.directory / "logs" / f"{name}.log").read_text()
        return [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    with Children(tmp_path / "logs") as children:
        yield Proxy(tmp_path, children)


UNTOUCHED = {"web1": "no check", "web2": "no check"}
WEB2_OUT = {"web1": "no check", "web2": "DRAIN"}


def until(condition: Callable[[], bool], child: Child, what: str) -> None:
    wait_until(condition, what, [child], 60.0)


def test_signal_file_is_followed_and_sigterm_restores(proxy: Proxy) -> None:
    file = proxy.directory / "signal.json"
    file.write_text('{"web1": false, "web2": true}')
    run = proxy.run("--policy", "avoid", "--signal-file", str(file), "--max-age-s", "600")
    until(lambda: proxy.status() == WEB2_OUT, run, "web2 out")
    file.write_text('{"web1": 0.9, "web2": 0.0}')
    until(lambda: proxy.status() == {"web1": "DRAIN", "web2": "no check"}, run, "web1 out")
    wanted = ({"web1": True, "web2": False}, {"web1": 0, "web2": 5})
    until(lambda: (proxy.lines()[-1]["interfered"], proxy.lines()[-1]["slots"]) == wanted, run, "a report of it")
    run.stop()
    assert run.exit_code == 0
    assert proxy.status() == UNTOUCHED


def test_a_signal_file_that_is_not_renewed_expires(proxy: Proxy) -> None:
    file = proxy.directory / "signal.json"
    file.write_text('{"web2": true}')
    run = proxy.run("--policy", "avoid", "--signal-file", str(file), "--max-age-s", "4")
    until(lambda: bool(proxy.lines()), run, "its first report")
    file.touch()  # starting may have taken longer than the signal lives
    until(lambda: proxy.status() == WEB2_OUT, run, "web2 out")
    until(lambda: proxy.status() == UNTOUCHED, run, "all in again")
    file.touch()
    until(lambda: proxy.status() == WEB2_OUT, run, "web2 out again")


def test_duration_ends_it_in_order(proxy: Proxy) -> None:
    schedule = proxy.directory / "schedule.json"
    schedule.write_text('[{"t": 0, "backend": "web2", "interfered": true}]')
    run = proxy.run("--policy", "avoid", "--schedule", str(schedule), "--duration", "1")
    wait_until(lambda: not run.running, "the end", [], 60.0)
    assert run.exit_code == 0, run.log_tail()
    assert proxy.status() == UNTOUCHED
    assert any(line["slots"] == {"web1": 5, "web2": 0} for line in proxy.lines())


def test_killed_controller_is_repaired_by_the_next_one(proxy: Proxy) -> None:
    schedule = proxy.directory / "schedule.json"
    schedule.write_text('[{"t": 0, "backend": "web2", "interfered": true}]')
    run = proxy.run("--policy", "avoid", "--schedule", str(schedule))
    until(lambda: proxy.status() == WEB2_OUT, run, "web2 out")
    run.kill()
    assert proxy.status() == WEB2_OUT, "nobody was there to put it back"
    again = proxy.run("--policy", "round_robin", "--schedule", str(schedule), "--duration", "0.5", name="again")
    wait_until(lambda: not again.running, "the end", [], 60.0)
    assert proxy.status() == UNTOUCHED


class Reporter:
    """Two nodes that report to the osml server: node-1 meets its target, node-2 misses it by far."""

    def __init__(self, url: str) -> None:
        self.url, self._seq, self._stop = url, 0, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with httpx.Client(timeout=5.0) as client:
            while not self._stop.wait(0.2):
                self._seq += 1
                for node, p99 in (("node-1", 3.0), ("node-2", 90.0)):
                    try:
                        client.post(f"{self.url}/v1/decisions", json=observation(node, self._seq, p99))
                    except httpx.HTTPError:
                        pass  # the server is the one that is killed here

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(5)


def observation(node: str, seq: int, p99_ms: float) -> dict[str, Any]:
    return {
        "node": node, "seq": seq, "time_s": float(seq), "interval_s": 1.0,
        "platform": {"id": "test", "cores": 8, "cpus": "0-7", "ways": 20},
        "services": [
            {"name": "moses", "class": "lc", "target_ms": 5.0, "ideal_ms": 2.0, "latency": {"p99_ms": p99_ms}},
            {"name": "stream", "class": "be", "ipc_solo": 1.0, "counters": {"ipc": 0.2 if p99_ms > 5 else 1.0}},
        ],
    }  # fmt: skip


def test_haproxy_and_the_osml_server_are_killed_and_come_back(proxy: Proxy) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    def start_server(name: str) -> Child:
        server = proxy.children.start(name, [*OSML, "serve", "--port", str(port), "--store", "none"])
        wait_until(lambda: ready(url), "the server", [server])
        return server

    server = start_server("server")
    reporter = Reporter(url)
    try:
        run = proxy.run(
            "--policy",
            "avoid",
            "--server-url",
            url,
            "--node",
            "web1=node-1",
            "--node",
            "web2=node-2",
            "--level",
            "0.2",
            "--max-age-s",
            "10",
        )
        until(lambda: proxy.status() == WEB2_OUT, run, "web2 out, by the server's word")
        proxy.child.kill()
        until(lambda: proxy.lines()[-1]["mode"] == "away", run, "HAProxy missed")
        proxy.start()
        until(lambda: proxy.status() == WEB2_OUT, run, "web2 out in the new HAProxy")
        server.kill()
        until(lambda: proxy.status() == UNTOUCHED, run, "all in: nobody says anything of interference")
        until(lambda: proxy.lines()[-1]["problem"] is not None, run, "a report of it")
        start_server("server-again")
        until(lambda: proxy.status() == WEB2_OUT, run, "web2 out by the new server's word")
        until(lambda: proxy.lines()[-1]["mode"] == "controlling", run, "a report of it")
        run.stop()
        assert run.exit_code == 0, run.log_tail()
        assert proxy.status() == UNTOUCHED
        modes = [line["mode"] for line in proxy.lines()]
        order = [mode for mode, before in zip(modes[1:], modes, strict=False) if mode != before]
        assert order[-4:] == ["away", "controlling", "released", "controlling"], order
        assert (proxy.lines()[-1]["outages"], proxy.lines()[-1]["restarts"]) == (1, 1)
    finally:
        reporter.stop()


def ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=1).is_success
    except httpx.HTTPError:
        return False


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--backend", "nope", "--schedule", "S"], 2, "backend 'nope' is unknown to HAProxy, expected one of: farm"),
        (["--socket", "/nowhere/s", "--schedule", "S"], 2, "--socket /nowhere/s does not exist"),
        ([], 2, "--server-url, --signal-file or --schedule"),
        (["--schedule", "S", "--signal-file", "x"], 2, "--server-url, --signal-file or --schedule"),
        (["--schedule", "WRONG"], 2, "names web9, expected servers of the backend: web1, web2"),
        (["--server-url", "ftp://x"], 2, "--server-url is 'ftp://x', expected http://HOST:PORT"),
        (["--server-url", "http://x", "--node", "web1"], 2, "--node is 'web1', expected SERVER=NODE"),
        (["--server-url", "http://x", "--node", "w=n"], 2, "expected servers of the backend: web1, web2"),
        (["--schedule", "S", "--poll-ms", "0"], 2, "--poll-ms is 0, expected a number above 0"),
        (["--schedule", "S", "--mu-low", "nan"], 2, "--mu-low is nan, expected a number above 0"),
        (
            ["--schedule", "S", "--mu-high", "30", "--mu-low", "125"],
            2,
            "--mu-low is 125, expected at most --mu-high, 30",
        ),
        (["--server-url", "http://x", "--measure", "slowdown", "--level", "1"], 2, "--level is 1, expected above 1"),
        (["--schedule", "S", "--state-file", "/nowhere/x"], 3, "can't be written: No such file or directory"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_changed(
    proxy: Proxy, arguments: list[str], code: int, words: str
) -> None:
    for name, server in (("S", "web2"), ("WRONG", "web9")):
        (proxy.directory / name).write_text(json.dumps([{"t": 0, "backend": server, "interfered": True}]))
    given = [str(proxy.directory / word) if word in {"S", "WRONG"} else word for word in arguments]
    command = [*OSML, "dispatch", "run", "--socket", str(proxy.socket), "--backend", BACKEND, *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert proxy.status() == UNTOUCHED
    assert not list(proxy.directory.glob("*.nope.osml")), "a journal of a backend that does not exist"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="the testbed makes cgroups: root")
def test_testbed_measures_all_policies_and_leaves_nothing(tmp_path: Path) -> None:
    command = [*OSML, "dispatch", "testbed", "--out", str(tmp_path / "out"), "--json", "--runs", "1", "--run-s", "1"]
    command += ["--load", "0.4", "--intensity", "low", "--trace", "none"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert {run["policy"] for run in summary["runs"]} == {"threshold", "avoid", "round_robin", "non_idling"}
    assert all(run["samples"] > 0 and run["errors"] <= 0.05 * run["samples"] for run in summary["runs"])
    assert (tmp_path / "out/figure-11.png").is_file()
    assert not list(Path("/sys/fs/cgroup").glob("**/osml-dispatch")), "cgroups were left"
