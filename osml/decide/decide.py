"""One observation in, one decision out: the pure function behind `POST /v1/decisions`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec

from osml.allocation.policy import Policy
from osml.decide.registry import DEFAULT_POLICY, UnknownPolicyError, load_policy
from osml.decide.request import RequestError, check_observation
from osml.decide.state import open_state, seal_state
from osml.domain import Assignment, Decision, Observation, Partition, Reason
from osml.entropy import system_entropy
from osml.layout import Layout, LayoutError, lay_out
from osml.placement import prepared

__all__ = ["PolicyError", "RequestError", "decide", "decide_by"]


class PolicyError(RuntimeError):
    """A policy returned an illegal partition, or refused a sound request: a fault of the policy, not of the request."""


def decide(observation: Observation, default_policy: str = DEFAULT_POLICY, seed: int = 0) -> Decision:
    """What the node shall do until its next observation.

    Uses the policy that the observation names, otherwise `default_policy`. Pure: the same observation, default and seed
    give the same decision. Raises RequestError for input that makes no sense, PolicyError where a policy is at fault.
    """
    name = observation.policy or default_policy
    try:
        policy = load_policy(name)
    except UnknownPolicyError as error:
        raise RequestError(str(error), "policy") from error
    return decide_by(policy, observation, seed)


def decide_by(policy: Policy, observation: Observation, seed: int = 0) -> Decision:
    """As `decide`, by this policy, whatever the observation names."""
    check_observation(observation)
    with _faults_of(policy):
        policy, observation = prepared(policy, observation)
    state, notes = _state_of(observation, policy, seed)
    with _faults_of(policy):
        plan, state = policy.decide(observation, state)
    previous = _current(observation)
    try:
        layout = _laid_out(plan.partition, observation, previous)
    except LayoutError as error:
        raise PolicyError(f"policy '{policy.name}': {error}") from error
    return Decision(
        node=observation.node,
        seq=observation.seq,
        policy=policy.name,
        partition=plan.partition,
        assignments=layout.assignments,
        reasons=[*notes, *plan.reasons, *_new_notes(layout, previous)],
        entropy=system_entropy(observation.services),
        infeasible=plan.infeasible,
        forecasts=plan.forecasts,
        policy_state=seal_state(policy, state),
    )


def _new_notes(layout: Layout, previous: list[Assignment]) -> list[Reason]:
    """What the layout has to say of services whose mask it changes."""
    if not layout.notes:
        return []
    masks = {assignment.service: assignment.way_mask for assignment in previous}
    changed = {a.service for a in layout.assignments if masks.get(a.service) != a.way_mask}
    return [note for note in layout.notes if note.service in changed]


def _laid_out(partition: Partition, observation: Observation, previous: list[Assignment]) -> Layout:
    """The layout, out of a cache where the same was asked before: on most nodes nothing changes in most intervals."""
    names = [service.name for service in observation.services]
    key = _encoder.encode((partition, observation.platform, names, previous))
    found = _layouts.get(key)
    if found is None:
        found = lay_out(partition, observation.platform, observation.services, previous)
        if len(key) <= _LONGEST_KEY:
            if len(_layouts) >= _MAX_LAYOUTS:
                _layouts.clear()
            _layouts[key] = found
    return found


_MAX_LAYOUTS = 4096
_LONGEST_KEY = 8192  # bytes: what clients send must not fill the memory
_layouts: dict[bytes, Layout] = {}
_encoder = msgspec.msgpack.Encoder()


def _state_of(observation: Observation, policy: Policy, seed: int) -> tuple[Any, list[Reason]]:
    """The policy's state out of the observation, or its first one and why."""
    notes: list[Reason] = []
    if observation.policy_state is not None:
        state, why = open_state(observation.policy_state, policy)
        if why is None:
            return state, []
        notes = [Reason(text=why)]
    with _faults_of(policy):
        return policy.initial(observation, seed), notes


@contextmanager
def _faults_of(policy: Policy) -> Generator[None]:
    """What a policy refuses is its own fault: the request was checked before. So another policy may decide."""
    try:
        yield
    except RequestError as error:
        raise PolicyError(f"policy '{policy.name}' refuses a request that makes sense: {error}") from error


def _current(observation: Observation) -> list[Assignment]:
    """What the services hold now, as the agent read it back from the machine."""
    return [a for a in observation.assignments if a.cpus is not None or a.way_mask is not None]
