"""The ready-made configuration with which osml-agent drives a virtual node."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from osml.simulator.kernel.machine import Machine
from osml.simulator.models import ServiceModel
from osml.simulator.surface import known_ideal_ms, solo_speed


def _tenant(machine: Machine, folder: Path, tenant: int, load: float, interval_s: float) -> dict[str, Any]:
    model = machine.node.tenants[tenant]
    telemetry = {"file": str(folder / "telemetry" / f"{model.name}.jsonl")}
    entry: dict[str, Any] = {"name": model.name}
    if isinstance(model, ServiceModel):
        entry |= {"class": "lc", "target_ms": model.target_ms, "percentile": model.percentile}
        entry["ideal_ms"] = round(known_ideal_ms(machine.node.platform, model, load), 3)
        entry["latency"] = {**telemetry, "max_age_s": max(5.0, 2.0 * interval_s)}
    else:
        ipc, work_rate = solo_speed(machine.node.platform, model)
        entry |= {"class": "be", "ipc_solo": round(ipc, 4), "work_rate_solo": round(work_rate, 3)}
    entry["match"] = {"cgroup": machine.cgroup_path(tenant)}
    entry["counters"] = telemetry
    return entry


def agent_config(
    machine: Machine,
    folder: Path,
    loads: Mapping[str, float],
    *,
    speed: float,
    interval_s: float,
    server_url: str,
    policy: str | None,
) -> str:
    """agent.yaml as text. Solo speeds and ideal latencies come from the model itself, alone on one socket."""
    platform, several = machine.node.platform, len(machine.profile.domains) > 1
    document = {
        "node": folder.name or "virtual",
        "server": {"url": server_url},
        "policy": policy,
        "interval_s": interval_s,
        "time_scale": speed,
        "state_dir": str(folder / "state"),
        "roots": {name: str(folder / sub) for name, sub in
                  (("resctrl", "resctrl"), ("cgroup", "cgroup"), ("proc", "proc"), ("sysfs", "sys"))},
        "cpu": {"backend": "cgroup2", "quantum": 1.0} | ({"cache_domains": "place"} if several else {}),
        "platform": {
            "id": platform.id,
            "bandwidth_gbps": machine.whole.bandwidth_gbps,
            "memory_gib": machine.whole.memory_gib,
            "frequency_ghz": platform.frequency_ghz,
        },
        "services": [
            _tenant(machine, folder, i, loads.get(name, 0.0), interval_s) for i, name in enumerate(machine.node.names)
        ],
    }  # fmt: skip
    return "# Written by `osml lab simulator mount`: for this virtual node only.\n" + yaml.safe_dump(
        document, sort_keys=False
    )
