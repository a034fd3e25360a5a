"""The agent's configuration for the trial, as a file that anybody could have written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from osml.lab.trials.live.cgroups import ROOT_NAME
from osml.lab.trials.live.settings import LcLoad

NODE = "live"
BE = "stress"


def agent_config(
    policy: str,
    server_url: str,
    state: Path,
    telemetry: Path,
    loads: tuple[LcLoad, ...],
    ideal_ms: dict[str, float | None],
    work_rate_solo: float,
    cpus: str,
) -> str:
    """YAML text. `telemetry` holds `<service>.jsonl`; `ideal_ms` is each service's p99 with nothing beside it."""
    services: list[dict[str, Any]] = []
    for load in loads:
        service: dict[str, Any] = {
            "name": load.name,
            "class": "lc",
            "target_ms": load.target_ms,
            "percentile": "p99",
            "limits": {"min_cores": load.min_cores},
            "match": {"cgroup": f"{ROOT_NAME}/{load.name}"},
            "latency": {"file": str(telemetry / f"{load.name}.jsonl"), "max_age_s": 3},
        }
        ideal = ideal_ms.get(load.name)
        if ideal is not None and ideal < load.target_ms:
            service["ideal_ms"] = round(ideal, 4)
        services.append(service)
    services.append(
        {
            "name": BE,
            "class": "be",
            "work_rate_solo": round(work_rate_solo, 4),
            "match": {"cgroup": f"{ROOT_NAME}/{BE}"},
            "counters": {"file": str(telemetry / f"{BE}.jsonl")},
        }
    )
    return yaml.safe_dump(
        {
            "node": NODE,
            "server": {"url": server_url, "timeout_s": 0.5},
            "policy": policy,
            "interval_s": 1.0,
            "on_exit": "restore",
            "state_dir": str(state),
            "cpu": {"backend": "auto", "quantum": 0.1, "cpus": cpus},
            "services": services,
        },
        sort_keys=False,
    )
