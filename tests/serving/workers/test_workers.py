"""Workers on one port: real processes, through which a fleet is served, watched, killed and stopped."""

from __future__ import annotations

import concurrent.futures
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import msgspec
import pytest
from msgspec.structs import replace
from osml_serving.api.messages import RolloutDocument
from osml_serving.example import EXAMPLE
from osml_serving.log import Log
from osml_serving.peers.worker_merge import merge_rollout
from osml_serving.peers.worker_metrics import merge_metrics
from osml_serving.rollout.judge import ArmFigures
from osml_serving.rollout.rollout import CanaryState
from osml_serving.settings import as_environment, load_settings
from osml_serving.shadow.tally import ShadowSums
from osml_serving.workers import probe
from osml_serving.workers.supervisor import Supervisor

from osml.base.failure import Failure, InputError
from osml.lab.trials.children import free_port
from tests.kit.server import Process, wait_for

JSON = {"content-type": "application/json"}
Start = Callable[..., Process]
WORKERS = 3
NODES = [f"node-{number}" for number in range(24)]


@pytest.fixture
def served(start_process: Start) -> Process:
    """Three workers that answered 24 nodes, each on a connection of its own."""
    server = start_process("--workers", str(WORKERS), "--peer-timeout-s", "60", "--policies", "osml")
    assert wait_for(lambda: len(pids(server)) == WORKERS and silent(server) == 0)
    for node in NODES:
        post(server, node)
    return server


def post(server: Process, node: str) -> None:
    answer = httpx.post(
        f"{server.url}/v1/decisions", content=msgspec.json.encode(replace(EXAMPLE, node=node)), headers=JSON
    )
    assert answer.status_code == 200, answer.text


def get(server: Process, path: str) -> httpx.Response:
    return httpx.get(f"{server.url}{path}", timeout=90)


def silent(server: Process) -> int:
    return get(server, "/v1/nodes").json()["silent"]


def pids(server: Process) -> list[int]:
    """The workers: children of the parent."""
    parent = server.process.pid
    children = [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]
    return [pid for pid in children if b"osml_serving.workers.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def there(pids: list[int]) -> bool:
    return any(Path(f"/proc/{pid}").exists() for pid in pids)


def decisions(server: Process) -> dict[str, float]:
    """Decisions by worker."""
    found = re.findall(
        r'^osml_decisions_total\{worker="(\d)",policy="osml",status="ok"\} (\S+)',
        get(server, "/metrics").text,
        re.MULTILINE,
    )
    return {worker: float(count) for worker, count in found}


def test_any_worker_shows_the_nodes_and_the_figures_of_all(served: Process) -> None:
    for _ in range(6):  # whichever worker gets the connection
        found = get(served, "/v1/nodes").json()
        assert sorted(line["node"] for line in found["nodes"]) == sorted(NODES)
        assert (found["servers"], found["silent"]) == (WORKERS, 0)
        assert get(served, f"/v1/nodes/{NODES[0]}").json()["points"]
    by_worker = decisions(served)
    assert set(by_worker) == {"0", "1", "2"}
    assert sum(by_worker.values()) == len(NODES)
    assert sum(count > 0 for count in by_worker.values()) > 1, "the kernel gives each worker some of 24 connections"


def test_workers_whose_peers_include_themselves_are_one_server(start_process: Start) -> None:
    port = free_port()
    peers = f"http://127.0.0.1:{port},dns+http://127.0.0.1:{port}"
    patient = ("--peers", peers, "--peer-timeout-s", "60", "--policies", "osml")
    server = start_process("--workers", "2", *patient, port=port)
    assert wait_for(lambda: len(pids(server)) == 2 and silent(server) == 0)
    with httpx.Client() as client:  # one connection: an agent that starts anew
        for seq in (5, 3, 2):
            body = msgspec.json.encode(replace(EXAMPLE, node="node-1", seq=seq))
            assert client.post(f"{server.url}/v1/decisions", content=body, headers=JSON).status_code == 200
    for _ in range(6):  # whichever worker gets the connection
        found = get(server, "/v1/nodes").json()
        assert (found["servers"], found["silent"]) == (2, 0)
        assert [one["kind"] for one in get(server, "/v1/fleet/events").json()["events"]] == ["agent", "agent"]


def test_pages_of_single_nodes_hang_no_worker_whose_peers_include_itself(start_process: Start) -> None:
    port = free_port()
    patient = ("--peers", f"http://127.0.0.1:{port}", "--peer-timeout-s", "60", "--policies", "osml")
    server = start_process("--workers", "2", *patient, port=port)
    assert wait_for(lambda: len(pids(server)) == 2 and silent(server) == 0)
    before = pids(server)
    for node in NODES:
        post(server, node)
    for node in NODES:  # each asks whichever worker gets the connection
        assert get(server, f"/v1/nodes/{node}").json()["node"] == node
        with httpx.stream("GET", f"{server.url}/v1/events?node={node}", timeout=90) as events:
            assert (events.status_code, next(events.iter_lines())) == (200, "event: hello")
    assert pids(server) == before


def test_a_killed_worker_comes_back_and_the_others_go_on(served: Process) -> None:
    before = pids(served)
    os.kill(before[0], signal.SIGKILL)
    assert wait_for(lambda: len(set(pids(served)) - set(before)) == 1 and silent(served) == 0)
    for node in NODES:
        post(served, node)
    assert "ended (exit code -9); it is started again in" in served.errors.read_text()


def test_a_worker_that_cannot_start_again_stops_no_other(start_process: Start, tmp_path: Path) -> None:
    rollout = tmp_path / "rollout.yaml"
    rollout.write_text("schema: osml/rollout/v1\n")
    server = start_process("--workers", "2", "--policies", "osml", "--rollout", str(rollout))
    assert wait_for(lambda: len(pids(server)) == 2 and silent(server) == 0)
    rollout.write_text("schema: nonsense\n")
    killed, other = pids(server)
    os.kill(killed, signal.SIGKILL)
    assert wait_for(lambda: "ended (exit code 2); it is started again in" in server.errors.read_text(), 120)
    assert server.process.poll() is None
    assert get(server, "/readyz").status_code == 200
    assert other in pids(server)
    rollout.write_text("schema: osml/rollout/v1\n")
    assert wait_for(lambda: len(pids(server)) == 2 and silent(server) == 0, 240)


def test_a_worker_that_hangs_is_shown_and_replaced(tmp_path: Path) -> None:
    soon = "from osml_serving.workers import probe; probe.EVERY_S, probe.TIMEOUT_S = 0.5, 8.0"
    flags = ("--workers", "2", "--store", "none", "--policies", "osml", "--drain-s", "0")
    server = Process(tmp_path, free_port(), *flags, before=soon)
    try:
        server.wait_ready()
        assert wait_for(lambda: len(pids(server)) == 2 and silent(server) == 0)
        before = pids(server)
        os.kill(before[0], signal.SIGSTOP)
        assert wait_for(lambda: sorted(up(server)) == [0.0, 1.0])
        assert wait_for(lambda: len(pids(server)) == 2 and before[0] not in pids(server), 120)
        assert "gave no answer to 3 probes in a row; it is killed" in server.errors.read_text()
        assert wait_for(lambda: up(server) == [1.0, 1.0], 120)
    finally:
        server.stop()


def up(server: Process) -> list[float]:
    """`osml_worker_up` of all workers; a stopped one may get the request, which then has no answer."""
    text = httpx.get(f"{server.url}/metrics", timeout=5).text
    return [float(one) for one in re.findall(r"^osml_worker_up\{.*\} (\S+)$", text, re.MULTILINE)]


@pytest.mark.parametrize(("answer", "well"), [(b"HTTP/1.1 503 Busy", True), (b"", False), (None, False)])
def test_any_answer_shows_that_a_worker_runs(tmp_path: Path, answer: bytes | None, well: bool) -> None:
    path = tmp_path / "0.sock"
    with socket.socket(socket.AF_UNIX) as listener, concurrent.futures.ThreadPoolExecutor() as threads:
        listener.bind(str(path))
        listener.listen()
        asked = threads.submit(probe.answers, path, 1.0 if answer is None else 60.0)
        connection, _ = listener.accept()
        with connection:
            if answer is not None:
                assert connection.recv(1000).startswith(b"GET /healthz ")
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_RDWR)
            assert asked.result(60) == well
    assert not probe.answers(tmp_path / "nobody.sock", 1.0)


def test_a_stop_ends_all_workers(served: Process) -> None:
    children = pids(served)
    assert served.stop() == 0
    assert not there(children)
    assert "all workers stopped" in served.errors.read_text()
    with pytest.raises(httpx.TransportError):
        get(served, "/healthz")


def test_a_reload_that_comes_too_early_ends_no_worker(tmp_path: Path) -> None:
    server = Process(tmp_path, free_port(), "--workers", "2", "--store", "none", "--policies", "osml")
    try:
        assert wait_for(lambda: len(pids(server)) > 0)
        before = pids(server)
        server.process.send_signal(signal.SIGHUP)
        server.wait_ready()
        assert set(before) <= set(pids(server))
    finally:
        server.stop()


SLOW_START = """
import pathlib, time
from osml_serving import start
real = start.make_shelf
def make_shelf(*given):
    pathlib.Path({marker!r}).touch()
    time.sleep(2)
    return real(*given)
start.make_shelf = make_shelf
"""


def test_a_reload_that_comes_too_early_ends_no_server(tmp_path: Path) -> None:
    marker = tmp_path / "starts"
    before = SLOW_START.format(marker=str(marker))
    server = Process(tmp_path, free_port(), "--store", "none", "--policies", "osml", before=before)
    try:
        assert wait_for(marker.exists)
        server.process.send_signal(signal.SIGHUP)
        server.wait_ready()
    finally:
        server.stop()


def test_workers_whose_parent_is_killed_end(served: Process) -> None:
    children = pids(served)
    served.process.kill()
    served.process.wait(10)
    assert wait_for(lambda: not there(children), 30)


def test_a_port_that_is_taken_is_one_sentence(served: Process, tmp_path: Path) -> None:
    second = Process(tmp_path, served.port, "--workers", "2", "--store", "none")
    assert second.process.wait(60) == 1
    assert second.errors.read_text().count(f"cannot listen on 127.0.0.1 port {served.port}") == 1


def test_what_no_worker_can_use_ends_the_parent(tmp_path: Path) -> None:
    server = Process(tmp_path, free_port(), "--workers", "2", "--store", "none", "--policy", "nobodys")
    try:
        assert server.process.wait(60) == 1
    except subprocess.TimeoutExpired:
        server.process.kill()
        raise
    said = server.errors.read_text()
    assert "--policy (or OSML_POLICY) is 'nobodys', expected one of" in said
    assert "could not start (exit code 2); the log above says why" in said


def test_without_a_place_for_sockets_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_prefix: str) -> str:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    settings = load_settings({"workers": 2, "port": free_port()})
    with pytest.raises(Failure, match="sockets of its workers: Read-only file system; set TMPDIR to a folder"):
        Supervisor(settings, Log("text", "error")).run()


def test_a_worker_that_cannot_be_forked_stops_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_command: object, **_given: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    log = tmp_path / "log"
    with log.open("wb", buffering=0) as stream:
        supervisor = Supervisor(load_settings({"workers": 2, "port": free_port()}), Log("text", "error", stream))
        supervisor._folder = tmp_path
        first = supervisor._workers[0]
        with pytest.raises(Failure, match="worker 0 cannot be started: Resource temporarily unavailable"):
            supervisor._tend(first)
        supervisor._served = True
        for _ in range(3):
            supervisor._tend(first)
    assert first.process is None
    assert first.due_s > time.monotonic() - 60
    assert log.read_text().count("cannot be started: Resource temporarily unavailable; it is tried again in 1 s") == 1


def test_what_workers_cannot_share_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="share a port, but --port is 0"):
        load_settings({"workers": 2, "port": 0})
    with pytest.raises(InputError, match="one worker at most may own a folder of data sets"):
        load_settings({"workers": 2, "datasets": tmp_path})


def test_settings_come_to_a_worker_as_they_were(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = load_settings(
        {"workers": 2, "token_file": tmp_path, "insecure": True, "store_days": 2.5, "policies": "osml"}
    )
    for name, value in as_environment(given).items():
        monkeypatch.setenv(name, value)
    assert load_settings({}) == given


def rollout_of(state: str, since: float | None, why: str | None, nodes: int, missed: float | None) -> bytes:
    arm = ArmFigures(nodes, 60.0 * nodes, missed, None, 1, missed_nodes=nodes)
    canary = CanaryState("try", "policy even", None, 10.0, state, since, why, arm, arm)
    sums = ShadowSums("even", same=nodes, cores=0.5)
    return msgspec.json.encode(RolloutDocument([], [canary], [sums], 3))


def test_the_rollout_of_workers_has_the_figures_of_all() -> None:
    workers = [
        rollout_of("runs", None, None, 1, 0.5),
        rollout_of("returned", 2.0, "it learnt so", 3, 0.1),
        rollout_of("returned", 1.0, "it is worse", 0, None),
        b"<html>",
    ]
    for _ in range(3):  # whichever is asked
        merged = msgspec.json.decode(merge_rollout(workers[0], workers[1:], 0, ""), type=RolloutDocument)
        [canary] = merged.canaries
        assert (canary.state, canary.since, canary.why) == ("returned", 1.0, "it is worse")
        assert canary.canary == ArmFigures(4, 240.0, pytest.approx(0.2), None, 3, missed_nodes=4)
        assert merged.shadows == [ShadowSums("even", same=4, cores=1.5)]
        assert merged.lost == 9
        workers[:3] = workers[1:3] + workers[:1]


def test_means_of_workers_are_over_the_nodes_that_were_measured() -> None:
    arms = ArmFigures(9, 540.0, 0.8, 0.5, 0, 0.9, 1, 2), ArmFigures(3, 180.0, 0.2, 0.1, 0, 0.1, 2, 3)
    bodies = [
        msgspec.json.encode(
            RolloutDocument([], [CanaryState("try", "policy even", None, 50.0, "runs", None, None, arm, arm)], [], 0)
        )
        for arm in arms
    ]
    [canary] = msgspec.json.decode(merge_rollout(bodies[0], bodies[1:], 0, ""), type=RolloutDocument).canaries
    shares = canary.canary.missed, canary.canary.e_s, canary.canary.unmeasured
    assert shares == (pytest.approx(0.4), pytest.approx(0.26), pytest.approx(0.7))
    assert (canary.canary.missed_nodes, canary.canary.e_s_nodes) == (3, 5)


@pytest.mark.parametrize(("whys", "shown"), [((None, "few"), None), (("few", None), None), (("few", "few"), "few")])
def test_a_canary_that_one_worker_can_judge_needs_no_reason(whys: tuple[str | None, ...], shown: str | None) -> None:
    arm = ArmFigures(3, 60.0, 0.0, None, 0, 0.5)
    bodies = [
        msgspec.json.encode(
            RolloutDocument([], [CanaryState("try", "policy even", None, 50.0, "runs", None, why, arm, arm)], [], 0)
        )
        for why in whys
    ]
    [canary] = msgspec.json.decode(merge_rollout(bodies[0], bodies[1:], 0, ""), type=RolloutDocument).canaries
    assert canary.why == shown
    assert canary.canary.unmeasured == 0.5


@pytest.mark.parametrize(("others", "shown"), [(6, "few"), (0, None)])
def test_a_worker_without_nodes_does_not_say_that_it_can_judge(others: int, shown: str | None) -> None:
    few, some, none = (ArmFigures(nodes, 60.0 * nodes, None, None, 0) for nodes in (2, others, 0))
    seen = [("runs", None, none, none), ("runs", "few", none, some), ("runs", shown, few, few)]
    bodies = [
        msgspec.json.encode(
            RolloutDocument([], [CanaryState("try", "policy even", None, 50.0, state, None, why, *arms)], [], 0)
        )
        for state, why, *arms in seen
    ]
    [canary] = msgspec.json.decode(merge_rollout(bodies[0], bodies[1:], 0, ""), type=RolloutDocument).canaries
    assert canary.why == shown


def test_workers_show_one_rollout(start_process: Start, tmp_path: Path) -> None:
    rollout = tmp_path / "rollout.yaml"
    rollout.write_text(
        "schema: osml/rollout/v1\ncanaries: [{name: try, percent: 50, policy: even, limits: {settle_s: 0}}]\n"
    )
    store = f"sqlite:///{tmp_path}/experiences.db"
    some = ("--policies", "osml,even", "--rollout", str(rollout), "--store", store, "--peer-timeout-s", "60")
    server = start_process("--workers", "2", *some)
    assert wait_for(lambda: len(pids(server)) == 2 and silent(server) == 0)

    def state() -> str:
        return get(server, "/v1/rollout").json()["canaries"][0]["state"]

    assert wait_for(lambda: [state() for _ in range(6)] == ["runs"] * 6)
    for node in NODES:
        post(server, node)
    for _ in range(6):
        [canary] = get(server, "/v1/rollout").json()["canaries"]
        assert canary["canary"]["nodes"] + canary["others"]["nodes"] == len(NODES)


def test_metrics_of_workers_are_one_document() -> None:
    text = '# HELP a_total A.\n# TYPE a_total counter\na_total {0}\n# HELP b B.\n# TYPE b gauge\nb{{node="x"}} {0}\n'
    assert merge_metrics([(0, text.format(1)), (2, text.format(5))]) == (
        '# HELP a_total A.\n# TYPE a_total counter\na_total{worker="0"} 1\na_total{worker="2"} 5\n'
        '# HELP b B.\n# TYPE b gauge\nb{worker="0",node="x"} 1\nb{worker="2",node="x"} 5\n'
    )
