import msgspec
from osml_serving.app import create_app
from osml_serving.example import EXAMPLE
from starlette.testclient import TestClient


def test_a_warmed_up_server_is_ready_and_names_its_policies(server):
    assert server.client.get("/readyz").json() == {
        "status": "ready",
        "policies": ["turns"],
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


def test_a_policy_that_fails_its_warm_up_keeps_the_server_out_of_the_rotation(server):
    server.runtime.decider.policies = ["broken", "turns"]
    with TestClient(create_app(server.runtime)) as client:
        message = client.get("/readyz").json()["error"]["message"]
        assert message == "policy 'broken' failed its warm-up: the policy raised RuntimeError"
        assert client.post("/v1/decisions", json=msgspec.to_builtins(EXAMPLE)).status_code == 200
