import json

import msgspec
import pytest
from osml_serving.example import EXAMPLE

from osml.domain import Decision


def changed(**fields):
    return msgspec.structs.replace(EXAMPLE, **fields)


def test_an_observation_gets_a_decision_for_the_same_node_and_interval(server, observation):
    answer = server.post(observation)
    assert answer.status_code == 200
    decision = msgspec.json.decode(answer.content, type=Decision)
    assert (decision.node, decision.seq, decision.policy) == (observation.node, observation.seq, "turns")
    assert [assignment.service for assignment in decision.assignments] == ["moses", "xapian", "stream"]


def test_the_answer_depends_on_the_request_alone(server, serve):
    second = changed(seq=1, policy_state="1")
    first_server = server.post(second).content
    assert serve().post(second).content == first_server
    assert server.post(second).content == first_server


def test_a_refused_observation_is_the_clients_fault_and_names_the_field(server):
    answer = server.post(changed(policy="magic"))
    assert answer.status_code == 422
    assert answer.json() == {
        "error": {
            "code": "request_refused",
            "message": "policy 'magic' is unknown, expected one of greedy, turns",
            "field": "policy",
        }
    }


@pytest.mark.parametrize("policy", ["broken", "greedy"])
def test_a_policy_that_fails_costs_one_request_and_leaves_a_trace(server, observation, policy):
    answer = server.post(changed(policy=policy))
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "policy_failed"
    assert "Traceback" not in answer.text
    line = json.loads(server.log.getvalue().splitlines()[-1])
    assert (line["level"], line["event"], line["node"]) == ("error", "policy_failed", "node-17")
    assert ("this policy is broken" if policy == "broken" else "expected CPUs of") in line["traceback"]
    assert server.post(observation).status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        (b"", 400, "bad_json", None),
        (b"{", 400, "bad_json", None),
        (b"\xff\xfe{}", 400, "bad_json", None),
        (b'{"node":"\xff"}', 400, "bad_json", None),
        (b'{"node":"\\ud800"}', 400, "bad_json", None),
        (b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "bad_json", None),
        (b"[]", 422, "invalid_observation", None),
        (b'{"node":3}', 422, "invalid_observation", "node"),
        (b'{"node":"a","seq":-1}', 422, "invalid_observation", "seq"),
    ],
)
def test_a_body_that_is_no_observation_is_refused_in_one_sentence(server, body, status, code, field):
    answer = server.post(body)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert error["code"] == code
    assert error.get("field") == field
    assert "\n" not in error["message"]


def test_the_field_of_a_nested_fault_is_its_path(server):
    body = msgspec.to_builtins(EXAMPLE)
    body["services"][1]["target_ms"] = 0
    error = server.post(msgspec.json.encode(body)).json()["error"]
    assert error["field"] == "services[1].target_ms"
    assert "> 0" in error["message"]


@pytest.mark.parametrize("declared", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_what_a_browser_posts_for_a_stranger_is_refused(server, observation, declared):
    answer = server.post(observation, **{"content-type": declared})
    assert answer.status_code == 415
    assert answer.json()["error"]["hint"] == "send the header 'Content-Type: application/json'"


def test_a_runaway_node_is_slowed_down_and_the_others_are_not(serve):
    server = serve(max_node_rate=0.5)
    assert server.post(EXAMPLE).status_code == 200
    refused = server.post(EXAMPLE)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert server.post(changed(node="node-18")).status_code == 200


def test_every_decision_is_one_log_line(server, observation):
    server.post(observation)
    line = json.loads(server.log.getvalue().splitlines()[-1])
    assert line.pop("duration_ms") > 0
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "event": "decision",
        "node": "node-17",
        "seq": 0,
        "policy": "turns",
        "e_s": 0.3,
        "changes": 1,
        "reasons": ["it is the turn of moses"],
    }


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nope", 404, "not_found"),
        ("GET", "/static/nope.js", 404, "not_found"),
        ("GET", "/v1/decisions", 405, "method_not_allowed"),
        ("DELETE", "/healthz", 405, "method_not_allowed"),
    ],
)
def test_the_frameworks_own_errors_have_the_one_shape(server, method, path, status, code):
    answer = server.client.request(method, path)
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == code


def test_a_fault_of_the_server_is_answered_and_logged(server, observation, monkeypatch):
    monkeypatch.setattr(server.runtime.history, "append", lambda *_: 1 / 0)
    answer = server.post(observation)
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal"
    assert "ZeroDivisionError" in json.loads(server.log.getvalue().splitlines()[-1])["traceback"]
