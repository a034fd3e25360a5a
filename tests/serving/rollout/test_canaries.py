"""Canaries in a server: who gets them, who falls back, and that a return lasts and reaches the other replicas."""

import hashlib
import io
import json
import shutil
import threading
import time
from itertools import pairwise
from pathlib import Path

import httpx
import msgspec
import pytest
from osml_serving.decider import Decider, installed_decider
from osml_serving.example import EXAMPLE
from osml_serving.log import Log
from osml_serving.rollout.canary_models import CanaryModels, open_canary_models
from osml_serving.shadow.messages import Shadowed

from osml.base.failure import InputError
from osml.domain import DRY_RUN, Decision, Latency, Observation, Outcome
from osml.experiences.outcome import CanaryReturn
from osml.predictors import models_folder
from tests.kit.server import UNSENDABLE, InProcess, Refused, decide

JSON = {"content-type": "application/json"}
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


def write(folder: Path, name: str = "try", tries: str = "policy: broken") -> Path:
    file = folder / "rollout.yaml"
    file.write_text(PLAN.format(name=name, tries=tries))
    return file


def on(node: str, seq: int = 0, **changes: object) -> Observation:
    return msgspec.structs.replace(EXAMPLE, node=node, seq=seq, **changes)


def tend(server: InProcess) -> None:
    portal = server.client.portal
    assert portal is not None
    portal.call(server.runtime.rollout.tend)


def tend_until_the_store_answers(server: InProcess) -> None:
    """On a busy machine it may not answer at once; a server asks it again every few seconds."""
    for _ in range(20):
        tend(server)
        if canary(server)["state"] != "waits":
            return
        time.sleep(0.5)


def canary(server: InProcess) -> dict:
    return server.client.get("/v1/rollout").json()["canaries"][0]


def test_nodes_without_a_policy_get_the_group_s_and_the_list_says_so(serve, tmp_path):
    file = tmp_path / "rollout.yaml"
    file.write_text('schema: osml/rollout/v1\ngroups: [{name: edge, nodes: ["edge-*"], policy: turns}]')
    server = serve(rollout=file)
    assert server.post(on("edge-1")).json()["policy"] == "turns"
    lines = server.client.get("/v1/nodes").json()["nodes"]
    assert [(line["group"], line["canary"]) for line in lines] == [("edge", None)]
    assert server.client.get("/v1/nodes/edge-1/rollout").json()["group"] == "edge"
    assert server.client.get("/v1/nodes/core-1/rollout").status_code == 404


@pytest.mark.parametrize("policy", ["broken", "greedy", *UNSENDABLE])
def test_a_canary_whose_decisions_fail_harms_no_node_and_returns(serve, tmp_path, policy):
    server = serve(rollout=write(tmp_path, tries=f"policy: {policy}"))
    for seq in range(3):
        for node in ("edge-1", "edge-2"):
            answer = server.post(on(node, seq))
            assert answer.status_code == 200
            assert answer.json()["policy"] == "turns", "the node's own policy decides instead"
    metrics = server.client.get("/metrics").text
    assert f'osml_decisions_total{{policy="{policy}",status="failed"}} 6.0' in metrics
    assert server.client.get("/v1/nodes/edge-1/rollout").json()["canary"] is None
    events = server.client.get("/v1/fleet/events").json()["events"]
    assert events == [], "a fallback is no change of the policy"
    tend(server)
    assert canary(server)["state"] == "returned"
    assert "6 of 6 decisions failed on 2 of its nodes" in canary(server)["why"]
    assert 'osml_canary_returned{canary="try"} 1.0' in server.client.get("/metrics").text


def test_one_node_alone_does_not_end_a_canary_of_many(serve, tmp_path):
    server = serve(rollout=write(tmp_path, tries="policy: turns"))
    for seq in range(4):
        for node in ("edge-1", "edge-2", "edge-3"):
            server.post(on(node, seq))
    for _ in range(9):
        server.runtime.rollout._tallies["try"].add_failure("edge-1", "canary")
    tend(server)
    assert canary(server)["state"] == "runs"


def test_a_batch_falls_back_item_by_item(serve, tmp_path):
    server = serve(rollout=write(tmp_path))
    body = {"observations": [json.loads(msgspec.json.encode(on(node))) for node in ("edge-1", "core-1")]}
    decided = server.client.post("/v1/decisions:batch", json=body).json()["decisions"]
    assert [item["decision"]["policy"] for item in decided] == ["turns", "turns"]


def test_a_node_that_names_its_policy_is_in_no_canary(serve, tmp_path):
    server = serve(rollout=write(tmp_path))
    assert server.post(on("edge-1", policy="turns")).status_code == 200
    assert canary(server)["canary"]["nodes"] == 0


def test_a_policy_that_is_withdrawn_later_costs_nobody_a_decision(serve, tmp_path):
    file = tmp_path / "rollout.yaml"
    file.write_text(
        PLAN.format(name="try", tries="group: edge\n    policy: broken").replace('"]}', '"], policy: greedy}')
    )
    server = serve(rollout=file)
    for policy in ("broken", "greedy"):
        server.runtime.decider.withdraw(policy, "a library is missing")
    assert server.post(on("edge-1")).json()["policy"] == "turns"
    assert b"group 'edge' names policy 'greedy', which is not available" in server.log.getvalue()
    tend(server)
    assert "is not available: a library is missing" in canary(server)["why"]
    server.runtime.rollout.reload()
    assert b"the rollout file was not reloaded" in server.log.getvalue(), "a new plan may not name it any more"


def write_models_for_greedy(folder: Path) -> Path:
    """A canary of models for nodes whose group has the policy `greedy`."""
    file = write(folder, tries="group: edge\n    models: /next")
    file.write_text(file.read_text().replace('"]}', '"], policy: greedy}'))
    return file


def with_models(server: InProcess, folder: Path, asked: list[str | None]) -> None:
    """Take up the canary of models; its policies decide as `turns` does, `asked` gets what decides with the models."""

    def decided(observation: Observation, **_given: object) -> Decision:
        asked.append(observation.policy)
        return decide(msgspec.structs.replace(observation, policy="turns"))

    like = server.runtime.decider
    models = Decider(decided, like.policies, Refused, like.default_policy, 0)
    models.unavailable.update(like.unavailable)
    server.runtime.rollout._open_models = lambda _folder: CanaryModels(models, server.runtime.shelf)
    like.takes_models = lambda policy: policy == "greedy"
    write_models_for_greedy(folder)
    server.runtime.rollout.reload()


def test_models_do_not_return_for_a_policy_that_is_not_available(serve, tmp_path):
    (tmp_path / "rollout.yaml").write_text("schema: osml/rollout/v1")
    server = serve(rollout=tmp_path / "rollout.yaml")
    asked: list[str | None] = []
    with_models(server, tmp_path, asked)
    server.runtime.decider.withdraw("greedy", "a library is missing")
    tend(server)
    for seq in range(3):
        for node in ("edge-1", "edge-2"):
            assert server.post(on(node, seq)).json()["policy"] == "turns"
    tend(server)
    assert (canary(server)["state"], canary(server)["canary"]["failures"], asked) == ("runs", 0, [])
    assert b"group 'edge' names policy 'greedy', which is not available" in server.log.getvalue()


def test_models_are_tried_with_the_policies_of_their_nodes(serve, tmp_path):
    (tmp_path / "rollout.yaml").write_text("schema: osml/rollout/v1")
    server = serve(rollout=tmp_path / "rollout.yaml")
    asked: list[str | None] = []
    with_models(server, tmp_path, asked)
    tend(server)
    assert (canary(server)["state"], asked) == ("runs", ["greedy"]), "the default policy takes no models"


def test_policies_with_models_say_the_true_reason_why_they_do_not_decide():
    like = installed_decider("osml", 0, allowed=["osml", "even"])
    like.withdraw("even", "a library is missing")
    opened = open_canary_models(like, models_folder(), Log("json", "error", io.BytesIO()))
    assert opened.decider.unavailable["even"] == "a library is missing"
    assert opened.decider.unavailable["clite"] == "the operator does not allow it (--policies)"


def test_a_changed_file_is_taken_up_and_a_wrong_one_changes_nothing(serve, tmp_path):
    file = write(tmp_path, tries="policy: turns")
    server = serve(rollout=file)
    server.post(on("edge-1"))
    for wrong in ("schema: nonsense", "schema: 2024-13-45"):
        file.write_text(wrong)
        server.runtime.rollout.reload()
        assert canary(server)["name"] == "try"
    assert b"the rollout file was not reloaded, the old one stays" in server.log.getvalue()
    write(tmp_path, "second", "policy: turns")
    server.runtime.rollout.reload()
    assert canary(server)["name"] == "second"


def test_what_was_counted_stays_while_a_canary_tries_the_same(serve, tmp_path):
    file = write(tmp_path, tries="policy: turns")
    server = serve(rollout=file)
    for seq in range(3):
        server.post(on("edge-1", seq))
    file.write_text(file.read_text().replace("percent: 100", "percent: 99.99"))
    server.runtime.rollout.reload()
    assert canary(server)["canary"]["seconds"] > 0
    file.write_text(file.read_text().replace('"edge-*"]', '"edge-*"], policy: turns'))
    server.runtime.rollout.reload()
    assert canary(server)["canary"]["seconds"] == 0, "it is compared to another policy now"


def test_a_return_is_in_the_store_and_another_replica_obeys_it(serve, tmp_path):
    file, store = write(tmp_path), f"sqlite:///{tmp_path}/shared.db"
    first, second = serve(rollout=file, store=store), serve(rollout=file, store=store)
    tend(first)
    for seq in range(2):
        for node in ("edge-1", "edge-2"):
            first.post(on(node, seq))
    tend(first)
    tend_until_the_store_answers(second)
    assert canary(second)["state"] == "returned"
    third = serve(rollout=file, store=store)
    assert canary(third)["state"] in ("waits", "returned"), "it decides for nobody before the store was read"
    tend_until_the_store_answers(third)
    assert "decisions failed on 2 of its nodes" in canary(third)["why"]


def test_without_its_store_no_canary_decides(serve, tmp_path):
    (tmp_path / "file").write_text("no folder")
    server = serve(rollout=write(tmp_path), store=f"sqlite:///{tmp_path}/file/away.db")
    assert server.post(on("edge-1")).status_code == 200
    tend(server)
    assert canary(server)["state"] == "waits"
    assert b"the experience store does not answer, canaries that returned are not known" in server.log.getvalue()


def test_a_return_is_saved_as_soon_as_the_store_takes_it(serve, tmp_path):
    server = serve(rollout=write(tmp_path), store=f"sqlite:///{tmp_path}/shared.db")
    tend(server)
    server.runtime.rollout._returns.add(CanaryReturn("gone", 1.0, "an old one"))
    (tmp_path / "rollout.yaml").write_text("schema: osml/rollout/v1")
    server.runtime.rollout.reload()
    tend(server)
    other = serve(rollout=write(tmp_path, "gone", "policy: turns"), store=f"sqlite:///{tmp_path}/shared.db")
    tend(other)
    assert canary(other)["why"] == "an old one"


def test_damaged_models_never_decide(serve, tmp_path):
    bad = shutil.copytree(models_folder(), tmp_path / "bad")
    next(bad.rglob("model.onnx")).write_bytes(b"no model")
    server = serve(rollout=write(tmp_path, "bad-models", f"models: {bad}"))
    assert server.post(on("edge-1")).status_code == 200
    tend(server)
    assert canary(server)["state"] == "returned"
    assert "is refused" in canary(server)["why"]


def test_models_that_were_opened_for_a_former_file_are_not_used(serve, tmp_path):
    """The file changes while the first folder is being opened."""
    opening, go_on = threading.Event(), threading.Event()
    opened: list[str] = []
    (tmp_path / "rollout.yaml").write_text("schema: osml/rollout/v1")
    server = serve(rollout=tmp_path / "rollout.yaml")

    def slow(folder: Path) -> CanaryModels:
        opened.append(str(folder))
        opening.set()
        go_on.wait(20)
        return CanaryModels(server.runtime.decider, server.runtime.shelf)

    server.runtime.rollout._open_models = slow
    write(tmp_path, "try", "models: /a")
    server.runtime.rollout.reload()
    tending = threading.Thread(target=tend, args=(server,))
    tending.start()
    assert opening.wait(20)
    write(tmp_path, "try", "models: /b")
    server.runtime.rollout.reload()
    go_on.set()
    tending.join(20)
    tend(server)
    assert opened == ["/a", "/b"], "what was opened for the former file is dropped"
    assert canary(server)["state"] == "runs"


def test_only_tokens_for_all_nodes_see_the_rollout(serve, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"edge-1:{hashlib.sha256(b'small').hexdigest()}\n*:{hashlib.sha256(b'large').hexdigest()}\n")
    tokens.chmod(0o600)
    server = serve(token_file=tokens)
    for token, status in (("small", 403), ("large", 200)):
        headers = {"authorization": f"Bearer {token}"}
        assert server.client.get("/v1/rollout", headers=headers).status_code == status


@pytest.mark.parametrize("policy", ["unknown", "clite "])
def test_a_plan_with_an_unknown_policy_stops_the_start(serve, tmp_path, policy):
    with pytest.raises(InputError, match="expected one of broken, greedy, turns"):
        serve(rollout=write(tmp_path, tries=f"policy: '{policy}'"))


def test_workers_that_could_not_tell_each_other_of_a_return_get_no_canary(serve, tmp_path):
    file = write(tmp_path, tries="policy: turns")
    with pytest.raises(InputError, match=r"has canary 'try', but --store is none and there are several --workers"):
        serve(rollout=file, workers=2)
    assert canary(serve(rollout=file, workers=2, store=f"sqlite:///{tmp_path}/x.db"))["state"] == "waits"
    file.write_text("schema: osml/rollout/v1")
    server = serve(rollout=file, workers=2)
    write(tmp_path, tries="policy: turns")
    server.runtime.rollout.reload()
    assert b"the old one stays: rollout file" in server.log.getvalue()
    assert server.client.get("/v1/rollout").json()["canaries"] == []


def test_a_canary_of_a_slow_policy_decides_once_its_process_does(start_process, tmp_path):
    file = write(tmp_path, "slow", "policy: clite")
    url = start_process("--rollout", str(file), "--policy", "staffing", "--canary-timeout-s", "20").url
    decided: list[str] = []
    deadline = time.monotonic() + 90
    with httpx.Client(timeout=30) as client:
        while "clite" not in decided:
            assert time.monotonic() < deadline, decided
            answer = client.post(
                f"{url}/v1/decisions", content=msgspec.json.encode(on("edge-1", len(decided))), headers=JSON
            )
            assert answer.status_code == 200, "a node gets a decision, whatever its canary does"
            decided.append(answer.json()["policy"])
            time.sleep(0.05)
        state = client.get(f"{url}/v1/rollout").json()["canaries"][0]
    assert set(decided) <= {"staffing", "clite"}
    assert state["state"] == "runs"
    assert state["canary"]["failures"] == 0, "starting is no failure"


TWO = """
schema: osml/rollout/v1
canaries:
  - {{name: first, percent: 1, models: "{first}"}}
  - {{name: second, percent: 100, {second}, limits: {{node_hours: 0.01, settle_s: 0, failures: 2}}}}
"""


def write_two(folder: Path, first: str, second: str) -> Path:
    file = folder / "rollout.yaml"
    file.write_text(TWO.format(first=first, second=second))
    return file


def canaries(server: InProcess) -> dict[str, dict]:
    return {one["name"]: one for one in server.client.get("/v1/rollout").json()["canaries"]}


@pytest.mark.parametrize("fault", ["name", "open"])
def test_models_that_cannot_be_looked_at_keep_no_other_canary_from_its_judgement(serve, tmp_path, fault):
    unreadable = tmp_path / ("x" * 300)  # no system has such a name, so that root cannot look at it either
    server = serve(rollout=write_two(tmp_path, str(unreadable), "policy: broken"))
    if fault == "open":

        def refuse(_folder: Path) -> CanaryModels:
            raise PermissionError(13, "Permission denied")

        server.runtime.rollout._open_models = refuse
    for node in ("edge-1", "edge-2"):
        server.post(on(node))
    tend(server)
    found = canaries(server)
    assert [one["state"] for one in found.values()] == ["returned", "returned"]
    # The server itself may have looked before the test replaced what opens them.
    why = found["first"]["why"]
    assert "File name too long" in why or (fault == "open" and "Permission denied" in why)
    assert "decisions failed" in found["second"]["why"]


def test_a_canary_that_cannot_be_judged_keeps_no_other_from_its_judgement(serve, tmp_path):
    server = serve(rollout=write(tmp_path))
    file = tmp_path / "rollout.yaml"
    file.write_text(file.read_text().replace("canaries:", "canaries:\n  - {name: odd, percent: 1, policy: turns}"))
    server.runtime.rollout.reload()
    server.runtime.rollout._tallies["odd"].verdict = lambda: 1 / 0
    for node in ("edge-1", "edge-2"):
        server.post(on(node))
    tend(server)
    assert {name: one["state"] for name, one in canaries(server).items()} == {"odd": "runs", "try": "returned"}
    assert b"canary 'odd' was not judged: ZeroDivisionError" in server.log.getvalue()


def test_a_file_that_comes_between_two_canaries_opens_no_models_of_the_former_one(serve, tmp_path):
    """The second canary gets another folder while that of the first is being opened."""
    opening, go_on = threading.Event(), threading.Event()
    opened: list[str] = []
    file = tmp_path / "rollout.yaml"
    file.write_text("schema: osml/rollout/v1")
    server = serve(rollout=file)

    def slow(folder: Path) -> CanaryModels:
        opened.append(str(folder))
        opening.set()
        go_on.wait(60)
        return CanaryModels(server.runtime.decider, server.runtime.shelf)

    server.runtime.rollout._open_models = slow
    write_two(tmp_path, "/a", "models: /b")
    server.runtime.rollout.reload()
    tending = threading.Thread(target=tend, args=(server,))
    tending.start()
    assert opening.wait(60)
    write_two(tmp_path, "/a", "models: /c")
    server.runtime.rollout.reload()
    go_on.set()
    tending.join(60)
    tend(server)
    assert opened == ["/a", "/c"]


def latencies(factor: float) -> dict[str, object]:
    """All LC services at so many times their target."""
    services = [
        msgspec.structs.replace(one, latency=Latency(p99_ms=factor * (one.target_ms or 1)), percentile="p99")
        if one.kind == "lc"
        else one
        for one in EXAMPLE.services
    ]
    return {"services": services}


def fails_at(server: InProcess, fails) -> None:
    """Policy `greedy` decides as `turns` does, but fails at some observations."""
    real = server.runtime.decider._decide

    def decided(observation: Observation, **given: object) -> Decision:
        if observation.policy == "greedy":
            if fails(observation.seq):
                raise RuntimeError("this time it fails")
            observation = msgspec.structs.replace(observation, policy="turns")
        return real(observation, **given)

    server.runtime.decider._decide = decided


def test_an_observation_counts_for_who_decided_before_it(serve, tmp_path):
    """Canary and fallback decide in turn. What follows a decision of the canary misses all targets."""
    server = serve(rollout=write(tmp_path, tries="policy: greedy"))
    fails_at(server, lambda seq: seq % 2 == 1)
    for seq in range(41):
        after_canary = seq % 2 == 1 or seq == 0  # nobody knows what was before the first: the choice is the same
        assert server.post(on("edge-1", seq, **latencies(2.0 if after_canary else 0.5))).status_code == 200
    figures = canary(server)["canary"]
    assert figures["missed"] == 1.0
    assert figures["seconds"] == pytest.approx(21 * EXAMPLE.interval_s)


@pytest.mark.parametrize("others", ["applied", "refused"])
def test_a_canary_whose_decisions_every_agent_refuses_returns(serve, tmp_path, others):
    file = write(tmp_path, tries="policy: greedy")
    file.write_text(file.read_text().replace("percent: 100", "percent: 50"))
    server = serve(rollout=file)
    fails_at(server, lambda _seq: False)
    arms: set[bool] = set()
    for node in (f"edge-{number}" for number in range(16)):
        outcome = None
        for seq in range(40):
            decided = server.post(on(node, seq, outcome=outcome, **latencies(0.5))).json()
            chosen = server.client.get(f"/v1/nodes/{node}/rollout").json()["canary"] == "try"
            outcome = Outcome(decided["seq"], "refused" if chosen else others, "above its limit")
            arms.add(chosen)
    assert arms == {True, False}
    tend(server)
    found = canary(server)
    assert found["state"] == ("returned" if others == "applied" else "runs")
    assert found["canary"]["unmeasured"] == pytest.approx(0.975), "what it is judged by is shown"
    assert found["canary"]["failures"] == 0, "policies and agents come to terms by refusals"
    assert (
        others == "refused"
        or "the share of time without a measured latency or an applied decision is 0.975" in found["why"]
    )


def test_what_a_dry_run_shows_counts_for_no_canary(serve, tmp_path):
    """The agent tells that a decision was applied, but nothing of it was: neither side caused these latencies."""
    server = serve(rollout=write(tmp_path, tries="policy: greedy"))
    fails_at(server, lambda _seq: False)
    watching = {DRY_RUN: "applies nothing"}
    for seq in range(5):
        done = Outcome(seq - 1, "applied", "supposed by a dry run") if seq else None
        server.post(on("edge-1", seq, outcome=done, missing=watching, **latencies(0.5)))
    assert canary(server)["canary"]["seconds"] == 0.0


def settling(folder: Path, intervals: int) -> Path:
    file = write(folder, tries="policy: greedy")
    file.write_text(file.read_text().replace("settle_s: 0", f"settle_s: {intervals * EXAMPLE.interval_s}"))
    return file


def counted(server: InProcess, observations: int) -> list[int]:
    """Whether each observation counts for the canary."""
    seconds = [0.0]
    for seq in range(observations):
        server.post(on("edge-1", seq))
        seconds.append(canary(server)["canary"]["seconds"] / EXAMPLE.interval_s)
    return [round(after - before) for before, after in pairwise(seconds)]


def test_a_node_that_comes_back_to_its_canary_settles_as_long_as_it_was_away(serve, tmp_path):
    server = serve(rollout=settling(tmp_path, 5))
    fails_at(server, lambda seq: seq == 20 or 30 <= seq < 38)
    wanted = [0] * 5 + [1] * 16 + [0] * 2 + [1] * 8 + [0] * 13 + [1] * 6
    assert counted(server, 50) == wanted, "one interval of the fallback and one to settle; then eight and five"


def test_a_canary_whose_nodes_fall_back_now_and_then_is_judged_in_the_end(serve, tmp_path):
    server = serve(rollout=settling(tmp_path, 5))
    fails_at(server, lambda seq: seq % 5 == 4)
    assert sum(counted(server, 100)) >= 50, "a fallback in each time to settle"


def test_a_request_that_every_policy_refuses_is_refused_once(serve, tmp_path):
    server = serve(rollout=write(tmp_path, tries="policy: greedy"))
    asked: list[str | None] = []

    def refuse(observation: Observation, **_given: object) -> Decision:
        asked.append(observation.policy)
        raise Refused("services has no service", "services")

    server.runtime.decider._decide = refuse
    answer = server.post(on("edge-1"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "request_refused")
    assert asked == ["greedy"]
    metrics = server.client.get("/metrics").text
    assert 'osml_decisions_total{policy="turns",status="refused"} 0.0' in metrics


def test_shadow_policies_that_left_the_file_are_shown_no_more(serve, tmp_path):
    file = tmp_path / "rollout.yaml"
    plan = 'schema: osml/rollout/v1\ngroups: [{{name: edge, nodes: ["edge-*"], shadow: [{}]}}]'
    file.write_text(plan.format(""))
    server = serve(rollout=file)
    server.post(on("edge-1"))
    server.runtime.shadow_tally.add(Shadowed("edge-1", "greedy", 1))

    def shown() -> list[list[str]]:
        paths = "/v1/rollout", "/v1/nodes/edge-1/rollout"
        return [[one["policy"] for one in server.client.get(path).json()["shadows"]] for path in paths]

    for policies, names in (("greedy", ["greedy"]), ("", []), ("broken", [])):
        file.write_text(plan.format(policies))
        server.runtime.rollout.reload()
        assert shown() == [names, names]
