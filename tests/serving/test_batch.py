"""`POST /v1/decisions:batch`: each observation by itself."""

import hashlib

import msgspec
import pytest
from osml_serving.example import EXAMPLE

JSON = {"content-type": "application/json"}


def post(server, *observations, **headers):
    content = msgspec.json.encode({"observations": observations})
    return server.client.post("/v1/decisions:batch", content=content, headers={**JSON, **headers})


def changed(**fields):
    return msgspec.structs.replace(EXAMPLE, **fields)


def test_a_batch_answers_as_single_requests_do(server):
    observations = [changed(seq=n, node=f"n{n % 2}", policy_state=str(n)) for n in range(5)]
    items = post(server, *observations).json()["decisions"]
    assert [item["decision"] for item in items] == [server.post(one).json() for one in observations]


def test_a_bad_one_does_not_spoil_the_rest(server):
    wrong = msgspec.to_builtins(EXAMPLE)
    wrong["services"][0]["target_ms"] = 0
    answer = post(server, changed(seq=1), wrong, changed(policy="magic"), changed(policy="broken"), 7, changed(seq=2))
    assert answer.status_code == 200
    items = answer.json()["decisions"]
    assert [item["decision"]["seq"] if "decision" in item else item["error"]["code"] for item in items] == [
        1,
        "invalid_observation",
        "request_refused",
        "policy_failed",
        "invalid_observation",
        2,
    ]
    assert items[1]["error"]["field"] == "services[0].target_ms"
    metrics = server.client.get("/metrics").text
    assert 'osml_decisions_total{policy="turns",status="ok"} 2.0' in metrics
    assert 'osml_errors_total{code="invalid_observation"} 2.0' in metrics


def test_every_node_of_a_batch_needs_its_token(serve, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"node-17:{hashlib.sha256(b'secret').hexdigest()}\n")
    tokens.chmod(0o600)
    server = serve(token_file=tokens)
    items = post(server, EXAMPLE, changed(node="node-18"), authorization="Bearer secret").json()["decisions"]
    assert ["decision" in item for item in items] == [True, False]
    assert items[1]["error"]["code"] == "forbidden"


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"[]", 422, None),
        (b'{"observations":[]}', 422, "observations"),
        (msgspec.json.encode({"observations": [EXAMPLE] * 33}), 422, "observations"),
        (b'{"observations":[{', 400, None),
    ],
)
def test_an_envelope_that_is_wrong_is_refused_whole(server, body, status, field):
    answer = server.client.post("/v1/decisions:batch", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["error"].get("field")) == (status, field), answer.text


def test_a_fault_of_the_server_costs_one_item(server, monkeypatch):
    monkeypatch.setattr(server.runtime.history, "append", lambda *_: 1 / 0)
    answer = post(server, EXAMPLE)
    assert (answer.status_code, answer.json()["decisions"][0]["error"]["code"]) == (200, "internal")
    assert b"ZeroDivisionError" in server.log.getvalue()
