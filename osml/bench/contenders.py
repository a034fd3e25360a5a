"""Who can be compared: installed policies, oracles, and versions of a paper's policy that are there to compare with."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from osml.bench.oracle_policy import ORACLES
from osml.policies.ombm import Ombm, OmbmClassic
from osml.policies.policy import Policy
from osml.policies.registry import load_policy, policy_names

PAPER_VERSIONS: Mapping[str, Callable[[], Policy]] = {OmbmClassic.name: OmbmClassic}
"""Policies as their paper has them, by name; no installed policy has it."""

REGULATED = (Ombm.name, OmbmClassic.name)
"""Who throttles memory bandwidth on every platform: by the agent's software regulator where there is no MBA."""


def contender_names() -> list[str]:
    """All names, sorted."""
    return sorted({*policy_names(), *PAPER_VERSIONS, *ORACLES})


def contender(name: str) -> Policy:
    """A policy, but for the oracles. Raises UnknownPolicyError."""
    return PAPER_VERSIONS[name]() if name in PAPER_VERSIONS else load_policy(name)
