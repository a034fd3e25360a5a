"""A real `osml run serve` process, real sockets, the installed policies."""

import contextlib
import hashlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time

import httpx
import msgspec
import pytest
from osml_serving.example import EXAMPLE

from osml.domain import Decision, Latency, Observation
from osml.lab.trials.children import free_port

JSON = {"content-type": "application/json"}


def interval(seq: int, state: str | None, partition=None) -> Observation:
    """Interval `seq` of a run in which moses misses its target and the others do not."""
    moses = msgspec.structs.replace(EXAMPLE.services[0], latency=Latency(p99_ms=30.0 - seq))
    return msgspec.structs.replace(
        EXAMPLE,
        seq=seq,
        time_s=12.0 + seq,
        services=[moses, *EXAMPLE.services[1:]],
        partition=partition,
        policy_state=state,
    )


def ask(url: str, observation: Observation) -> Decision:
    answer = httpx.post(f"{url}/v1/decisions", content=msgspec.json.encode(observation), headers=JSON)
    assert answer.status_code == 200, answer.text
    return msgspec.json.decode(answer.content, type=Decision)


def play(urls: list[str]) -> list[Decision]:
    """One interval after the other, each at the given server; state and partition ride with the client."""
    decisions: list[Decision] = []
    for seq, url in enumerate(urls):
        last = decisions[-1] if decisions else None
        observation = interval(seq, last and last.policy_state, last and last.partition)
        decisions.append(ask(url, observation))
    return decisions


def test_the_address_is_said_and_a_decision_comes_back(process):
    decision = ask(process.url, EXAMPLE)
    assert {assignment.service for assignment in decision.assignments} == {"moses", "xapian", "stream"}
    deadline = time.monotonic() + 10
    while '"decision"' not in (said := process.errors.read_text()):  # lines are written a moment later
        assert time.monotonic() < deadline
        time.sleep(0.02)
    lines = [json.loads(line) for line in said.splitlines()]
    assert any(process.url in line["message"] for line in lines if line["event"] == "ready")


def test_a_restart_in_mid_run_changes_no_decision(start_process):
    undisturbed = play([start_process().url] * 8)
    first = start_process()
    before = play([first.url] * 4)
    first.process.kill()
    first.process.wait()
    second = start_process(port=first.port)
    last = before[-1]
    after = ask(second.url, interval(4, last.policy_state, last.partition))
    assert after == undisturbed[4]
    assert len({decision.policy_state for decision in undisturbed}) > 1, "the policy had nothing to remember"


def test_replicas_can_take_turns(start_process):
    one, two = start_process().url, start_process().url
    assert play([one, two] * 4) == play([one] * 8)


def hostile() -> dict[str, bytes]:
    """Bodies that make frameworks answer 500, and some that only look like observations."""
    good = msgspec.json.encode(EXAMPLE)
    text = good.decode()
    plain = msgspec.to_builtins(EXAMPLE)
    twins = {**plain, "services": [plain["services"][0]] * 2}
    return {
        "empty": b"",
        "no utf-8": b"\x80",
        "no utf-8 in a string": good.replace(b"node-17", b"node\xff"),
        "lone surrogate": text.replace("node-17", "\\ud800").encode(),
        "byte order mark": b"\xef\xbb\xbf" + good,
        "utf-16": text.encode("utf-16"),
        "nan": text.replace('"seq":0', '"seq":NaN').encode(),
        "infinite target": text.replace('"target_ms":15.0', '"target_ms":1e400').encode(),
        "infinity": text.replace('"target_ms":15.0', '"target_ms":Infinity').encode(),
        "zero target": text.replace('"target_ms":15.0', '"target_ms":0').encode(),
        "seq as text": text.replace('"seq":0', '"seq":"0"').encode(),
        "seq as float": text.replace('"seq":0', '"seq":0.5').encode(),
        "seq as bool": text.replace('"seq":0', '"seq":true').encode(),
        "huge seq": text.replace('"seq":0', '"seq":1' + "0" * 30).encode(),
        "nul in a name": text.replace("moses", "mo\\u0000ses").encode(),
        "markup in a name": text.replace("moses", "<img src=x>").encode(),
        "two services with one name": msgspec.json.encode(twins),
        "unknown policy": text.replace('"policy":null', '"policy":"magic"').encode(),
        "no service": msgspec.json.encode({**plain, "services": []}),
        "65 services": msgspec.json.encode(
            {**plain, "services": [{**plain["services"][2], "name": f"s{n}"} for n in range(65)]}
        ),
        "cpu list backwards": text.replace('"cpus":"0-35","core_quantum"', '"cpus":"35-0","core_quantum"').encode(),
        "deep nesting": b'{"missing":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
        "deep arrays": b"[" * 100_000,
        "scalar": b"3",
        "null": b"null",
        "long node": text.replace("node-17", "n" * 64).encode(),
        "huge number": b'{"seq":' + b"9" * 100_000 + b"}",
        "trailing comma": good[:-1] + b",}",
        "two documents": good + good,
    }


@pytest.mark.parametrize("name", sorted(hostile()))
def test_hostile_bodies_get_a_clear_4xx(process, name):
    answer = httpx.post(f"{process.url}/v1/decisions", content=hostile()[name], headers=JSON)
    assert 400 <= answer.status_code < 500, answer.text
    error = answer.json()["error"]
    assert error["message"]
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("seq", [2**63 - 1, 2**53 + 1])
def test_large_but_legal_numbers_survive_the_round_trip(process, seq):
    assert ask(process.url, msgspec.structs.replace(EXAMPLE, seq=seq)).seq == seq


@pytest.mark.parametrize("state", ["", "x", "AAAA", '{"a":1}', "\u00e9", "A" * 131072])
def test_a_tampered_state_never_costs_a_500(process, state):
    body = msgspec.json.encode(msgspec.structs.replace(EXAMPLE, policy_state=state))
    assert httpx.post(f"{process.url}/v1/decisions", content=body, headers=JSON).status_code < 500


def test_a_body_over_the_limit_is_refused_and_the_server_lives(process):
    declared = httpx.post(f"{process.url}/v1/decisions", content=b" " * 300_000, headers=JSON)
    assert declared.status_code == 413
    chunked = httpx.post(f"{process.url}/v1/decisions", content=iter([b" " * 100_000] * 3), headers=JSON)
    assert (chunked.status_code, chunked.json()["error"]["code"]) == (413, "too_large")
    ask(process.url, EXAMPLE)


def test_a_client_that_never_sends_its_body_is_cut_off(start_process):
    process = start_process("--body-timeout-s", "0.3")
    with socket.create_connection(("127.0.0.1", process.port)) as stuck:
        stuck.sendall(b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
        stuck.settimeout(5)
        assert stuck.recv(64).startswith(b"HTTP/1.1 408")
        ask(process.url, EXAMPLE)


def test_with_tokens_only_the_node_itself_is_heard(start_process, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"node-17:{hashlib.sha256(b'secret').hexdigest()}\n")
    tokens.chmod(0o600)
    process = start_process("--token-file", str(tokens))
    body = msgspec.json.encode(EXAMPLE)
    url = f"{process.url}/v1/decisions"
    bearer = {**JSON, "authorization": "Bearer secret"}
    assert httpx.post(url, content=body, headers=JSON).status_code == 401
    assert httpx.post(url, content=body, headers=bearer).status_code == 200
    other = body.replace(b"node-17", b"node-18")
    assert httpx.post(url, content=other, headers=bearer).status_code == 403


def test_metrics_count_what_happened(process):
    ask(process.url, EXAMPLE)
    text = httpx.get(f"{process.url}/metrics").text
    assert 'osml_decisions_total{policy="osml",status="ok"}' in text
    assert 'osml_node_e_s{node="node-17"}' in text


def test_events_deliver_each_decision(process):
    with httpx.stream("GET", f"{process.url}/v1/events?node=node-17", timeout=10) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "event: hello"
        ask(process.url, msgspec.structs.replace(EXAMPLE, seq=41))
        data = next(line for line in lines if line.startswith('data: {"point"'))
    event = json.loads(data.removeprefix("data: "))
    assert (event["point"]["seq"], event["now"]["platform"]["id"]) == (41, "e5-2697v4")


def test_sigterm_says_not_ready_then_finishes_what_is_open(start_process):
    process = start_process("--drain-s", "6")
    with httpx.stream("GET", f"{process.url}/v1/events?node=a", timeout=10) as stream:
        lines = stream.iter_lines()
        assert next(lines) == "event: hello"
        process.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 5
        while httpx.get(f"{process.url}/readyz").status_code != 503:
            assert time.monotonic() < deadline, "the server never said that it is not ready"
        ask(process.url, EXAMPLE)  # who has not looked at /readyz yet is still served
        assert "event: end" in list(lines)
    assert process.process.wait(60) == 0


def test_a_second_sigterm_waits_for_no_request_and_still_ends_in_order(start_process):
    process = start_process("--drain-s", "60")
    with httpx.stream("GET", f"{process.url}/v1/events?node=a", timeout=60) as stream:
        assert next(stream.iter_lines()) == "event: hello"
        process.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 60
        while httpx.get(f"{process.url}/readyz", timeout=60).status_code != 503:
            assert time.monotonic() < deadline, "the server never said that it is not ready"
        process.process.send_signal(signal.SIGTERM)
        assert process.process.wait(50) == 0, "sooner than it would have drained"
    said = process.errors.read_text()
    assert "Traceback" not in said
    assert "the server did not wait for open requests" in said


def test_a_port_that_is_taken_is_one_sentence(process):
    command = [sys.executable, "-c", "from osml.cli.main import main; main()", "serve", "--port", str(process.port)]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode == 1
    assert second.stderr.count("\n") == 1
    assert f"cannot listen on 127.0.0.1 port {process.port}" in second.stderr


def test_sighup_reads_the_tokens_again_and_stops_nothing(start_process, tmp_path):
    tokens = tmp_path / "tokens"

    def give(word: bytes) -> None:
        tokens.write_text(f"node-17:{hashlib.sha256(word).hexdigest()}\n")
        tokens.chmod(0o600)

    give(b"old")
    process = start_process("--token-file", str(tokens))
    url = f"{process.url}/v1/nodes"
    assert httpx.get(url, headers={"authorization": "Bearer old"}).status_code == 200
    give(b"new")
    process.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 10
    while httpx.get(url, headers={"authorization": "Bearer new"}).status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert httpx.get(url, headers={"authorization": "Bearer old"}).status_code == 401
    assert process.stop() == 0


def test_as_many_files_may_be_open_as_the_system_allows(process):
    soft, hard = resource.prlimit(process.process.pid, resource.RLIMIT_NOFILE)
    assert soft == min(hard, 65_536) or hard == resource.RLIM_INFINITY


@pytest.mark.parametrize("unbuffered", ["", "1"])  # Python's own buffer of standard error has a lock
def test_a_log_that_nobody_reads_stops_no_decision(unbuffered):
    """Standard error is a pipe that is full: more lines than it takes are logged, and the server answers and ends."""
    port = free_port()
    command = [sys.executable, "-c", "from osml.cli.main import main; main()", "serve", "--port", str(port)]
    flags = ["--drain-s", "0", "--store", "none", "--log-format", "json"]
    server = subprocess.Popen(
        [*command, *flags],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pipesize=4096,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
    )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{url}/readyz", timeout=2).status_code == 200:
                    break
            time.sleep(0.05)
        content = msgspec.json.encode(EXAMPLE)
        with httpx.Client(timeout=20) as client:
            for _ in range(100):  # some 400 bytes a line, 4,096 in the pipe
                answer = client.post(f"{url}/v1/decisions", content=content, headers=JSON)
                assert answer.status_code == 200
    finally:
        server.terminate()
        try:
            assert server.wait(20) == 0
        finally:
            server.kill()
            server.stderr.close()
