"""Experiences as the agent would send them."""

import msgspec
from osml_serving.example import EXAMPLE

from osml.decide.decide import decide
from osml.domain import Decision, Experience, Latency, Outcome


def experience_of(seq: int = 0, node: str = "node-17", after_ms: float = 12.0, policy: str = "arq") -> Experience:
    """One decision of a real policy, carried out, and an interval after it in which moses has this p99."""
    before = msgspec.structs.replace(EXAMPLE, node=node, seq=seq, time_s=100.0 + seq, policy=policy)
    decision: Decision = decide(before)
    moses = msgspec.structs.replace(before.services[0], latency=Latency(p99_ms=after_ms))
    after = msgspec.structs.replace(
        before,
        seq=seq + 1,
        time_s=101.0 + seq,
        partition=decision.partition,
        assignments=decision.assignments,
        services=[moses, *before.services[1:]],
        outcome=Outcome(seq=seq, status="applied"),
        policy_state=decision.policy_state,
    )
    return Experience(before=before, decision=decision, after=after)
