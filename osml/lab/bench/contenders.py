"""Who can be compared: installed policies and oracles."""

from __future__ import annotations

from collections.abc import Iterable

from osml.decide.registry import policy_names
from osml.lab.bench.oracle_policy import ORACLES
from osml.policies.ombm import Ombm, OmbmClassic
from osml.policies.osml.answers.models import shipped_models

REGULATED = (Ombm.name, OmbmClassic.name)
"""Who throttles memory bandwidth on every platform: by the agent's software regulator where there is no MBA."""


def contender_names() -> list[str]:
    """All names, sorted."""
    return sorted({*policy_names(), *ORACLES})


def without_models(policies: Iterable[str], platforms: Iterable[str]) -> list[str]:
    """For each of these platforms on which the policy `osml` has no model: why."""
    if "osml" not in policies:
        return []
    faults = {platform: shipped_models(platform).faults for platform in sorted(set(platforms))}
    return [
        f"on {platform} the policy osml uses square-root staffing: {fault}"
        for platform, found in faults.items()
        for fault in found
        if fault.startswith("model a2:")
    ]
