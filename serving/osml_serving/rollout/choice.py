"""Who decides for a node: the canary that chose it, or the policy of its group."""

from __future__ import annotations

import hashlib
from collections.abc import Container
from dataclasses import dataclass

from osml_serving.rollout.judge import Arm
from osml_serving.rollout.plan import Canary, Group, Plan

PARTS = 2**32


@dataclass(frozen=True)
class Choice:
    """The group of a node, the canary that decides for it, and the arm in which each canary counts it."""

    group: Group | None
    canary: Canary | None
    arms: tuple[tuple[str, Arm], ...] = ()

    @property
    def policy(self) -> str | None:
        """Policy for a node that names none; None is the server's default."""
        if self.canary is not None and self.canary.policy is not None:
            return self.canary.policy
        return None if self.group is None else self.group.policy


def choose(plan: Plan, node: str, returned: Container[str], *, names_policy: bool) -> Choice:
    """The choice for a node. All replicas choose alike. A node that names its policy itself is in no canary."""
    group = plan.group_of(node)
    if names_policy:
        return Choice(group, None)
    offered = [c for c in plan.canaries if c.group is None or (group is not None and c.group == group.name)]
    running = [canary for canary in offered if canary.name not in returned]
    chosen = next((canary for canary in running if is_chosen(canary, node)), None)
    if chosen is not None:
        return Choice(group, chosen, ((chosen.name, "canary"),))
    return Choice(group, None, tuple((canary.name, "others") for canary in running))


def is_chosen(canary: Canary, node: str) -> bool:
    """Whether a canary chooses a node. A larger percentage keeps the nodes that a smaller one chose."""
    digest = hashlib.sha256(f"{canary.name}\0{node}".encode()).digest()
    return int.from_bytes(digest[:4], "big") < canary.percent / 100 * PARTS
