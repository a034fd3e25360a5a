"""A policy's state comes from outside: whatever is in it, the node gets a decision and no critical alert rings."""

import base64

import msgspec
import pytest
from osml_serving.decider import PolicyFailedError, installed_decider
from osml_serving.example import EXAMPLE

from osml.domain import Observation

SPOILT = (-1, 2**62, [], [[]], [-5, 10**6], {"moses": -1.0}, "x", None)


def played(decider, policy: str, intervals: int) -> Observation:
    observation = msgspec.structs.replace(EXAMPLE, policy=policy)
    for _ in range(intervals):
        decision = decider(observation)
        observation = msgspec.structs.replace(
            observation,
            seq=observation.seq + 1,
            time_s=observation.time_s + 1,
            partition=decision.partition,
            policy_state=decision.policy_state,
        )
    return observation


def damaged_states(text: str):
    """The state with each of its fields, and each element of its lists, replaced by something of another kind."""
    envelope = msgspec.msgpack.decode(base64.urlsafe_b64decode(text))

    def places(value, path=()):
        entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in entries:
            yield (*path, key)
            yield from places(inner, (*path, key))

    for path in places(envelope["state"]):
        for spoilt in SPOILT:
            state = msgspec.msgpack.decode(msgspec.msgpack.encode(envelope["state"]))
            inner = state
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = spoilt
            yield base64.urlsafe_b64encode(msgspec.msgpack.encode({**envelope, "state": state})).decode()


@pytest.mark.parametrize("policy", ["clite", "random", "parties", "osml"])
def test_a_damaged_state_is_refused_or_forgotten(policy):
    from osml_serving.errors import ApiError

    decider = installed_decider("osml", 0)
    discarded = []
    decider.discarded = lambda policy, detail: discarded.append(policy)
    observation = played(decider, policy, 7)
    states = list(damaged_states(observation.policy_state))
    assert len(states) > 8
    for state in states[:: max(1, len(states) // 400)]:
        before = len(discarded)
        try:
            decision = decider(msgspec.structs.replace(observation, policy_state=state))
        except ApiError as error:
            assert error.status == 422
            continue
        if len(discarded) > before:
            assert "the policy cannot use its state" in decision.reasons[0].text
    if policy in ("clite", "random"):
        assert discarded, "no state was bad enough to show anything"


def test_a_policy_that_fails_without_a_state_still_fails(server):
    for state in (None, "3"):
        broken = msgspec.structs.replace(EXAMPLE, policy="broken", policy_state=state)
        with pytest.raises(PolicyFailedError):
            server.runtime.decider(broken)
        assert server.post(broken).status_code == 500


def test_a_discarded_state_is_counted_and_logged(server):
    observation = msgspec.structs.replace(EXAMPLE, policy_state="no number")
    answer = server.post(observation)
    assert answer.status_code == 200
    assert answer.json()["reasons"][0]["text"].startswith("the policy cannot use its state")
    assert server.runtime.metrics.registry.get_sample_value("osml_states_discarded_total") == 1
    assert b"state_discarded" in server.log.getvalue()
