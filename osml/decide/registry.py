"""Which policies exist: those of the entry point group `osml.policies`, ours and any installed package's."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from osml.allocation.policy import Policy

GROUP = "osml.policies"
DEFAULT_POLICY = "osml"
"""Decides where neither the observation nor the operator names a policy."""


class UnknownPolicyError(ValueError):
    """No policy has this name; the text lists those that exist."""


def policy_names() -> list[str]:
    """Names of all installed policies, sorted."""
    return sorted(_entries())


@cache
def load_policy(name: str) -> Policy:
    """The policy of that name. Raises UnknownPolicyError."""
    entry = _entries().get(name)
    if entry is None:
        raise UnknownPolicyError(f"policy '{name}' is unknown; known are {', '.join(policy_names())}")
    return cast(Policy, entry.load()())


@cache
def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}
