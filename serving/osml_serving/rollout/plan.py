"""The rollout file: groups of nodes with a policy and shadow policies, and canaries."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import yaml
from msgspec import Meta

from osml.base.failure import InputError
from osml.domain.platform import Name, Share
from osml_serving.decider import Decider

MAX_BYTES = 2**20
MAX_CANARIES = 16
MAX_SHADOWS = 8
Pattern = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.*?-]{1,63}\Z")]


class Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes whose name matches one of `nodes` (`*` and `?` as in a shell).

    `policy` decides where a node names none. Policies of `shadow` decide beside it, and nothing is applied.
    """

    name: Name
    nodes: Annotated[list[Pattern], Meta(min_length=1)]
    policy: str | None = None
    shadow: Annotated[list[str], Meta(max_length=MAX_SHADOWS)] = []

    def has(self, node: str) -> bool:
        """True where a node belongs to the group."""
        return any(fnmatchcase(node, pattern) for pattern in self.nodes)


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a canary returns: it is worse than the other nodes by more than these margins, at this confidence.

    `missed` is a share of the time in which a target was missed, `e_s` is of the system entropy. `settle_s` after a
    node came to its policy do not count. There is no look at the figures before `node_hours` of the canary's nodes, and
    none at failures before so many.
    """

    missed: Share = 0.01
    e_s: Share = 0.02
    confidence: Annotated[float, Meta(ge=0.5, lt=1)] = 0.95
    node_hours: Annotated[float, Meta(ge=0, le=1e6)] = 1.0
    settle_s: Annotated[float, Meta(ge=0, le=86_400)] = 60.0
    failures: Annotated[int, Meta(ge=1)] = 3


class Canary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy, or a model folder, for `percent` of the nodes of a group (of all nodes without one).

    A canary that returned stays so under its name: the next attempt needs a new name.
    """

    name: Name
    percent: Annotated[float, Meta(gt=0, le=100)]
    group: str | None = None
    policy: str | None = None
    models: Annotated[str, Meta(min_length=1)] | None = None
    limits: Limits = Limits()

    @property
    def what(self) -> str:
        """What it tries, in words."""
        parts = [f"policy {self.policy}" if self.policy else "", f"models of {self.models}" if self.models else ""]
        return " with ".join(part for part in parts if part)


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rollout file. A node belongs to the first group that has it, and to the first canary that chose it."""

    schema: Literal["osml/rollout/v1"]
    groups: list[Group] = []
    canaries: Annotated[list[Canary], Meta(max_length=MAX_CANARIES)] = []

    def group_of(self, node: str) -> Group | None:
        """The group of a node; None where no group has it."""
        return next((group for group in self.groups if group.has(node)), None)


def read_plan(path: Path, decider: Decider) -> Plan:
    """The plan of a file, for the policies of a decider. Raises InputError, naming file and field."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"rollout file {path} can't be read: {error.strerror}") from None
    if len(text) > MAX_BYTES:
        raise InputError(f"rollout file {path} has more than {MAX_BYTES >> 10} KiB, expected groups and canaries")
    try:
        plan = msgspec.convert(yaml.safe_load(text), Plan)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # YAML raises ValueError for some dates and numbers
        raise InputError(f"rollout file {path}: {' '.join(str(error).split())}; see docs/how-to/rollout.md") from None
    wrong = _wrong(plan, decider)
    if wrong is not None:
        raise InputError(f"rollout file {path}: {wrong}")
    return plan


def _wrong(plan: Plan, decider: Decider) -> str | None:
    for kind, names in (("groups", [g.name for g in plan.groups]), ("canaries", [c.name for c in plan.canaries])):
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            return f"{kind} has the name '{twice}' twice; give each a name of its own"
    named = [(f"groups '{g.name}'.policy", g.policy) for g in plan.groups]
    named += [(f"groups '{g.name}'.shadow", policy) for g in plan.groups for policy in g.shadow]
    named += [(f"canaries '{c.name}'.policy", c.policy) for c in plan.canaries]
    for where, policy in named:
        if policy is not None and policy not in decider.policies:
            return f"{where} is '{policy}', expected one of {', '.join(decider.policies)}"
    for group in plan.groups:
        if len(set(group.shadow)) < len(group.shadow):
            return f"groups '{group.name}'.shadow has a policy twice; name each once"
    groups = {group.name for group in plan.groups}
    for canary in plan.canaries:
        if canary.group is not None and canary.group not in groups:
            known = ", ".join(sorted(groups)) or "a group of this file, which has none"
            return f"canaries '{canary.name}'.group is '{canary.group}', expected one of {known}"
        if canary.policy is None and canary.models is None:
            return f"canaries '{canary.name}' has neither policy nor models; set what it tries"
        if canary.models is not None:
            policy = _without_models(plan, canary, decider)
            if policy is not None:
                return (
                    f"canaries '{canary.name}'.models: policy '{policy}' takes no models; set policy to one that does"
                )
    return None


def _without_models(plan: Plan, canary: Canary, decider: Decider) -> str | None:
    """A policy that may decide for the canary's nodes, and that does not decide with models of the server."""
    named = policies_of(plan, canary, decider.default_policy)
    return next((policy for policy in named if policy in decider.slow or not decider.takes_models(policy)), None)


def policies_of(plan: Plan, canary: Canary, default_policy: str) -> list[str]:
    """Policies that may decide for the canary's nodes: its own, or those of its groups."""
    deciding = [canary.policy]
    if canary.policy is None:
        deciding = [group.policy for group in plan.groups if canary.group in (None, group.name)]
        if canary.group is None:
            deciding.append(None)  # nodes of no group
    return list(dict.fromkeys(policy or default_policy for policy in deciding))
