"""The benchmark of the server sends experiences as agents do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
from starlette.testclient import TestClient

from osml.domain import Decision, Experience, Experiences
from osml.lab.benchmarks.bench_server import FULL, ROUNDS, Node, batches
from osml.lab.benchmarks.plain_app import make_app
from tests.kit.experiences import experience_of

COURIER = Path(__file__).parents[2] / "actuator/src/experience/courier.h"


def test_the_limits_are_those_of_the_agent() -> None:
    text = COURIER.read_text()
    assert re.search(r"period_s = (\d+);", text)[1] == str(ROUNDS)  # type: ignore[index]
    kib, shift = re.search(r"max_bytes = std::size_t\{(\d+)\} << (\d+)U;", text).groups()  # type: ignore[union-attr]
    assert int(kib) << int(shift) == FULL


def test_every_experience_is_sent_once_in_bodies_that_are_not_too_long() -> None:
    given: list[Experience] = [experience_of(seq) for seq in range(300)]
    bodies = list(batches(given))
    assert len(bodies) > 1
    assert all(len(body) <= FULL + 1024 for body in bodies)
    sent = [one for body in bodies for one in msgspec.json.decode(body, type=Experiences).experiences]
    assert sent == given


def test_the_plain_server_checks_our_observations_and_answers_a_decision() -> None:
    client: Any = TestClient(make_app())
    node = Node("node-17")
    body = msgspec.json.encode(node.observation)
    answer = client.post("/v1/decisions", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 200, answer.text
    node.take(msgspec.json.decode(answer.content, type=Decision))
    wrong = body.replace(b'"seq":0', b'"seq":"first"')
    answer = client.post("/v1/decisions", content=wrong, headers={"content-type": "application/json"})
    assert answer.status_code == 422
