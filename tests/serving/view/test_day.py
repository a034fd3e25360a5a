"""The last 24 hours of a node, and what happened on it."""

from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from osml_serving.example import EXAMPLE
from osml_serving.view.day import BIN_S, BINS, Day
from osml_serving.view.happenings import MOST_A_MINUTE, STEADY_S, Seen, Watch, make_seen
from osml_serving.view.interval import make_interval

from osml.domain import Outcome
from tests.kit.server import decide

START = 1_700_000_100.0


def seen(at: float, *, met: bool | None = True, **changes: object) -> Seen:
    base = Seen(START + at, int(at), 1.0, "osml", None, {"redis": met}, frozenset({"redis", "job"}), None, None)
    return msgspec.structs.replace(base, **changes)


def texts(watch: Watch, steps: list[Seen]) -> list[str]:
    return [event.text for step in steps for event in watch.events(step)]


def test_a_target_is_missed_and_met_only_after_a_while():
    watch = Watch("n")
    steps = [seen(k, met=k % 2 == 0) for k in range(100)]
    assert texts(watch, steps) == [], "it moves to and fro, and that is no event"
    missed = [seen(100 + k, met=False) for k in range(60)]
    again = [seen(160 + k) for k in range(60)]
    assert texts(watch, missed + again) == [
        "redis has been above its target for 30 s",
        "redis meets its target again, 91 s after it began to miss it",
    ]


def test_an_interval_without_a_latency_says_nothing():
    watch = Watch("n")
    steps = [seen(k, met=False if k % 2 else None) for k in range(70)]
    assert texts(watch, steps) == ["redis has been above its target for 59 s"]


def test_time_in_which_nobody_measured_counts_by_the_clock_and_is_no_miss():
    watch = Watch("n")
    missed = [seen(k, met=False) for k in range(20)] + [seen(20 + k, met=None) for k in range(600)]
    assert texts(watch, missed) == []
    assert texts(watch, [seen(620 + k, met=False) for k in range(29)]) == []
    assert texts(watch, [seen(649, met=False)]) == ["redis has been above its target for 30 s"]
    later = [seen(650 + k, met=None) for k in range(600)] + [seen(1250 + k) for k in range(30)]
    assert texts(watch, later) == ["redis meets its target again, 660 s after it began to miss it"]


def told(watch: Watch, steps: list[Seen]) -> list[tuple[float, str]]:
    return [(event.at - START, event.kind) for step in steps for event in watch.events(step)]


def test_nothing_lasts_over_a_silence():
    missed = [seen(k, met=False) for k in range(20)]
    silent = missed + [seen(3600 + k, met=False) for k in range(40)]
    assert texts(Watch("n"), silent) == ["it sent nothing for 3581 s", "redis has been above its target for 30 s"]


def test_an_agent_that_starts_anew_again_and_again_hides_no_lasting_miss():
    anew = [seen(k, met=False, seq=k % 20) for k in range(60)]
    assert told(Watch("n"), anew) == [(20.0, "agent"), (29.0, "missed"), (40.0, "agent")]


def test_a_miss_that_was_told_ends_though_the_node_was_silent_meanwhile():
    steps = [seen(k, met=False) for k in range(40)] + [seen(3600 + k) for k in range(40)]
    assert told(Watch("n"), steps) == [(29.0, "missed"), (3600.0, "silent"), (3629.0, "met")]


def test_a_node_with_long_intervals_is_not_silent_at_each_of_them():
    watch = Watch(EXAMPLE.node)
    found: list[str] = []
    for seq in range(5):
        observation = msgspec.structs.replace(EXAMPLE, seq=seq, interval_s=600.0)
        decision = decide(observation)
        newest = make_interval(observation, decision, START + 600.0 * seq, 1.0)
        found += texts(watch, [make_seen(observation, decision, newest, None)])
    assert not any("it sent nothing" in text for text in found)


def test_what_else_happens_is_told_once():
    watch = Watch("n")
    steps = [
        seen(1),
        seen(2, policy="parties", canary="try"),
        seen(3, policy="parties", canary="try"),
        seen(4, names=frozenset({"redis", "web"})),
        seen(5, names=frozenset({"redis", "web"}), failure="a decision was not applied (failed): EBUSY"),
        seen(6, names=frozenset({"redis", "web"}), failure="a decision was not applied (failed): EBUSY"),
        seen(100, names=frozenset({"redis", "web"}), seq=0),
    ]
    assert texts(watch, steps) == [
        "parties (canary try) decides, before it was osml",
        "osml decides, before it was parties (canary try)",
        "web came, job left",
        "a decision was not applied (failed): EBUSY",
        "it sent nothing for 94 s",
        "its agent started anew",
    ]


def test_a_node_that_flaps_does_not_drive_out_the_others():
    watch = Watch("n")
    steps = [seen(k / 10, names=frozenset({"redis", f"pod-{k}"})) for k in range(500)]
    assert len(texts(watch, steps)) <= 2 * MOST_A_MINUTE
    crowd = seen(70, names=frozenset(f"pod-{k}" for k in range(60)))
    assert "and others" in texts(watch, [crowd])[0]


def test_a_decision_in_place_of_a_canary_is_no_event():
    watch = Watch("n")
    steps = [seen(k, policy=None if k % 2 else "parties", canary=None if k % 2 else "try") for k in range(10)]
    assert texts(watch, steps) == []


def test_a_node_that_cannot_do_it_for_a_while_is_told():
    watch = Watch("n")
    steps = [seen(k, infeasible="2 cores short") for k in range(40)] + [seen(40 + k) for k in range(40)]
    assert texts(watch, steps) == [
        "it cannot satisfy its services: 2 cores short",
        "it can satisfy its services again",
    ]


@given(st.lists(st.tuples(st.floats(0, 200_000), st.booleans(), st.floats(0, 1)), min_size=1, max_size=60))
def test_bins_add_up_to_what_was_seen_of_the_last_day(steps):
    day = Day("n")
    steps = sorted(steps)
    for at, met, e_s in steps:
        day.add(seen(at, met=met), e_s)
    end_s = START + steps[-1][0]
    first = (int(end_s // BIN_S) - BINS + 1) * BIN_S
    recent = [(met, e_s) for at, met, e_s in steps if START + at >= first]
    bins = day.bins(end_s)
    assert sum(one.seconds for one in bins) == len(recent)
    assert sum(one.missed_s for one in bins) == sum(not met for met, _ in recent)
    assert all(0 <= (one.e_s or 0) <= 1 for one in bins)
    assert all(after.at - before.at >= BIN_S for before, after in pairwise(bins))


def test_a_server_shows_the_day_of_a_node_and_the_events_of_the_fleet(server):
    for seq in range(int(STEADY_S) + 2):
        slow = [
            msgspec.structs.replace(
                one, latency=msgspec.structs.replace(one.latency, p99_ms=1000.0 * (one.target_ms or 1))
            )
            if one.kind == "lc" and one.latency is not None
            else one
            for one in EXAMPLE.services
        ]
        outcome = Outcome(0, "failed", "EBUSY") if seq == 5 else None
        server.post(msgspec.structs.replace(EXAMPLE, seq=seq, services=slow, outcome=outcome))
    day = server.client.get(f"/v1/nodes/{EXAMPLE.node}/day").json()
    assert sum(one["missed_s"] for one in day["bins"]) == sum(one["seconds"] for one in day["bins"]) > 0
    assert {event["kind"] for event in day["events"]} == {"missed", "apply"}
    fleet = server.client.get("/v1/fleet/events?limit=1").json()["events"]
    assert len(fleet) == 1
    assert fleet[0]["node"] == EXAMPLE.node
    assert fleet[0] == day["events"][0]
    assert server.client.get("/v1/nodes/nobody/day").status_code == 404
    assert server.client.get("/v1/fleet/events?limit=0").status_code == 422
