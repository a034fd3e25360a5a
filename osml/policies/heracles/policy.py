"""Heracles (Lo et al., ISCA 2015) with several LC services, as PARTIES compares with it (ASPLOS 2019, section 5.2.2).

The service with the strictest target is *the* LC service. All others, LC or not, are best effort to it: they share one
region, nothing is divided between them, and all of them are suspended for five minutes when its target is missed.

| here | Heracles |
|---|---|
| `Round.supervise` | algorithm 1, the top-level controller, every 15 s |
| `Round.grow` | algorithm 2, cores and memory, every 2 s: DRAM limit, then GROW_LLC and GROW_CORES |
| `Round.power` | algorithm 3, power, every 2 s: best effort slows down so that the LC service keeps its clock |
| `Round.network` | algorithm 4, egress bandwidth, every second |

Deviations are numbered in docs/reference/policies.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from osml.allocation.division import divide, not_applied
from osml.allocation.policy import Plan
from osml.allocation.violation import migration, violated_since
from osml.domain import Observation, Reason, Service
from osml.policies.heracles.working_plan import HeraclesState, Round


class Heracles:
    """One service protected, the rest grows beside it by cache ways and cores while its slack allows.

    `peak_requests_per_s` are the loads at which services are at their peak, where known; without them the load of the
    LC service is the share of the node's CPU time that it uses.
    """

    name = "heracles"
    version = 1
    State = HeraclesState

    def __init__(self, peak_requests_per_s: Mapping[str, float] | None = None) -> None:
        self.peak_requests_per_s = dict(peak_requests_per_s or {})

    def initial(self, observation: Observation, seed: int) -> HeraclesState:
        """Nothing decided yet. Nothing in Heracles is random."""
        return HeraclesState(time_s=observation.time_s)

    def decide(self, observation: Observation, state: HeraclesState) -> tuple[Plan, HeraclesState]:
        """Run the controllers that are due."""
        lc = strictest(observation)
        if lc is None:
            everybody = tuple(service.name for service in observation.services)
            division = divide(observation, [], lambda _: everybody, HeraclesState())
            reasons = [
                Reason(text="there is no LC service to protect: all services share everything"),
                *division.reasons(),
            ]
            return Plan(division.partition(), reasons, division.infeasible()), HeraclesState()
        if state.lc != lc.name or observation.time_s < state.time_s:
            state = HeraclesState(lc=lc.name, time_s=observation.time_s)
        others = tuple(service.name for service in observation.services if service.name != lc.name)
        division = divide(observation, [lc.name], lambda _: others, state)
        turn = Round(observation, state, division, lc, self.peak_requests_per_s.get(lc.name))
        if division.started:
            turn.start()
        elif (obstacle := not_applied(observation, state.wanted)) is not None:
            turn.pass_over(obstacle, again=division.from_wanted)
        else:
            turn.control()
        partition = turn.rest.partition()
        services = {service.name: service for service in observation.services if service.kind == "lc"}
        since_s = violated_since(services, state.violated_since_s, observation.time_s)
        infeasible = division.infeasible() or migration(services, since_s, observation.time_s)
        after = turn.state(partition, since_s)
        return Plan(partition, [*division.reasons(), *turn.reasons], infeasible), after


def strictest(observation: Observation) -> Service | None:
    """The LC service with the lowest target; None where there is no LC service."""
    lc = [service for service in observation.services if service.kind == "lc"]
    return min(lc, key=lambda s: (s.target_ms or 0.0, s.name), default=None)
