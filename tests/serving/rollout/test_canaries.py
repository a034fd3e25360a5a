"""Canaries in a server: who gets them, who falls back, and that a return lasts and reaches the other replicas."""

import asyncio
import shutil
from pathlib import Path

import msgspec
import pytest
from osml_serving.example import EXAMPLE

from osml.domain import Observation
from osml.predictors import models_folder

PLAN = """
schema: osml/rollout/v1
groups:
  - {{name: edge, nodes: ["edge-*"]}}
canaries:
  - name: {name}
    percent: 100
    {tries}
    limits: {{node_hours: 0.01, settle_s: 0, failures: 2}}
"""


def write(folder: Path, name: str = "try", tries: str = "policy: greedy") -> Path:
    file = folder / "rollout.yaml"
    file.write_text(PLAN.format(name=name, tries=tries))
    return file


def on(node: str, seq: int = 0, **changes: object) -> Observation:
    return msgspec.structs.replace(EXAMPLE, node=node, seq=seq, **changes)


def test_nodes_without_a_policy_get_the_group_s_and_the_list_says_so(serve, tmp_path):
    file = tmp_path / "rollout.yaml"
    file.write_text('schema: osml/rollout/v1\ngroups: [{name: edge, nodes: ["edge-*"], policy: turns}]')
    server = serve(rollout=file)
    assert server.post(on("edge-1")).json()["policy"] == "turns"
    lines = server.client.get("/v1/nodes").json()["nodes"]
    assert [(line["group"], line["canary"]) for line in lines] == [("edge", None)]
    assert server.client.get("/v1/nodes/edge-1/rollout").json()["group"] == "edge"
    assert server.client.get("/v1/nodes/core-1/rollout").status_code == 404


def test_a_canary_whose_decisions_fail_harms_no_node_and_returns(serve, tmp_path, monkeypatch):
    monkeypatch.setattr("osml_serving.rollout.plan._wrong", lambda _plan, _policies: None)
    server = serve(rollout=write(tmp_path, tries="policy: broken"))
    for seq in range(3):
        answer = server.post(on("edge-1", seq))
        assert answer.status_code == 200
        assert answer.json()["policy"] == "turns", "the node's own policy decides instead"
    asyncio.run(server.runtime.rollout.tend())
    state = server.client.get("/v1/rollout").json()["canaries"][0]
    assert state["state"] == "returned"
    assert "failed 3 times" in state["why"]
    server.post(on("edge-1", 4))
    assert server.client.get("/v1/nodes/edge-1/rollout").json()["canary"] is None
    assert 'osml_canary_returned{canary="try"} 1.0' in server.client.get("/metrics").text


def test_a_node_that_names_its_policy_is_in_no_canary(serve, tmp_path, monkeypatch):
    monkeypatch.setattr("osml_serving.rollout.plan._wrong", lambda _plan, _policies: None)
    server = serve(rollout=write(tmp_path, tries="policy: broken"))
    assert server.post(on("edge-1", policy="turns")).status_code == 200
    assert server.client.get("/v1/rollout").json()["canaries"][0]["canary"]["nodes"] == 0


def test_a_changed_file_is_taken_up_and_a_wrong_one_changes_nothing(serve, tmp_path):
    file = write(tmp_path, tries="policy: turns")
    server = serve(rollout=file)
    server.post(on("edge-1"))
    file.write_text("schema: nonsense")
    server.runtime.rollout.reload()
    assert [one["name"] for one in server.client.get("/v1/rollout").json()["canaries"]] == ["try"]
    assert b"the rollout file was not reloaded, the old one stays" in server.log.getvalue()
    write(tmp_path, "second", "policy: turns")
    server.runtime.rollout.reload()
    assert [one["name"] for one in server.client.get("/v1/rollout").json()["canaries"]] == ["second"]


def test_what_was_counted_stays_while_a_canary_tries_the_same(serve, tmp_path):
    file = write(tmp_path, tries="policy: turns")
    server = serve(rollout=file)
    for seq in range(3):
        server.post(on("edge-1", seq))
    file.write_text(file.read_text().replace("percent: 100", "percent: 99.99"))
    server.runtime.rollout.reload()
    assert server.client.get("/v1/rollout").json()["canaries"][0]["canary"]["seconds"] > 0


def test_a_return_is_in_the_store_and_another_replica_obeys_it(serve, tmp_path, monkeypatch):
    monkeypatch.setattr("osml_serving.rollout.plan._wrong", lambda _plan, _policies: None)
    file, store = write(tmp_path, tries="policy: broken"), f"sqlite:///{tmp_path}/shared.db"
    first, second = serve(rollout=file, store=store), serve(rollout=file, store=store)
    for seq in range(2):
        first.post(on("edge-1", seq))
    first.client.portal.call(first.runtime.rollout.tend)
    second.client.portal.call(second.runtime.rollout.tend)
    assert second.client.get("/v1/rollout").json()["canaries"][0]["state"] == "returned"
    third = serve(rollout=file, store=store)
    third.client.portal.call(third.runtime.rollout.tend)
    assert "failed 2 times" in third.client.get("/v1/rollout").json()["canaries"][0]["why"]


def test_models_decide_once_they_are_open_and_damaged_ones_never(serve, tmp_path):
    good = shutil.copytree(models_folder(), tmp_path / "good")
    server = serve(rollout=write(tmp_path, tries=f"models: {good}\n    policy: turns"))
    assert server.client.get("/v1/rollout").json()["canaries"][0]["state"] in ("waits", "runs")
    server.client.portal.call(server.runtime.rollout.tend)
    bad = shutil.copytree(models_folder(), tmp_path / "bad")
    next(bad.rglob("model.onnx")).write_bytes(b"no model")
    write(tmp_path, "bad-models", f"models: {bad}")
    server.runtime.rollout.reload()
    server.client.portal.call(server.runtime.rollout.tend)
    state = server.client.get("/v1/rollout").json()["canaries"][0]
    assert state["state"] == "returned"
    assert "is refused" in state["why"]


def test_only_tokens_for_all_nodes_see_the_rollout(serve, tmp_path):
    import hashlib

    tokens = tmp_path / "tokens"
    tokens.write_text(f"edge-1:{hashlib.sha256(b'small').hexdigest()}\n*:{hashlib.sha256(b'large').hexdigest()}\n")
    tokens.chmod(0o600)
    server = serve(token_file=tokens)
    for token, status in (("small", 403), ("large", 200)):
        headers = {"authorization": f"Bearer {token}"}
        assert server.client.get("/v1/rollout", headers=headers).status_code == status


@pytest.mark.parametrize("policy", ["unknown", "clite "])
def test_a_plan_with_an_unknown_policy_stops_the_start(serve, tmp_path, policy):
    from osml.base.failure import InputError

    with pytest.raises(InputError, match="expected one of turns"):
        serve(rollout=write(tmp_path, tries=f"policy: '{policy}'"))
