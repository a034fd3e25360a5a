"""`POST /v1/experiences`, in this process and in a server of its own."""

import hashlib
import resource
import socket
import sqlite3
import threading
import time

import httpx
import msgspec
import pytest

from osml.domain import Experience, Experiences
from osml.experiences.outcome import BusyError, StoreError
from tests.kit.server import wait_for

JSON = {"content-type": "application/json"}
MOSES = "experiences[0].after.services[0]"
replace = msgspec.structs.replace


@pytest.fixture
def kept(serve, tmp_path):
    """A server with a store of its own."""
    return serve(store=f"sqlite:///{tmp_path}/experiences.db")


def body(*experiences: Experience) -> bytes:
    return msgspec.json.encode(Experiences(list(experiences)))


def post(server, content: bytes, **headers: str) -> httpx.Response:
    return server.client.post("/v1/experiences", content=content, headers={**JSON, **headers})


def test_experiences_are_stored_once(kept, make_experience):
    batch = [make_experience(seq) for seq in range(3)]
    first = post(kept, body(*batch))
    assert (first.status_code, first.json()) == (202, {"accepted": 3, "duplicates": 0})
    assert post(kept, body(*batch, make_experience(3))).json() == {"accepted": 1, "duplicates": 3}
    shown = kept.client.get("/v1/experiences", params={"node": "node-17", "limit": 2}).json()["experiences"]
    assert [one["before"]["seq"] for one in shown] == [3, 2]
    assert shown[0]["after"]["policy_state"] is None
    metrics = kept.client.get("/metrics").text
    assert 'osml_experiences_total{status="accepted"} 4.0' in metrics
    assert 'osml_experiences_total{status="duplicate"} 3.0' in metrics
    assert "osml_experience_store_up 1.0" in metrics


def test_a_server_without_a_store_says_so(server, make_experience):
    answer = post(server, body(make_experience()))
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    assert "stores no experiences" in answer.json()["error"]["message"]


def _after(experience, **changes):
    return replace(experience, after=replace(experience.after, **changes))


def _moses(experience, **changes):
    moses, *others = experience.after.services
    return _after(experience, services=[replace(moses, **changes), *others])


WRONG = {
    "time that stands still": (lambda e: _after(e, time_s=e.before.time_s), "after.time_s"),
    "another node": (lambda e: _after(e, node="node-18"), "after.node"),
    "a decision of another node": (lambda e: replace(e, decision=replace(e.decision, node="x")), "decision.node"),
    "a decision of another interval": (lambda e: replace(e, decision=replace(e.decision, seq=7)), "decision.seq"),
    "an outcome of another decision": (
        lambda e: _after(e, outcome=replace(e.after.outcome, seq=7)), "after.outcome.seq",
    ),
    "another platform": (lambda e: _after(e, platform=replace(e.after.platform, id="x")), "after.platform.id"),
    "a platform that adds up to nothing": (
        lambda e: _after(e, platform=replace(e.after.platform, cores=35)), "after.platform.cores",
    ),
    "latency beyond measure": (
        lambda e: _moses(e, latency=replace(e.after.services[0].latency, p99_ms=1e300)),
        "after.services[0].latency.p99_ms",
    ),
    "an LC service without a target": (lambda e: _moses(e, target_ms=None), "after.services[0].target_ms"),
    "a partition that does not fit": (
        lambda e: replace(
            e,
            decision=replace(
                e.decision,
                partition=replace(
                    e.decision.partition, regions=[replace(r, cores=37) for r in e.decision.partition.regions]
                ),
            ),
        ),
        "decision.partition",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_can_not_be_is_refused_by_name_and_nothing_is_stored(kept, make_experience, name):
    spoil, field = WRONG[name]
    answer = post(kept, body(make_experience(0), spoil(make_experience(1))))
    assert answer.status_code == 422, answer.text
    error = answer.json()["error"]
    assert (error["code"], error["field"]) == ("invalid_experience", f"experiences[1].{field}")
    assert kept.client.get("/v1/experiences", params={"node": "node-17"}).json() == {"experiences": []}


@pytest.mark.parametrize(
    ("spoil", "status", "field"),
    [
        (lambda text: text.replace('"p99_ms":12.0', '"p99_ms":NaN'), 400, None),
        (lambda text: text.replace('"p99_ms":12.0', '"p99_ms":1e400'), 422, f"{MOSES}.latency.p99_ms"),
        (lambda text: text.replace('"seq":0', '"seq":-1', 1), 422, "experiences[0].before.seq"),
        (lambda _: '{"experiences":[]}', 422, "experiences"),
        (lambda _: "[" * 100_000, 422, None),
    ],
)
def test_a_body_that_is_no_batch_is_refused_in_one_sentence(kept, make_experience, spoil, status, field):
    answer = post(kept, spoil(body(make_experience()).decode()).encode())
    assert answer.status_code == status, answer.text
    assert answer.json()["error"].get("field") == field


def test_a_store_that_is_busy_or_broken_costs_no_decision(kept, make_experience, observation, monkeypatch):
    for error, code, after_s in (
        (BusyError(), "overloaded", "2"),
        (StoreError("database or disk is full"), "store_unavailable", "30"),
    ):

        async def fail(_experiences, error=error):
            raise error

        monkeypatch.setattr(kept.runtime.experiences, "add", fail)
        answer = post(kept, body(make_experience()))
        assert (answer.status_code, answer.headers["retry-after"]) == (503, after_s)
        assert answer.json()["error"]["code"] == code
        assert kept.post(observation).status_code == 200
    assert 'osml_experiences_total{status="failed"} 2.0' in kept.client.get("/metrics").text


def test_a_node_that_reports_too_often_is_still_decided_for(serve, make_experience, observation, tmp_path):
    server = serve(store=f"sqlite:///{tmp_path}/x.db", max_node_rate=0.01)
    assert post(server, body(make_experience(0))).status_code == 202
    refused = post(server, body(make_experience(1)))
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert server.post(observation).status_code == 200


def test_a_wrong_store_is_said_at_the_start(serve):
    with pytest.raises(Exception, match="expected sqlite, sqlite:///FILE"):
        serve(store="mysql://host/database")


def test_only_the_node_itself_is_heard(start_process, tmp_path, make_experience):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"node-17:{hashlib.sha256(b'secret').hexdigest()}\n")
    tokens.chmod(0o600)
    process = start_process("--token-file", str(tokens), "--store", f"sqlite:///{tmp_path}/x.db")
    url = f"{process.url}/v1/experiences"
    bearer = {**JSON, "authorization": "Bearer secret"}
    own, other = make_experience(0), make_experience(0, node="node-18")
    assert httpx.post(url, content=body(own), headers=JSON).status_code == 401
    answer = httpx.post(url, content=body(own, other), headers=bearer)
    assert (answer.status_code, answer.json()["error"]["field"]) == (403, "node")
    assert httpx.post(url, content=body(own), headers=bearer).json() == {"accepted": 1, "duplicates": 0}
    assert httpx.get(url, params={"node": "node-18"}, headers=bearer).status_code == 403


def test_experiences_outlive_the_server(start_process, tmp_path, make_experience):
    store = ("--store", f"sqlite:///{tmp_path}/x.db")
    first = start_process(*store)
    batch = body(*(make_experience(seq) for seq in range(20)))
    assert httpx.post(f"{first.url}/v1/experiences", content=batch, headers=JSON).status_code == 202
    first.process.kill()
    first.process.wait()
    second = start_process(*store)
    answer = httpx.post(f"{second.url}/v1/experiences", content=batch, headers=JSON)
    assert answer.json() == {"accepted": 0, "duplicates": 20}


def test_a_damaged_row_is_left_out_and_said(start_process, tmp_path, make_experience):
    process = start_process("--store", f"sqlite:///{tmp_path}/x.db")
    url = f"{process.url}/v1/experiences"
    assert httpx.post(url, content=body(*map(make_experience, range(3))), headers=JSON).status_code == 202
    with sqlite3.connect(tmp_path / "x.db") as connection:
        connection.execute("UPDATE experiences SET payload = x'00' WHERE seq = 1")
    answer = httpx.get(url, params={"node": "node-17"})
    assert (answer.status_code, answer.headers["osml-damaged-rows"]) == (200, "1")
    assert [one["before"]["seq"] for one in answer.json()["experiences"]] == [2, 0]
    assert httpx.post(url, content=answer.content, headers=JSON).json() == {"accepted": 0, "duplicates": 2}
    assert "osml_experiences_damaged_total 1.0" in httpx.get(f"{process.url}/metrics").text
    assert process.stop() == 0
    assert "1 of the 10 newest rows are unreadable" in process.errors.read_text()


def test_a_store_that_can_be_used_again_says_so_without_a_request(serve, tmp_path, monkeypatch):
    monkeypatch.setattr("osml.experiences.writer.REOPEN_S", 0.2)
    (tmp_path / "folder").touch()
    server = serve(store=f"sqlite:///{tmp_path}/folder/x.db")

    def up() -> float | None:
        return server.runtime.metrics.registry.get_sample_value("osml_experience_store_up")

    assert wait_for(lambda: b"cannot be" in server.log.getvalue())
    assert up() == 0
    (tmp_path / "folder").unlink()
    assert wait_for(lambda: up() == 1)
    assert "osml_experience_store_up" not in serve().client.get("/metrics").text, "there is none that could fail"


def test_a_database_that_goes_away_costs_no_decision_and_comes_back(
    start_process, own_postgres, make_experience, observation
):
    """The agent's batch gets 503 with Retry-After, in seconds; the same batch is stored once the database is back."""
    process = start_process("--store", own_postgres.url)
    url = f"{process.url}/v1/experiences"
    assert httpx.post(url, content=body(make_experience(0)), headers=JSON).status_code == 202
    own_postgres.stop()
    batch = body(*(make_experience(seq) for seq in range(5)))
    for _ in range(3):
        refused = httpx.post(url, content=batch, headers=JSON, timeout=15)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "store_unavailable"), refused.text
        assert int(refused.headers["retry-after"]) > 0
        decision = httpx.post(f"{process.url}/v1/decisions", content=msgspec.json.encode(observation), headers=JSON)
        assert decision.status_code == 200
    assert "osml_experience_store_up 0.0" in httpx.get(f"{process.url}/metrics").text
    own_postgres.start()
    deadline = time.monotonic() + 30
    while (again := httpx.post(url, content=batch, headers=JSON, timeout=15)).status_code != 202:
        assert time.monotonic() < deadline, again.text
        time.sleep(0.2)
    assert again.json() == {"accepted": 4, "duplicates": 1}
    assert "osml_experience_store_up 1.0" in httpx.get(f"{process.url}/metrics").text
    assert process.stop() == 0
    assert process.errors.read_text().count("does not answer") == 1


def test_a_database_that_swallows_everything_holds_nobody_up(start_process, make_experience, observation):
    """A host that takes the connection and never says a word: the worst kind of away."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        process = start_process("--store", f"postgresql://osml:s3cret@127.0.0.1:{port}/osml")
        url = f"{process.url}/v1/experiences"
        began = time.monotonic()
        refused = httpx.post(url, content=body(make_experience(0)), headers=JSON, timeout=15)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "store_unavailable")
        assert time.monotonic() - began < 12
        decision = httpx.post(f"{process.url}/v1/decisions", content=msgspec.json.encode(observation), headers=JSON)
        assert decision.status_code == 200
        assert process.stop() == 0
    log = process.errors.read_text()
    assert "timeout expired" in log
    assert "s3cret" not in log


def test_many_nodes_at_once_on_postgresql(start_process, postgres_url, make_experience):
    process = start_process("--store", postgres_url)
    answers = []

    def report(node):
        for seq in range(5):
            content = body(*(make_experience(10 * seq + k, node=node) for k in range(10)))
            answer = httpx.post(f"{process.url}/v1/experiences", content=content, headers=JSON, timeout=20)
            answers.append(answer.json())

    threads = [threading.Thread(target=report, args=(f"pg-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [{"accepted": 10, "duplicates": 0}] * 20


def test_on_a_full_disk_decisions_go_on_and_the_store_says_so(start_process, tmp_path, make_experience, observation):
    process = start_process("--store", f"sqlite:///{tmp_path}/x.db")
    url = f"{process.url}/v1/experiences"
    assert httpx.post(url, content=body(make_experience(0)), headers=JSON).status_code == 202
    pid = process.process.pid
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (120_000, resource.RLIM_INFINITY))
    answers = [
        httpx.post(url, content=body(*(make_experience(10 * n + k) for k in range(10))), headers=JSON)
        for n in range(1, 30)
    ]
    refused = [answer for answer in answers if answer.status_code != 202]
    assert refused, "the disk never filled up"
    assert {(a.status_code, a.json()["error"]["code"]) for a in refused} == {(503, "store_unavailable")}
    decision = httpx.post(f"{process.url}/v1/decisions", content=msgspec.json.encode(observation), headers=JSON)
    assert decision.status_code == 200
    assert httpx.get(url, params={"node": "node-17"}).status_code == 200, "what is there can be read"
    assert "osml_experience_store_up 0.0" in httpx.get(f"{process.url}/metrics").text
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert httpx.post(url, content=body(make_experience(999)), headers=JSON).status_code == 202
    assert "osml_experience_store_up 1.0" in httpx.get(f"{process.url}/metrics").text
