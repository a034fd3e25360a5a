"""Round-robin: SCHED_RR for LC services on shared cores (the RR strategy of Ah-Q, TPDS 2024, section VIII).

| here | the paper |
|---|---|
| LC services get a real-time priority and a time slice | "uses the operating system's real-time strategy, SCHED_RR" |
| one region of all cores and ways | "has PA but not IA": priorities, no isolation |
| BE jobs stay normal tasks | "without interference from low-priority applications" |

The paper's LC-first uses the same class of the kernel; here it leaves the slice at the node's default, and this policy
states the kernel's own.
"""

from __future__ import annotations

from msgspec import Struct

from osml.allocation.policy import Plan
from osml.domain import Knobs, Observation
from osml.policies.lc_first import PRIORITY, prioritised

SLICE_MS = 100.0  # RR_TIMESLICE of Linux, the default of /proc/sys/kernel/sched_rr_timeslice_ms


class RoundRobinState(Struct, frozen=True):
    """Nothing to remember."""


class RoundRobin:
    """One region shared by all; LC tasks take turns among themselves, before all BE tasks."""

    name = "round_robin"
    version = 1
    whole_node = True
    State = RoundRobinState

    def initial(self, observation: Observation, seed: int) -> RoundRobinState:
        """Nothing to remember."""
        return RoundRobinState()

    def decide(self, observation: Observation, state: RoundRobinState) -> tuple[Plan, RoundRobinState]:
        """The same plan as long as the services are the same."""
        return prioritised(observation, Knobs(realtime_priority=PRIORITY, slice_ms=SLICE_MS), "round_robin"), state
