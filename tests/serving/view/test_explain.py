"""`GET /v1/nodes/{node}/explain`: the last decision, and the way that led there."""

import msgspec
import pytest
from osml_serving.example import EXAMPLE

from osml.domain import DRY_RUN, Decision, Forecast, Latency, Outcome, Partition, Point, Region

replace = msgspec.structs.replace
FORECAST = Forecast("moses", "a2", Point(8, 4), Point(9, 5), Point(12, 8), 0.9, action=(-1, 2), q=0.5)


@pytest.fixture
def foretelling(server, monkeypatch):
    """The server, with a policy that says what it expects of moses from interval 1 on."""
    plain = server.runtime.decider._decide

    def decide(observation, **options) -> Decision:
        decision = plain(observation, **options)
        return replace(decision, forecasts=[FORECAST] if observation.seq else [])

    monkeypatch.setattr(server.runtime.decider, "_decide", decide)
    return server


def interval(seq: int, last: Decision | None, latency_ms: float | None, **fields):
    moses = replace(EXAMPLE.services[0], latency=None if latency_ms is None else Latency(p99_ms=latency_ms))
    state = last and last.policy_state
    return replace(
        EXAMPLE,
        seq=seq,
        time_s=12.0 + seq,
        services=[moses, *EXAMPLE.services[1:]],
        policy_state=state,
        partition=last and last.partition,
        **fields,
    )


def play(server, latencies, **fields) -> list[Decision]:
    decisions: list[Decision] = []
    for seq, latency_ms in enumerate(latencies):
        answer = server.post(interval(seq, decisions[-1] if decisions else None, latency_ms, **fields))
        assert answer.status_code == 200, answer.text
        decisions.append(msgspec.json.decode(answer.content, type=Decision))
    return decisions


def test_it_tells_the_last_decision_and_the_way_there(foretelling):
    decisions = play(foretelling, [30.0, None, 14.0])
    found = foretelling.client.get("/v1/nodes/node-17/explain").json()
    assert (found["node"], found["seq"], found["policy"]) == ("node-17", 2, "turns")
    assert found["platform"] == {"id": "e5-2697v4", "cores": 36, "ways": 20, "core_quantum": 1.0}
    assert [reason["text"] for reason in found["reasons"]] == [reason.text for reason in decisions[-1].reasons]
    assert found["entropy"]["e_s"] == 0.3
    assert found["forecasts"] == [msgspec.json.decode(msgspec.json.encode(FORECAST))]
    assert [service["name"] for service in found["services"]] == ["moses", "xapian"]  # BE jobs have no cliff
    moses = found["services"][0]
    assert (moses["target_ms"], moses["latency_ms"], moses["percentile"]) == (15.0, 14.0, "p99")
    cells = [{"cores": d.partition.cores_of("moses"), "ways": d.partition.ways_of("moses")} for d in decisions]
    assert moses["cell"] == cells[-1]
    path = moses["path"]
    assert [step["cell"] for step in path] == cells
    assert [step["held"] for step in path] == [None, *cells[:-1]]  # a latency belongs to the cell before
    assert [step["latency_ms"] for step in path] == [30.0, None, 14.0]
    assert path[0]["oaa"] is None
    assert path[2]["oaa"] == {"cores": 12, "ways": 8}
    assert path[2]["rcliff_upper"] == {"cores": 9, "ways": 5}
    assert path[2]["action"] == [-1, 2]
    assert found["services"][1]["forecast"] is None


def test_in_a_dry_run_nothing_was_held_and_no_decision_was_applied(foretelling):
    """The agent tells its decisions as applied, but the latencies are those of the unchanged node."""
    watching = {DRY_RUN: "applies nothing"}
    play(foretelling, [30.0, 20.0], outcome=Outcome(0, "applied", "supposed by a dry run"), missing=watching)
    path = foretelling.client.get("/v1/nodes/node-17/explain").json()["services"][0]["path"]
    assert [step["held"] for step in path] == [None, None]
    points = foretelling.client.get("/v1/nodes/node-17").json()["points"]
    assert {point["outcome"]["status"] for point in points} == {"dry_run"}


def test_cells_and_predictions_have_one_unit(foretelling):
    tenths = replace(EXAMPLE.platform, cores=360, core_quantum=0.1)
    play(foretelling, [30.0, 20.0], platform=tenths)
    found = foretelling.client.get("/v1/nodes/node-17/explain").json()
    assert found["services"][0]["forecast"]["oaa"] == {"cores": pytest.approx(120), "ways": 8}
    assert found["forecasts"][0]["oaa"] == {"cores": 12, "ways": 8}


def test_the_path_is_as_long_as_asked_for_and_starts_where_the_service_came(foretelling):
    play(foretelling, [10.0] * 6)
    found = foretelling.client.get("/v1/nodes/node-17/explain", params={"points": 2}).json()
    assert [step["seq"] for step in found["services"][0]["path"]] == [4, 5]
    new = replace(EXAMPLE.services[1], name="late")
    observation = interval(6, None, 10.0, policy=None)
    last = Partition(regions=[Region(["moses"], 9, 9), Region(["xapian"], 9, 9), Region(["stream"], 9, 1)])
    foretelling.post(replace(observation, services=[*observation.services, new], partition=last))
    late = foretelling.client.get("/v1/nodes/node-17/explain").json()["services"][2]
    assert (late["name"], [step["seq"] for step in late["path"]], late["path"][0]["held"]) == ("late", [6], None)


def test_who_may_not_see_a_node_gets_no_explanation(server):
    assert server.client.get("/v1/nodes/nobody/explain").status_code == 404
    assert server.client.get("/v1/nodes/nobody/explain", params={"points": 0}).status_code == 422


def test_a_node_too_large_for_the_history_is_listed_and_says_so(server, observation):
    server.runtime.history._limit = 100  # as where ten thousand nodes share the memory
    server.post(observation)
    assert [line["node"] for line in server.client.get("/v1/nodes").json()["nodes"]] == ["node-17"]
    assert server.client.get("/v1/nodes/node-17").json() == {"node": "node-17", "now": None, "points": []}
    answer = server.client.get("/v1/nodes/node-17/explain")
    assert (answer.status_code, answer.json()["error"]["field"]) == (404, "node")
    assert "too large for the history" in answer.json()["error"]["message"]
