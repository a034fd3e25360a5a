"""Legality of a decision before it goes to a node. The agent checks again, against the machine itself."""

from __future__ import annotations

from osml.domain import Assignment, Decision, Observation, Platform
from osml.domain.cpulist import cpu_mask, is_contiguous, lowest_cpu


def decision_error(observation: Observation, decision: object) -> str | None:
    """Say in one sentence what is illegal about an answer to an observation, or None where it is legal.

    The partition is not looked at: `osml.layout` refuses an illegal one when it makes the assignments of it.
    """
    if not isinstance(decision, Decision):
        return f"the policy returned a {type(decision).__name__}, expected a Decision"
    if (decision.node, decision.seq) != (observation.node, observation.seq):
        expected = f"expected node {observation.node}, seq {observation.seq}"
        return f"the decision is for node {decision.node}, seq {decision.seq}; {expected}"
    names = [service.name for service in observation.services]
    if sorted(assignment.service for assignment in decision.assignments) != sorted(names):
        assigned = ", ".join(assignment.service for assignment in decision.assignments)
        return f"the decision has assignments for [{assigned}], expected one for each of [{', '.join(names)}]"
    return next(
        (fault for each in decision.assignments if (fault := _assignment_error(each, observation.platform))), None
    )


def _assignment_error(assignment: Assignment, platform: Platform) -> str | None:
    name = assignment.service
    if assignment.cpus is not None:
        try:
            cpus = cpu_mask(assignment.cpus)
            foreign = cpus & ~cpu_mask(platform.cpus)
        except ValueError as error:
            return f"the assignment of '{name}' is invalid: {error}"
        if not cpus:
            return f"assignment of '{name}' has an empty CPU list"
        if foreign:
            return f"assignment of '{name}' has CPU {lowest_cpu(foreign)}, expected CPUs of {platform.cpus}"
    if assignment.way_mask is not None and platform.ways is not None:
        mask = int(assignment.way_mask, 16)
        if mask == 0 or mask >> platform.ways:
            return f"assignment of '{name}' has the way mask {assignment.way_mask}, expected 1 to {platform.ways} ways"
        if not platform.sparse_masks and not is_contiguous(mask):
            return (
                f"assignment of '{name}' has the way mask {assignment.way_mask}, "
                "expected adjacent ways, because this platform has no sparse masks"
            )
    return None
