"""One agent that asks for too much is slowed down, and the others do not notice."""

import hashlib

import msgspec
import pytest
from osml_serving.errors import ApiError
from osml_serving.example import EXAMPLE
from osml_serving.guards import time_share
from osml_serving.guards.access import GRANT
from osml_serving.guards.grants import ADMIN, Grant
from osml_serving.guards.time_share import BURST_S, LARGEST_SHARE, SHARE, TimeShare, share_of


def agent_of(*nodes):
    return {GRANT: Grant("agent", frozenset(nodes))}


ONE, TWO, FLEET, ALL = agent_of("node-1"), agent_of("node-2"), agent_of("*"), {GRANT: ADMIN}


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


def use(share, clock, scope, seconds):
    with share.of(scope):
        clock.now_s += seconds


def test_who_took_too_much_waits_until_it_is_worked_off(clock):
    share = TimeShare(clock, clock)
    use(share, clock, ONE, BURST_S + 1.0)
    with pytest.raises(ApiError) as caught:
        use(share, clock, ONE, 0.0)
    assert (caught.value.status, caught.value.body.code) == (429, "rate_limited")
    wait_s = int(caught.value.headers["retry-after"])
    clock.now_s += wait_s
    use(share, clock, ONE, 0.001)
    use(share, clock, TWO, 1.0)


@pytest.mark.parametrize(("nodes", "refused"), [(500, False), (1, True)])
def test_a_fleet_behind_one_token_is_served_and_one_node_can_not_take_as_much(clock, nodes, refused):
    share, asked = TimeShare(clock, clock), 500  # a second, each for what a decision for four services takes
    scope = agent_of(*(f"node-{number}" for number in range(nodes)))
    refusals = 0
    for number in range(60 * asked):
        clock.now_s = max(clock.now_s, number / asked)
        try:
            use(share, clock, scope, 0.0009)
        except ApiError:
            refusals += 1
    assert (refusals > 0) == refused
    assert share_of(agent_of(*map(str, range(10**6)))[GRANT]) < 1, "something is left for the others"


def test_in_the_long_run_a_token_gets_its_share_and_no_more(clock):
    share, taken = TimeShare(clock, clock), 0.0
    while clock.now_s < 1000:
        try:
            use(share, clock, ONE, 0.05)
            taken += 0.05
        except ApiError:
            clock.now_s += 0.05
    assert taken == pytest.approx(1000 * SHARE + BURST_S, rel=0.02)


def test_what_is_refused_is_charged_too(clock):
    share = TimeShare(clock, clock)
    for _ in range(3):
        with pytest.raises(ValueError, match="no JSON"), share.of(ONE):
            clock.now_s += 1.0
            raise ValueError("no JSON")
    with pytest.raises(ApiError):
        share.check(ONE)


def test_time_in_which_the_server_waits_for_its_core_is_charged_to_nobody(clock):
    share = TimeShare(clock, lambda: 0.0)
    for _ in range(10):
        use(share, clock, ONE, 10.0)


def test_a_fleet_behind_one_token_for_all_nodes_leaves_something_for_the_others(clock):
    share = TimeShare(clock, clock)
    use(share, clock, FLEET, BURST_S + 10.0)
    with pytest.raises(ApiError, match=f"{LARGEST_SHARE:.0%}"):
        use(share, clock, FLEET, 0.0)
    use(share, clock, ONE, 0.1)


def test_an_admin_and_a_server_without_tokens_have_no_limit(clock):
    share = TimeShare(clock, clock)
    for _ in range(10):
        use(share, clock, ALL, 10.0)


def test_a_flood_of_tokens_does_not_fill_the_memory(clock, monkeypatch):
    monkeypatch.setattr(time_share, "MAX_HOLDERS", 10)
    share = TimeShare(clock, clock)
    for number in range(100):
        use(share, clock, agent_of(f"node-{number}"), 0.01)
    assert len(share._left) <= 10


def test_a_node_whose_decisions_take_all_the_time_is_held_back_and_the_others_are_not(serve, tmp_path, monkeypatch):
    tokens = tmp_path / "tokens"
    lines = [f"{node}:{hashlib.sha256(node.encode()).hexdigest()}\n" for node in ("node-17", "node-18")]
    tokens.write_text("".join(lines))
    tokens.chmod(0o600)
    server = serve(token_file=tokens)
    monkeypatch.setattr(time_share, "BURST_S", 0.0005)
    monkeypatch.setattr(time_share, "SHARE", 1e-9)
    monkeypatch.setattr(time_share, "NODE_SHARE", 1e-9)
    statuses = [server.post(EXAMPLE, authorization="Bearer node-17").status_code for _ in range(50)]
    assert statuses[0] == 200
    assert statuses[-1] == 429
    for path in ("/v1/nodes", "/v1/fleet/events", "/v1/nodes/node-17", "/v1/nodes/node-17/day"):
        answer = server.client.get(path, headers={"authorization": "Bearer node-17"})
        assert answer.status_code == 429, f"{path} costs CPU time, too"
    other = msgspec.structs.replace(EXAMPLE, node="node-18")
    assert server.post(other, authorization="Bearer node-18").status_code == 200
    monkeypatch.setattr(time_share, "BURST_S", 0.0005)
    garbage: set[int] = set()
    for _ in range(5000):  # how many fit into half a millisecond is the machine's affair
        garbage.add(server.post(b"[" * 100_000, authorization="Bearer node-18").status_code)
        if 429 in garbage:
            break
    assert 429 in garbage
    assert {429, 400, 422} >= garbage
