"""LC-first: strict priority of LC services over BE jobs, and nothing else (Ah-Q, TPDS 2024, section VII-A).

| here | the paper |
|---|---|
| `prioritised`: LC services get a real-time priority | "setting them to real-time priority" |
| one region of all cores and ways | "if the current core is running a non-real-time process, [it] preempts" it |
| equal priorities among LC services | "the operating system's round-robin scheduling strategy" |

As with `unmanaged`, an operator's maximum can't be kept: the agent refuses such a decision.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from osml.allocation.policy import Plan
from osml.domain import Knobs, Observation, Reason
from osml.policies.unmanaged import beyond_limits, shared_by_all

PRIORITY = 10  # of 1..99; only that it is above 0 (normal tasks) matters


class LcFirstState(Struct, frozen=True):
    """Nothing to remember."""


class LcFirst:
    """One region shared by all; an LC task that wakes up takes the CPU from any BE task at once."""

    name = "lc_first"
    version = 1
    whole_node = True
    State = LcFirstState

    def initial(self, observation: Observation, seed: int) -> LcFirstState:
        """Nothing to remember."""
        return LcFirstState()

    def decide(self, observation: Observation, state: LcFirstState) -> tuple[Plan, LcFirstState]:
        """The same plan as long as the services are the same."""
        return prioritised(observation, Knobs(realtime_priority=PRIORITY), "lc_first"), state


def prioritised(observation: Observation, knobs: Knobs, name: str) -> Plan:
    """Everything shared by all, LC services under `knobs`; on a node without priorities the reasons say that.

    `name` is the policy's, for the reasons.
    """
    partition, shared = shared_by_all(observation)
    lc = [service.name for service in observation.services if service.kind == "lc"]
    if not observation.platform.realtime:
        text = (
            f"{name}: {shared} without priorities: this node can't set real-time priorities "
            "(platform.realtime is false)"
        )
        return Plan(partition, [Reason(text=text)], beyond_limits(observation))
    quantum = "" if knobs.slice_ms is None else f", in turns of {knobs.slice_ms:g} ms"
    first = f"these run before all others: {', '.join(lc) or 'none'} (priority {knobs.realtime_priority}{quantum})"
    partition = replace(partition, knobs=dict.fromkeys(lc, knobs))
    return Plan(partition, [Reason(text=f"{name}: {shared}; {first}")], beyond_limits(observation))
