"""Who can be compared: installed policies and oracles."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from osml.base.failure import InputError
from osml.decide.registry import policy_names
from osml.lab.bench.oracle_policy import ORACLES
from osml.lab.theory.experiments.settled_runs import PRIORITY_POLICIES
from osml.policies.ombm import Ombm, OmbmClassic
from osml.policies.osml.answers.models import shipped_models
from osml.simulator.node_platform import LEVERS, REALTIME, Lever

REGULATED = (Ombm.name, OmbmClassic.name)
"""Who throttles memory bandwidth on every platform: by the agent's software regulator where there is no MBA."""

OWN_LEVERS: Mapping[str, frozenset[Lever]] = dict.fromkeys(PRIORITY_POLICIES, REALTIME)
"""Policies that a lever is part of, by their paper: they have it in every suite, the others don't."""


def checked_levers(text: str) -> frozenset[Lever]:
    """The levers of a list such as "realtime,frequency", or none; InputError for one that does not exist."""
    names = [name.strip() for name in text.split(",")]
    if names == ["none"]:
        return frozenset()
    known: dict[str, Lever] = dict(zip(LEVERS, LEVERS, strict=True))
    for name in names:
        if name not in known:
            raise InputError(f"--levers: '{name}' is unknown; give some of {','.join(LEVERS)}, or none")
    return frozenset(known[name] for name in names)


def levers_text(levers: Collection[Lever], policies: Iterable[str]) -> str:
    """Levers of all policies, and those that some have alone, in one line; empty where there are none."""
    everybody = [",".join(lever for lever in LEVERS if lever in levers)] if levers else []
    alone = {name: OWN_LEVERS[name].difference(levers) for name in policies if name in OWN_LEVERS}
    return "; ".join([*everybody, *(f"{name}: {','.join(sorted(own))}" for name, own in alone.items() if own)])


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
