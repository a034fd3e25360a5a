"""Who can be compared: installed policies and oracles."""

from __future__ import annotations

from osml.bench.oracle_policy import ORACLES
from osml.policies.ombm import Ombm, OmbmClassic
from osml.policies.registry import policy_names

REGULATED = (Ombm.name, OmbmClassic.name)
"""Who throttles memory bandwidth on every platform: by the agent's software regulator where there is no MBA."""


def contender_names() -> list[str]:
    """All names, sorted."""
    return sorted({*policy_names(), *ORACLES})
