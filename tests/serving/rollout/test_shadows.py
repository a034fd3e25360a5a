"""Shadow policies: they see what was applied, keep their own state, and never delay or change an answer."""

import os
import signal
import subprocess
import time
from functools import cache

import httpx
import msgspec
import pytest
from osml_serving.example import EXAMPLE
from osml_serving.models.shelf import ModelShelf
from osml_serving.shadow.follower import QUEUE, Follower
from osml_serving.shadow.messages import Shadowed
from osml_serving.shadow.tally import ShadowTally
from osml_serving.shadow.worker import Shadow, make_shadow

from osml.domain import Assignment, Decision, Observation
from osml.predictors import models_folder
from osml.records import Record
from tests.kit.twin_records import managed

JSON = {"content-type": "application/json"}
PLAN = """
schema: osml/rollout/v1
groups:
  - {name: all, nodes: ["*"], policy: staffing, shadow: [staffing, parties]}
"""


@cache
def shadow() -> Shadow:
    return make_shadow(0, ModelShelf(models_folder()), None)


def beside(record: Record, policy: str, node: str) -> list[Shadowed]:
    """The shadow policy along a record."""
    found: list[Shadowed] = []
    for line in record.lines:
        assert line.decision is not None
        seen = msgspec.structs.replace(line.observation, node=node)
        found.append(shadow().beside(policy, seen, line.decision))
    return found


def test_the_shadow_of_the_policy_that_decides_decides_the_same():
    record = managed(60)  # parties decides
    found = beside(record, "parties", "same")
    assert sum(one.same for one in found) >= 0.9 * len(found)
    assert all(one.failed is None for one in found)


def test_a_service_that_comes_costs_a_shadow_nothing_of_what_it_knows():
    record, told = managed(20), []

    def decide(seen):
        told.append(seen)
        return record.lines[-1].decision

    follower = Shadow(decide, None)
    for line in record.lines:
        seen = msgspec.structs.replace(line.observation, node="n")
        if line.observation.seq == record.lines[10].observation.seq:  # nobody knows a partition for all of them yet
            seen = msgspec.structs.replace(seen, partition=None)
        follower.beside("osml", seen, line.decision)
    assert [one.outcome is None for one in told] == [one.partition is None or one is told[0] for one in told]


def test_another_policy_is_told_apart_and_says_why():
    found = beside(managed(60), "staffing", "other")
    assert sum(one.same for one in found) < 0.5 * len(found)
    assert max(one.cores for one in found) > 0
    assert all(0 <= one.cores <= EXAMPLE.platform.cores + 72 for one in found)


def test_an_agent_that_starts_anew_gets_a_shadow_without_the_old_state():
    record = managed(60)
    first = beside(record, "parties", "again")[:5]
    assert beside(record, "parties", "again")[:5] == first


def test_a_policy_that_cannot_decide_is_a_failed_interval_and_no_more():
    observation = msgspec.structs.replace(EXAMPLE, policy=None)
    decision = shadow()._decider(msgspec.structs.replace(EXAMPLE, policy="even"))  # pyright: ignore[reportPrivateUsage]
    found = shadow().beside("no-such-policy", observation, decision)
    assert "is unknown" in (found.failed or "")


class Twins:
    """An outlook that says how many options it was given."""

    def e_s(self, observation: Observation, options: list[list[Assignment]]) -> list[float] | None:
        return [0.2, 0.1] if len(options) == 2 else None


class Raising:
    """An outlook with a defect."""

    def e_s(self, observation: Observation, options: list[list[Assignment]]) -> list[float] | None:
        raise ZeroDivisionError(f"no twin can tell of {observation.node}")


def test_an_outlook_that_raises_is_a_failed_interval_and_no_more():
    line = managed(60).lines[-1]
    assert line.decision is not None
    found = Shadow(shadow()._decider, Raising()).beside("staffing", line.observation, line.decision)  # pyright: ignore[reportPrivateUsage]
    assert "no twin can tell" in (found.failed or "")


def test_an_outlook_predicts_both():
    predicting = Shadow(shadow()._decider, Twins())  # pyright: ignore[reportPrivateUsage]
    record = managed(60)
    line = record.lines[-1]
    assert line.decision is not None
    found = predicting.beside("staffing", line.observation, line.decision)
    assert (found.e_s_decided, found.e_s) == (0.2, 0.1)
    tally = ShadowTally()
    tally.add(found)
    assert (tally.sums["staffing"].predicted, tally.sums["staffing"].e_s) == (1, pytest.approx(0.1))


def test_what_comes_while_the_queue_is_full_is_left_out_and_counted(serve):
    lost: list[int] = []
    server = serve()
    follower = Follower((0, None, None), lambda _one: None, lambda: lost.append(1), server.runtime.log)
    follower._task = object()  # pyright: ignore[reportPrivateUsage,reportAttributeAccessIssue] - nobody empties it
    for _ in range(QUEUE + 5):
        follower.look(["parties"], EXAMPLE, b"{}")
    assert len(lost) == 5


def shadow_processes(parent: int) -> list[int]:
    command = ["pgrep", "-P", str(parent), "-f", "shadow.worker"]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return [int(line) for line in found.stdout.split()]


def drive(client: httpx.Client, url: str, intervals: int, first: int = 0) -> list[dict]:
    answers = []
    for seq in range(first, first + intervals):
        observation = msgspec.structs.replace(EXAMPLE, node="edge-1", seq=seq, time_s=EXAMPLE.time_s + seq, policy=None)
        answer = client.post(f"{url}/v1/decisions", content=msgspec.json.encode(observation), headers=JSON)
        assert answer.status_code == 200
        answers.append(answer.json())
    return answers


def wait_for(client: httpx.Client, url: str, intervals: int) -> dict:
    deadline = time.monotonic() + 60
    while True:
        sums = {one["policy"]: one for one in client.get(f"{url}/v1/rollout").json()["shadows"]}
        if "parties" in sums and sums["parties"]["same"] + sums["parties"]["other"] >= intervals:
            return sums
        assert time.monotonic() < deadline, sums
        time.sleep(0.1)


def test_a_server_follows_its_shadow_policies_and_outlives_their_process(start_process, tmp_path):
    file = tmp_path / "rollout.yaml"
    file.write_text(PLAN)
    plain, running = start_process("--policy", "staffing"), start_process("--rollout", str(file))
    with httpx.Client(timeout=30) as client:
        with_shadows = drive(client, running.url, 10)
        without = drive(client, plain.url, 10)
        for one, other in zip(with_shadows, without, strict=True):
            assert one == other, "shadow policies change no decision"
        wait_for(client, running.url, 10)
        for number in shadow_processes(running.process.pid):
            os.kill(number, signal.SIGKILL)
        deadline = time.monotonic() + 60
        for seq in range(10, 10_000):  # what the dead process had in its pipe is lost
            drive(client, running.url, 1, first=seq)
            parties = client.get(f"{running.url}/v1/rollout").json()["shadows"][0]
            if parties["same"] + parties["other"] > 10:
                break
            assert time.monotonic() < deadline, parties
            time.sleep(0.1)
        newest = client.get(f"{running.url}/v1/nodes/edge-1/rollout").json()
        assert {one["policy"] for one in newest["shadows"]} == {"staffing", "parties"}
        assert msgspec.convert(with_shadows[0], Decision).policy == "staffing"
