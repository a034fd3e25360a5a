"""A policy that takes long decides in a process of its own: no other node waits for it."""

import asyncio
import io
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import httpx
import msgspec
import numpy as np
import pytest
from osml_serving import start
from osml_serving.app import create_app
from osml_serving.decider import Decider
from osml_serving.errors import ApiError
from osml_serving.example import EXAMPLE
from osml_serving.log import Log
from osml_serving.runtime import make_runtime
from osml_serving.settings import load_settings
from osml_serving.slow import policy_process
from osml_serving.slow.policy_process import PolicyProcess
from osml_serving.slow.replies import Reply, Started
from starlette.testclient import TestClient

from osml.base.failure import InputError
from osml.domain import Decision, Observation
from osml.lab.trials.children import free_port
from tests.kit.server import InProcess, Process, Refused, decide, wait_for

JSON = {"content-type": "application/json"}
AGENT_TIMEOUT_S = 0.5  # server.timeout_s


def post(client: httpx.Client, url: str, observation: Observation) -> httpx.Response:
    return client.post(f"{url}/v1/decisions", content=msgspec.json.encode(observation), headers=JSON)


def after(observation: Observation, decision: Decision) -> Observation:
    return msgspec.structs.replace(
        observation,
        seq=observation.seq + 1,
        time_s=observation.time_s + 1,
        partition=decision.partition,
        policy_state=decision.policy_state,
    )


def play_clite(url: str, intervals: int) -> list[Decision]:
    """One agent whose policy begins to search at about its tenth interval."""
    decisions: list[Decision] = []
    observation = msgspec.structs.replace(EXAMPLE, node="searching", policy="clite")
    with httpx.Client(timeout=30) as client:
        for _ in range(intervals):
            answer = post(client, url, observation)
            assert answer.status_code == 200, answer.text
            decisions.append(msgspec.json.decode(answer.content, type=Decision))
            observation = after(observation, decisions[-1])
    return decisions


class Others(threading.Thread):
    """Agents on the default policy, until told to stop: how long each answer took, s."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.took_s: list[float] = []
        self.ends = threading.Event()

    def run(self) -> None:
        with httpx.Client(timeout=30) as client:
            while not self.ends.is_set():
                observation = msgspec.structs.replace(EXAMPLE, node=f"node-{len(self.took_s) % 20}")
                began_s = time.perf_counter()
                assert post(client, self.url, observation).status_code == 200
                self.took_s.append(time.perf_counter() - began_s)
                time.sleep(0.01)

    def stop(self) -> np.ndarray:
        self.ends.set()
        self.join()
        return np.array(self.took_s)


def wait_for_policy(url: str, policy: str) -> None:
    deadline = time.monotonic() + 90
    with httpx.Client() as client:
        while post(client, url, msgspec.structs.replace(EXAMPLE, policy=policy)).status_code == 503:
            assert time.monotonic() < deadline, f"{policy} never became ready"
            time.sleep(0.1)


def test_an_agent_on_clite_makes_nobody_late(start_process):
    url = start_process("--slow-policy-timeout-s", "20").url
    wait_for_policy(url, "clite")
    alone = Others(url)
    alone.start()
    time.sleep(3)
    quiet_s = alone.stop()
    beside = Others(url)
    beside.start()
    decisions = play_clite(url, 16)
    searched = [d.seq for d in decisions if any("no better partition is expected" in r.text for r in d.reasons)]
    busy_s = beside.stop()
    assert searched, "it never searched, so this test shows nothing"
    p99_s = float(np.quantile(busy_s, 0.99))
    assert p99_s < max(5 * float(np.quantile(quiet_s, 0.99)), AGENT_TIMEOUT_S / 2), "clite shows in others' answers"


def test_its_decisions_are_those_of_the_policy_in_this_process(start_process):
    from osml.decide.decide import decide as decide_here

    url = start_process("--slow-policy-timeout-s", "20").url
    wait_for_policy(url, "clite")
    observation = msgspec.structs.replace(EXAMPLE, node="searching", policy="clite")
    for given in play_clite(url, 12):
        assert given == decide_here(observation)
        observation = after(observation, given)


def test_a_batch_waits_for_slow_policies_together_and_keeps_its_order(start_process):
    url = start_process("--slow-policy-timeout-s", "20").url
    wait_for_policy(url, "clite")
    asked = [("a", "clite"), ("b", "osml"), ("c", "clite")]
    observations = [msgspec.structs.replace(EXAMPLE, node=node, policy=policy) for node, policy in asked]
    body = msgspec.json.encode({"observations": observations})
    answer = httpx.post(f"{url}/v1/decisions:batch", content=body, headers=JSON, timeout=30)
    found = [(item["decision"]["node"], item["decision"]["policy"]) for item in answer.json()["decisions"]]
    assert found == asked


def worker_of(pid: int) -> int:
    """The child of the server that runs the policy."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    [found] = [int(c) for c in children if b"osml_serving.slow.worker" in Path(f"/proc/{c}/cmdline").read_bytes()]
    return found


def test_a_process_that_dies_is_replaced_and_the_server_goes_on(start_process):
    server = start_process("--slow-policy-timeout-s", "20")
    wait_for_policy(server.url, "clite")
    first = worker_of(server.process.pid)
    os.kill(first, signal.SIGKILL)
    with httpx.Client() as client:
        assert post(client, server.url, EXAMPLE).status_code == 200
        deadline = time.monotonic() + 10
        while post(client, server.url, msgspec.structs.replace(EXAMPLE, policy="clite")).status_code != 503:
            assert time.monotonic() < deadline, "the server never saw that the process ended"
    wait_for_policy(server.url, "clite")
    assert worker_of(server.process.pid) != first
    assert server.stop() == 0


def test_a_policy_that_cannot_start_is_unavailable_and_the_reason_is_said(start_process, tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['sklearn'] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    url = start_process().url
    wait_for_policy(url, "clite")
    [clite] = httpx.get(f"{url}/readyz").json()["unavailable_policies"]
    assert clite["name"] == "clite"
    assert "needs scikit-learn" in clite["reason"]


def test_a_slow_default_policy_decides_before_the_server_is_ready(start_process):
    flags = ("--policies", "clite", "--slow-policy-timeout-s", "20", "--log-format", "json")
    server = start_process("--policy", "clite", *flags)
    url = server.url

    def said() -> list[str]:
        whole = [line for line in server.errors.read_text().splitlines(keepends=True) if line.endswith("\n")]
        events = [json.loads(line)["event"] for line in whole if line.startswith("{")]  # libraries write there, too
        return [event for event in events if event in ("not_ready", "ready")]

    assert wait_for(lambda: said()[-1:] == ["ready"]), "once the policy decides"
    with httpx.Client(timeout=30) as client:
        assert post(client, url, EXAMPLE).status_code == 200
        refused = post(client, url, msgspec.structs.replace(EXAMPLE, policy="osml"))
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "policy_unavailable")
    assert "the operator does not allow it (--policies)" in refused.json()["error"]["message"]


NEVER = """
import types
from osml_serving.slow import policy_process
policy_process.sys = types.SimpleNamespace(executable="/bin/false")
"""


def test_a_stop_is_obeyed_while_a_slow_default_policy_never_starts(tmp_path):
    server = Process(tmp_path, free_port(), "--policy", "clite", "--drain-s", "0", "--store", "none", before=NEVER)
    try:
        starting = "the process of policy 'clite' is starting"
        assert wait_for(lambda: httpx.get(f"{server.url}/readyz").json()["error"]["message"] == starting, 120)
    finally:
        code = server.stop()
    assert code == 0
    assert f"but takes no decisions: {starting}" in server.errors.read_text()


@pytest.fixture
def stubborn(monkeypatch):
    """A policy process whose answers never come."""

    async def begin(self):
        text = """import sys; print('{"fault":null}', flush=True); [None for line in sys.stdin]"""
        return await asyncio.create_subprocess_exec(
            *("python3", "-c", text), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )

    monkeypatch.setattr(PolicyProcess, "_begin", begin)

    def make(deadline_s: float) -> PolicyProcess:
        decider = Decider(decide, ["stubborn"], Refused, "stubborn", 0)
        return PolicyProcess("stubborn", deadline_s, decider, Log("json", "error"))

    return make


def test_an_observation_has_a_deadline_and_a_node_one_at_a_time(stubborn, monkeypatch):
    monkeypatch.setattr(policy_process, "MAX_WAITING", 2)

    async def scenario():
        process = stubborn(0.5)
        with pytest.raises(ApiError, match="is starting"):
            await process.decide(EXAMPLE, lambda _: None)
        process.start()
        await process.settled.wait()
        nodes = [msgspec.structs.replace(EXAMPLE, node=f"node-{number}") for number in (0, 0, 1, 2, 3, 4)]
        async with asyncio.timeout(60):  # without a deadline they would wait for ever
            answers = await asyncio.gather(*(process.decide(o, lambda _: None) for o in nodes), return_exceptions=True)
        await process.stop()
        return [answer.body.code for answer in answers]

    codes = asyncio.run(scenario())
    assert codes[0] == "policy_late"
    assert codes[1] == "rate_limited"
    assert "overloaded" in codes


def test_a_slow_canary_has_a_deadline_of_its_own_and_its_node_gets_a_decision(stubborn, tmp_path):
    rollout = tmp_path / "rollout.yaml"
    rollout.write_text("schema: osml/rollout/v1\ncanaries: [{name: try, percent: 100, policy: stubborn}]\n")
    decider = Decider(decide, ["turns", "stubborn"], Refused, "turns", 0, slow=["stubborn"])
    given = {"store": "none", "rollout": rollout, "canary_timeout_s": 0.05, "slow_policy_timeout_s": 60}
    log = io.BytesIO()
    runtime = make_runtime(load_settings(given), decider, Log("json", "debug", log))
    with TestClient(create_app(runtime), "http://localhost") as client:
        assert wait_for(runtime.slow["stubborn"].ready.is_set)
        answer = InProcess(client, runtime, log).post(EXAMPLE)
        assert (answer.status_code, answer.json()["policy"]) == (200, "turns")
        assert runtime.metrics.registry.get_sample_value(
            "osml_decisions_total", {"policy": "stubborn", "status": "late"}
        )
    assert b"did not decide within 0.05 s" in log.getvalue()


def test_those_who_wait_for_a_process_that_ends_are_answered_at_once(stubborn, monkeypatch):
    monkeypatch.setattr(policy_process, "RESTART_S", 3600.0)

    async def scenario():
        process = stubborn(3600.0)
        process.start()
        await process.settled.wait()
        nodes = [msgspec.structs.replace(EXAMPLE, node=f"node-{number}") for number in range(3)]
        waiting = [asyncio.create_task(process.decide(o, lambda _: None)) for o in nodes]
        await asyncio.sleep(0.1)  # one is with the process, two are behind it
        os.kill(started[0].pid, signal.SIGKILL)
        async with asyncio.timeout(20):
            answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert not process.ready.is_set()
        await process.stop()
        return [str(answer) for answer in answers]

    begin, started = PolicyProcess._begin, []

    async def remembered(self):
        started.append(await begin(self))
        return started[-1]

    monkeypatch.setattr(PolicyProcess, "_begin", remembered)
    answers = asyncio.run(scenario())
    assert len(answers) == 3
    assert all("its process ended" in answer for answer in answers)


def test_a_process_that_hangs_is_replaced(stubborn, monkeypatch):
    monkeypatch.setattr(policy_process, "STUCK_S", 0.2)
    monkeypatch.setattr(policy_process, "RESTART_S", 0.0)

    async def scenario():
        process = stubborn(1.0)
        process.start()
        await process.settled.wait()
        with pytest.raises(ApiError, match="did not decide within 1 s"):
            await process.decide(EXAMPLE, lambda _: None)
        await asyncio.sleep(0.5)  # who comes now still waits when twice the deadline is over
        with pytest.raises(Exception, match="its process ended"):
            await process.decide(msgspec.structs.replace(EXAMPLE, node="another"), lambda _: None)
        async with asyncio.timeout(20):
            while not process.ready.is_set():
                await asyncio.sleep(0.02)
        await process.stop()

    asyncio.run(scenario())


ANSWERS_LATE = """
import sys, time
print('{"fault":null}', flush=True)
for line in sys.stdin:
    time.sleep(0.5)
    print(sys.argv[1], flush=True)
"""


def test_a_deadline_may_be_longer_than_others_take_to_hang(stubborn, monkeypatch):
    monkeypatch.setattr(policy_process, "STUCK_S", 0.1)
    decision = decide(EXAMPLE)

    async def begin(_self):
        reply = msgspec.json.encode(Reply(0.0, decision)).decode()
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", ANSWERS_LATE, reply), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )

    async def scenario():
        process = stubborn(30.0)
        process.start()
        await process.settled.wait()
        decided = await process.decide(EXAMPLE, lambda _: None)
        await process.stop()
        return decided

    monkeypatch.setattr(PolicyProcess, "_begin", begin)
    assert asyncio.run(scenario()) == decision


SAYS = "import os, sys, time\nwhile not os.path.exists({gate!r}): time.sleep(0.05)\nprint({line!r}, flush=True)"


@pytest.fixture
def turns_is_slow(monkeypatch, tmp_path):
    """A server whose slow default policy starts once; its second process waits for the file `go`, then fails."""
    begun: list[asyncio.subprocess.Process] = []

    async def begin(_self):
        first = not begun
        gate, started = (tmp_path, Started()) if first else (tmp_path / "go", Started("a library is missing"))
        text = SAYS.format(gate=str(gate), line=msgspec.json.encode(started).decode()) + "\nsys.stdin.read()"
        begun.append(
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", text), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
        )
        return begun[-1]

    monkeypatch.setattr(PolicyProcess, "_begin", begin)
    monkeypatch.setattr(policy_process, "RESTART_S", 0.0)
    decider = Decider(decide, ["greedy", "turns"], Refused, "turns", 0, slow=["turns"])
    runtime = make_runtime(load_settings({"store": "none"}), decider, Log("json", "error", io.BytesIO()))
    with TestClient(create_app(runtime), "http://localhost") as client:
        yield InProcess(client, runtime, io.BytesIO()), begun


def test_a_server_is_ready_only_while_its_slow_default_policy_decides(turns_is_slow, tmp_path):
    server, begun = turns_is_slow
    assert wait_for(server.runtime.slow["turns"].ready.is_set)

    def reason() -> str:
        return server.client.get("/readyz").json()["error"]["message"]

    def refusal() -> str:
        return server.post(EXAMPLE).json()["error"]["message"]

    def gauges() -> list[float]:
        value = server.runtime.metrics.registry.get_sample_value
        return [value("osml_ready"), *(value("osml_policy_ready", {"policy": name}) for name in ("greedy", "turns"))]

    assert server.client.get("/readyz").json()["starting_policies"] == []
    assert gauges() == [1, 0, 1], "the decisions of `greedy` are illegal"

    os.kill(begun[0].pid, signal.SIGKILL)
    assert wait_for(lambda: len(begun) == 2)
    starting = "the process of policy 'turns' is starting"
    assert (reason(), refusal(), gauges()) == (starting, starting, [0, 0, 0])
    assert server.post(EXAMPLE).headers["connection"] == "close", "a worker beside it may be ready"

    (tmp_path / "go").touch()
    assert wait_for(lambda: reason() != starting)
    assert reason() == "policy 'turns' is not available: a library is missing"
    assert refusal().startswith("policy 'turns' is not available on this server: a library is missing")
    assert gauges() == [0, 0, 0]


def test_a_process_that_talks_nonsense_is_replaced(stubborn, monkeypatch):
    monkeypatch.setattr(policy_process, "RESTART_S", 0.0)
    begin, begun = PolicyProcess._begin, []

    async def nonsense_first(self):
        begun.append(True)
        if len(begun) > 1:
            return await begin(self)
        return await asyncio.create_subprocess_exec(
            *("python3", "-c", "print('hello')"), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )

    monkeypatch.setattr(PolicyProcess, "_begin", nonsense_first)

    async def scenario():
        process = stubborn(5.0)
        process.start()
        async with asyncio.timeout(20):
            await process.settled.wait()
        await process.stop()

    asyncio.run(scenario())
    assert len(begun) == 2


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        ("osml,magic", "--policies (or OSML_POLICIES) has 'magic', expected some of even, osml"),
        ("even", "--policy (or OSML_POLICY) is 'osml', expected one of even"),
    ],
)
def test_wrong_policies_are_one_sentence(policies, words):
    settings = load_settings({"policies": policies})
    allowed = [name for name in ("even", "osml") if name in policies]
    with pytest.raises(InputError) as caught:
        start.check_policies(settings, allowed, {"even", "osml"} - {*allowed})
    assert str(caught.value) == words
