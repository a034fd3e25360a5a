"""What a policy says of an agent that refuses the same request again and again."""

from __future__ import annotations

from osml.domain import NOT_DONE, Infeasible, Observation

LASTING = 2  # one refusal can be an accident


def was_refused(observation: Observation) -> bool:
    """True where the agent did not carry out the last decision, and said so."""
    return observation.outcome is not None and observation.outcome.status in NOT_DONE


def refusals(observation: Observation, before: int, *, again: bool) -> int:
    """Refusals in a row of a request that is repeated: `before` this observation there were so many."""
    return min(before + 1, LASTING) if again and was_refused(observation) else 0


def stuck(observation: Observation, in_a_row: int) -> Infeasible | None:
    """After two refusals in a row: what the agent says, for whoever can change it."""
    outcome = observation.outcome
    return None if outcome is None else never_applied(observation, in_a_row, outcome.message)


def never_applied(observation: Observation, in_a_row: int, message: str | None) -> Infeasible | None:
    """The same where the agent's message is known from before."""
    if in_a_row < LASTING:
        return None
    names = [service.name for service in observation.services]
    return Infeasible(names, f"the agent does not apply this policy's request: {message or 'it gave no reason'}")


def towards(now: int, wanted: int, halvings: int) -> int:
    """Units on the way from `now` to `wanted`, the way so often halved, at least one: an agent may limit its steps."""
    way = abs(wanted - now)
    step = min(way, max(1, way >> halvings))
    return now + (step if wanted > now else -step)
