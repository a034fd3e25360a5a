import asyncio
import json
import timeit

import msgspec
import pytest
from osml_serving.example import EXAMPLE
from osml_serving.metrics import Metrics
from osml_serving.view.broker import MAX_OWN_VIEWERS, MAX_VIEWERS, QUEUE, Broker, TooManyViewersError
from osml_serving.view.event_stream import EventStream
from osml_serving.view.happenings import LONGEST_SILENCE_S, SILENT_S
from osml_serving.view.history import DAY_S, FORGET_S, MAX_BYTES, MAX_INTERVALS, History, NodeHistory
from osml_serving.view.interval import NodeSummary


def summary(node="a", at=0.0):
    return NodeSummary(node=node, at=at, seq=0, policy="even", e_s=0.5, violations=0, services=1)


def test_the_history_of_a_node_tells_what_was_measured_and_decided(server):
    for seq in range(3):
        server.post(msgspec.structs.replace(EXAMPLE, seq=seq))
    document = server.client.get("/v1/nodes/node-17").json()
    assert [point["seq"] for point in document["points"]] == [0, 1, 2]
    moses, _, stream = document["points"][-1]["services"]
    assert (moses["latency_ms"], moses["target_ms"], moses["met"], moses["cores"]) == (18.4, 15.0, False, 34)
    assert stream["met"] is None
    assert stream["speed"] == pytest.approx(0.35 / 0.62)
    assert document["now"]["platform"]["ways"] == 20
    assert server.client.get("/v1/nodes/node-17?points=1").json()["points"] == document["points"][-1:]


def test_the_list_of_nodes_counts_violations(server, observation):
    assert server.client.get("/v1/nodes").json()["nodes"] == []
    server.post(observation)
    (line,) = server.client.get("/v1/nodes").json()["nodes"]
    assert (line["node"], line["violations"], line["services"], line["e_s"]) == ("node-17", 1, 3, 0.3)


def test_a_node_that_has_not_reported_is_not_found(server):
    answer = server.client.get("/v1/nodes/elsewhere")
    assert (answer.status_code, answer.json()["error"]["field"]) == (404, "node")


@pytest.mark.parametrize("query", ["points=0", "points=601", "points=x"])
def test_wrong_parameters_are_named(server, query):
    answer = server.client.get(f"/v1/nodes/node-17?{query}")
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "points")


def test_a_node_keeps_a_bounded_number_of_intervals_and_bytes():
    node = NodeHistory()
    for number in range(MAX_INTERVALS + 5):
        node.append(b"%d" % number, b"null", summary())
    assert len(node.intervals) == MAX_INTERVALS
    assert node.intervals[0] == b"5"
    node.append(b"x" * (MAX_BYTES - 4), b"null", summary())
    assert len(node.intervals) == 1
    assert node.bytes <= MAX_BYTES
    node.append(b"x" * MAX_BYTES, b"{}", summary())
    assert (len(node.intervals), node.now, node.summary) == (0, b"null", summary()), "the line in the list stays"


def test_all_nodes_together_keep_a_bounded_number_of_bytes():
    history = History(budget=1_000_000)
    for number in range(20_000):
        history.append(b"x" * 1000, b"{}", summary(f"node-{number % 400}"))
    kept = sum(history.get(line.node).bytes for line in history.summaries())
    assert 500_000 < kept <= 1_000_000
    assert all(history.get(line.node).intervals for line in history.summaries())


def test_thousands_of_nodes_are_kept_and_scraped_at_once():
    history, metrics = History(), Metrics([])
    metrics.watch_nodes(history.figures)

    def took_s(first: int, end: int) -> float:
        for number in range(first, end):
            assert history.append(b"x" * 2000, b"{}", summary(f"node-{number:05}"))
        return min(timeit.repeat(metrics.text, number=1, repeat=5))

    few_s, many_s = took_s(0, 1_000), took_s(1_000, 10_000)
    assert metrics.text().count(b"osml_node_violations{") == 10_000
    assert many_s < 40 * few_s, "ten times as many nodes; a scrape holds the event loop"


def test_a_node_that_reports_elsewhere_has_no_metrics_here():
    now_s = 0.0
    history = History(clock=lambda: now_s)
    history.append(b"1", b"{}", summary("moved"))
    history.append(b"1", b"{}", msgspec.structs.replace(summary("slow"), interval_s=60.0))
    now_s = SILENT_S + 1
    history.append(b"1", b"{}", summary("here"))
    assert [figures.node for figures in history.figures()] == ["slow", "here"]
    assert {line.node for line in history.summaries()} == {"moved", "slow", "here"}, "the page shows its age"


def test_no_node_keeps_its_metrics_for_longer_than_hours_whatever_interval_it_tells():
    now_s = 0.0
    history = History(clock=lambda: now_s)
    history.append(b"1", b"{}", msgspec.structs.replace(summary("gone"), interval_s=1e9))
    history.append(b"1", b"{}", msgspec.structs.replace(summary("hourly"), interval_s=3600.0))
    now_s = 2 * 3600.0
    assert [figures.node for figures in history.figures()] == ["gone", "hourly"]
    now_s = LONGEST_SILENCE_S + 1
    assert list(history.figures()) == []


def test_long_intervals_count_whole_where_the_time_has_passed():
    now_s = 0.0
    history = History(clock=lambda: now_s)
    for _ in range(10):
        history.append(b"1", b"{}", msgspec.structs.replace(summary("slow"), interval_s=120.0, violations=1))
        now_s += 120.0
    assert [figures.missed_s for figures in history.figures()] == [60.0 + 9 * 120.0], "nobody saw the first begin"
    for _ in range(10):
        history.append(b"1", b"{}", msgspec.structs.replace(summary("liar"), interval_s=1e6, violations=1))
    assert [figures.missed_s for figures in history.figures()][-1] == 600.0


def test_a_list_of_some_nodes_is_not_made_of_all():
    history = History()
    for name in ("c", "a", "b"):
        history.append(b"1", b"{}", summary(name))
    assert [line.node for line in history.summaries({"b", "c", "unknown"})] == ["b", "c"]


def test_more_nodes_than_the_limit_are_counted_and_silent_ones_make_room():
    now_s = 0.0
    history = History(max_nodes=2, clock=lambda: now_s)
    assert history.append(b"1", b"null", summary("a"))
    now_s = 5.0
    assert history.append(b"1", b"null", summary("b"))
    assert not history.append(b"1", b"null", summary("c", at=1e9))  # the clock on the wall may jump as it likes
    now_s = FORGET_S
    assert history.append(b"1", b"null", summary("c", at=-1e9))
    assert [line.node for line in history.summaries()] == ["b", "c"]


def test_names_that_nobody_uses_any_more_take_nothing_from_the_others():
    """In a cluster that grows and shrinks, each machine has a new name."""
    now_s = 0.0
    history = History(clock=lambda: now_s)
    for number in range(2000):
        history.append(b"x" * 1000, b"{}", summary(f"old-{number}"))
    now_s = DAY_S - 1.0
    history.append(b"1", b"{}", summary("stays"))
    assert len(history) == 2001
    now_s = DAY_S
    history.append(b"1", b"{}", summary("new"))
    assert [line.node for line in history.summaries()] == ["new", "stays"]
    for _ in range(600):
        history.append(b"x" * 500, b"{}", summary("stays"))
    stays = history.get("stays")
    assert len(stays.intervals) == 600, "all that a node of so few keeps"


def test_a_slow_viewer_is_dropped_and_the_others_are_not():
    broker = Broker(Metrics([]))
    slow, quick = broker.subscribe("a"), broker.subscribe("a")
    for number in range(QUEUE + 1):
        broker.publish("a", b"%d" % number)
        assert quick.queue.get_nowait() == b"%d" % number
    assert slow.queue.get_nowait() is None
    assert broker.watched("a")
    broker.unsubscribe(quick)
    assert not broker.watched("a")


def test_a_nodes_own_token_can_not_take_all_event_streams():
    broker = Broker(Metrics([]))
    for _ in range(MAX_OWN_VIEWERS):
        broker.subscribe("a", MAX_OWN_VIEWERS)
    with pytest.raises(TooManyViewersError):
        broker.subscribe("a", MAX_OWN_VIEWERS)
    broker.subscribe("b", MAX_OWN_VIEWERS)
    broker.subscribe("a")  # the dashboard's


def test_viewers_are_limited():
    broker = Broker(Metrics([]))
    for _ in range(MAX_VIEWERS):
        broker.subscribe("a")
    with pytest.raises(TooManyViewersError):
        broker.subscribe("a")


async def collect(broker, viewer, scenario, heartbeat_s=5.0, is_over=lambda: False):
    sent = []
    gone = asyncio.Event()

    async def receive():
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message.get("body", b""))

    stream = asyncio.create_task(EventStream(broker, viewer, b"{}", heartbeat_s, is_over)({}, receive, send))
    await asyncio.sleep(0)
    await scenario(gone)
    await asyncio.wait_for(stream, 2)
    return [body.split(b"\n")[0] for body in sent if body]


def test_a_stream_ends_with_the_token_that_opened_it():
    broker, expired = Broker(Metrics([])), []

    async def scenario(gone):
        await asyncio.sleep(0.08)
        expired.append(True)

    viewer = broker.subscribe("a")
    events = asyncio.run(collect(broker, viewer, scenario, heartbeat_s=0.05, is_over=lambda: bool(expired)))
    assert (events[0], events[-1]) == (b"event: hello", b"event: end")


def test_a_stream_greets_tells_beats_and_ends_with_the_server():
    broker = Broker(Metrics([]))

    async def scenario(gone):
        broker.publish("a", b"event: observation\ndata: 1\n\n")
        await asyncio.sleep(0.5)
        broker.close()

    events = asyncio.run(collect(broker, broker.subscribe("a"), scenario, heartbeat_s=0.05))
    assert list(dict.fromkeys(events)) == [b"event: hello", b"event: observation", b"event: heartbeat", b"event: end"]
    assert not broker.watched("a")


def test_a_reader_that_leaves_is_forgotten():
    broker = Broker(Metrics([]))

    async def scenario(gone):
        gone.set()

    asyncio.run(collect(broker, broker.subscribe("a"), scenario))
    assert not broker.watched("a")


def test_a_stream_opened_while_the_server_stops_ends_at_once():
    broker = Broker(Metrics([]))
    broker.close()
    assert broker.subscribe("a").queue.get_nowait() is None


def test_intervals_are_json_of_their_own(server, observation):
    server.post(observation)
    node = server.runtime.history.get("node-17")
    assert json.loads(node.intervals[0])["policy"] == "turns"
