"""The dispatch policies as pure functions: (observation, state) -> (decision, state).

A load balancer answers "503" when every server is out, so each policy leaves at least one usable backend in: where the
model would let all jobs wait, one backend under interference is used all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from osml.dispatch.haproxy.farm_view import Backend, DispatchDecision, FarmObservation
from osml.dispatch.mdp.thresholds import ThresholdTable

PolicyName = Literal["threshold", "avoid", "round_robin", "non_idling"]


@dataclass(frozen=True)
class PolicyState:
    """table: thresholds in force, None before the first are known. kept: the backend that stayed in last time, because
    all others were out; it is kept again, so that the choice does not jump.
    """

    table: ThresholdTable | None = None
    kept: str | None = None


Policy = Callable[[FarmObservation, PolicyState], tuple[DispatchDecision, PolicyState]]


def round_robin(observation: FarmObservation, state: PolicyState) -> tuple[DispatchDecision, PolicyState]:
    """The load balancer alone, blind to interference: every backend is in (paper, section VI-C)."""
    return DispatchDecision({backend.name: backend.limit for backend in observation.usable}), state


def avoid(observation: FarmObservation, state: PolicyState) -> tuple[DispatchDecision, PolicyState]:
    """No backend under interference, a threshold of infinity; with all of them under it, there is nothing to prefer."""
    if all(backend.interfered for backend in observation.usable):
        return round_robin(observation, state)
    slots = {backend.name: 0 if backend.interfered else backend.limit for backend in observation.usable}
    return DispatchDecision(slots), state


def non_idling(observation: FarmObservation, state: PolicyState) -> tuple[DispatchDecision, PolicyState]:
    """Free backends first; one under interference is used as soon as a job would wait (paper, section V-B)."""
    return _by_table(observation, replace(state, table=ThresholdTable.non_idling(max(1, len(observation.usable)))))


def threshold(observation: FarmObservation, state: PolicyState) -> tuple[DispatchDecision, PolicyState]:
    """A backend under interference is used from N(i, b) jobs in system on. Non-idling while no thresholds are known, or
    only those of a farm of another size.
    """
    if state.table is None or state.table.servers != len(observation.usable):
        decision, moved = non_idling(observation, state)
        return decision, replace(moved, table=state.table)
    return _by_table(observation, state)


POLICIES: Mapping[PolicyName, Policy] = {
    "threshold": threshold,
    "avoid": avoid,
    "round_robin": round_robin,
    "non_idling": non_idling,
}


def _by_table(observation: FarmObservation, state: PolicyState) -> tuple[DispatchDecision, PolicyState]:
    """Free backends are always in; those under interference as the table says."""
    table, usable = state.table, observation.usable
    slots = {backend.name: 0 if backend.interfered else backend.limit for backend in usable}
    under = [backend for backend in usable if backend.interfered]
    free_idle = any(not backend.interfered and backend.in_service == 0 for backend in usable)
    if table is not None and under and not free_idle:
        for backend in _used(observation, table, under):
            slots[backend.name] = backend.limit_interfered
    kept = None
    if usable and not any(slots.values()):
        kept = _least_bad(under, state.kept)
        slots[kept.name] = kept.limit_interfered
    return DispatchDecision(slots), replace(state, kept=kept.name if kept else None)


def _used(observation: FarmObservation, table: ThresholdTable, under: list[Backend]) -> list[Backend]:
    """Backends under interference that may take a job now."""
    jobs, i = observation.jobs, len(under)
    busy = [backend for backend in under if backend.in_service > 0]
    # A busy one stays in when its own completion may bring it the next job: the state without the job that ends is
    # asked, the waiting job counts as the arriving one.
    used = busy if busy and table.uses(max(0, jobs - 2), i, len(busy) - 1) else []
    taken = len(busy)
    # Before an arrival: the next one, where nobody waits; else the one that waits already.
    before = jobs - 1 if observation.queued > 0 else jobs
    for backend in under:
        if backend.in_service > 0:
            continue
        if not table.uses(before, i, taken):
            break
        used = [*used, backend]
        taken += 1
    return used


def _least_bad(under: list[Backend], kept: str | None) -> Backend:
    """Who stays in when all were to be out: the one kept before, else one that works already, else the first."""
    return min(under, key=lambda backend: (backend.name != kept, backend.in_service == 0, backend.name))
