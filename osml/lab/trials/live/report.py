"""The document of `summary.json` (keys: as `osml run demo`, plus what only a real machine has)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from osml.domain import DRY_RUN, Assignment
from osml.lab.trials import summary
from osml.lab.trials.live.phases import LivePhase
from osml.lab.trials.live.settings import WINDOW_S, LiveSettings

# Field of an assignment -> what the agent calls the mechanism behind it.
MECHANISMS = {
    "cpus": "cpuset",
    "cpu_quota": "cpu_quota",
    "cpu_weight": "cpu_weight",
    "way_mask": "llc_ways",
    "mba": "mba",
}


def mechanisms_in_use(phase: LivePhase) -> list[str]:
    """Those that a decision of the phase set for some service."""
    used = {
        MECHANISMS[field]
        for record in phase.records
        for assignment in record.decision.assignments
        for field in MECHANISMS
        if getattr(assignment, field) is not None
    }
    return sorted(used)


def allocations(phases: list[LivePhase]) -> list[dict[str, Any]]:
    """What the agent read back from the machine, whenever it differed from the interval before."""
    rows: list[dict[str, Any]] = []
    for phase in phases:
        last: list[Assignment] | None = None
        start = phase.records[0].observation.time_s
        for record in phase.records:
            seen = record.observation
            found = [] if DRY_RUN in seen.missing else seen.assignments  # what would be in force is not
            if found == last:
                continue
            last = found
            services = {
                a.service: {"cpus": a.cpus, "cpu_quota": a.cpu_quota, "cpu_weight": a.cpu_weight} for a in found
            }
            t_s = round(record.observation.time_s - start, 3)
            rows.append({"phase": phase.label, "t_s": t_s, "services": services})
    return rows


def _met(ideal_ms: float | None, target_ms: float) -> bool:
    return ideal_ms is not None and ideal_ms <= target_ms


def _phase(phase: LivePhase) -> dict[str, Any]:
    document = summary.phase(phase.records)
    for service in document["services"]:
        window = phase.window.get(service["name"])
        for key in (
            "p99_ms",
            "lateness_p99_ms",
            "samples",
            "errors",
            "requests_per_s",
            "offered_per_s",
            "unanswered",
            "given_up",
        ):
            name = "p99_pooled_ms" if key == "p99_ms" else key
            service[name] = None if window is None else window[key]
    intervals = len(phase.records)
    document["window_s"] = intervals - max(1, intervals - WINDOW_S)  # a short phase has no more
    document["generator"] = asdict(phase.generator)
    document["unanswered"] = phase.unanswered
    return document


def summarise(
    settings: LiveSettings, cgroups: str, phases: list[LivePhase], baseline: dict[str, Any]
) -> dict[str, Any]:
    """Both phases and what they ran on. `baseline`: each side measured alone."""
    unmanaged, managed = phases
    late_alone = [load.name for load in settings.loads if not _met(baseline["ideal_ms"].get(load.name), load.target_ms)]
    platform = managed.records[-1].observation.platform
    missing = managed.records[-1].observation.missing
    cost = managed.agent
    return {
        "platform": platform.id,
        "policy": settings.policy,
        "simulated": False,
        "seed": settings.seed,
        "cgroups": cgroups,
        "core_quantum": platform.core_quantum,
        "mechanisms": mechanisms_in_use(managed),
        "missing": [{"mechanism": name, "reason": reason} for name, reason in sorted(missing.items())],
        "baseline": baseline | {"missed_alone": late_alone},
        "phases": {"unmanaged": _phase(unmanaged), "managed": _phase(managed)},
        "actions": summary.actions(managed.records),
        "convergence_s": summary.convergence_s(managed.records),
        "allocations": allocations(phases),
        "agent": None if cost is None else {"cpu_pct": cost.cpu_pct, "rss_mib": cost.rss_mib},
    }
