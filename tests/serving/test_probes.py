import dataclasses

import msgspec
import pytest
from osml_serving.api.health import without_paths
from osml_serving.app import create_app
from osml_serving.example import EXAMPLE
from osml_serving.models.shelf import ModelShelf
from starlette.testclient import TestClient


def test_a_warmed_up_server_is_ready_and_names_its_policies(server):
    assert server.client.get("/readyz").json() == {
        "status": "ready",
        "policies": ["turns"],
        "starting_policies": [],
        "unavailable_policies": [],
        "default_policy": "turns",
        "models": [],
        "refused_models": [],
    }


def test_a_stopping_server_is_alive_and_decides_but_is_not_ready(server, observation):
    server.runtime.readiness.drain()
    answer = server.client.get("/readyz")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_ready")
    assert server.client.get("/healthz").json() == {"status": "ok"}
    assert server.post(observation).status_code == 200


def test_a_default_policy_that_fails_its_warm_up_keeps_the_server_out_of_the_rotation(server):
    server.runtime.decider.policies = ["broken", "turns"]
    server.runtime.decider.default_policy = "broken"
    with TestClient(create_app(server.runtime), "http://localhost") as client:
        message = client.get("/readyz").json()["error"]["message"]
        assert message == "policy 'broken' failed in the warm-up: it raised RuntimeError"


def test_another_policy_that_fails_its_warm_up_is_unavailable_and_the_server_is_ready(server):
    server.runtime.decider.policies = ["broken", "turns"]
    with TestClient(create_app(server.runtime), "http://localhost") as client:
        ready = client.get("/readyz").json()
        assert ready["policies"] == ["turns"]
        assert ready["unavailable_policies"] == [{"name": "broken", "reason": "it raised RuntimeError"}]
        assert client.post("/v1/decisions", json=msgspec.to_builtins(EXAMPLE)).status_code == 200
        wrong = msgspec.structs.replace(EXAMPLE, policy="broken")
        refused = client.post("/v1/decisions", json=msgspec.to_builtins(wrong))
        assert refused.status_code == 422
        assert refused.json()["error"]["code"] == "policy_unavailable"
        assert refused.json()["error"]["message"] == (
            "policy 'broken' is not available on this server: it raised RuntimeError; expected one of turns"
        )


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        (
            "/opt/osml/models/c-x/model.onnx has sha256 ab, the manifest says cd",
            "c-x/model.onnx has sha256 ab, the manifest says cd",
        ),
        ("OSError(2, 'No such file: /home/me/own models/x.onnx')", "OSError(2, 'No such file: own models/x.onnx')"),
        (
            "[ONNXRuntimeError] : Load model from /srv/models/c-x/m.onnx failed",
            "[ONNXRuntimeError] : Load model from m.onnx failed",
        ),
        ("latency/target is 3, see http://host/docs/page", "latency/target is 3, see http://host/docs/page"),
    ],
)
def test_who_shows_no_token_sees_no_folders(reason, shown):
    assert without_paths(reason, "/opt/osml/models") == shown


def test_the_probe_says_which_model_is_refused_and_not_where_it_lies(serve, tmp_path):
    server = serve()
    shelf = ModelShelf(tmp_path / "secret place")
    shelf.reload()
    with TestClient(create_app(dataclasses.replace(server.runtime, shelf=shelf)), "http://localhost") as client:
        answer = client.get("/readyz")
    assert answer.json()["refused_models"] == [
        {"name": "manifest.json", "reason": "manifest.json is missing, expected a model folder with a manifest"}
    ]
    assert b"secret place" in server.log.getvalue() or str(tmp_path) not in answer.text
