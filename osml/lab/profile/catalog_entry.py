"""A measured curve as an entry of the simulator's catalogs, so that the virtual node can run the program."""

from __future__ import annotations

from typing import Any

import yaml

_HOW = "osml look profile"
_LEAST_APKI, _LEAST_RATIO, _LINE = 0.01, 1e-3, 64.0


def _assumed(value: float | str) -> dict[str, Any]:
    return {"fitted": value, "note": "assumed: not measured"}


def _measured(value: float, error: float | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"measured": float(f"{value:.6g}"), "source": _HOW}
    return found if error is None else found | {"error": float(f"{error:.3g}")}


def _memory(found: dict[str, Any]) -> dict[str, Any]:
    """How the program uses cache and memory. The law is a fit to measured points; its error stands beside."""
    fit = found["law"]
    note = f"fit to {len(found['ways'])} measured sizes, rms {fit['rms']:.3g} MPKI"
    middle = found["bytes_per_miss"][len(found["ways"]) // 2]
    return {
        "cpi": _assumed(0.6),
        "apki": _measured(max(found["apki"], _LEAST_APKI), found["apki_error"]),
        "miss_min": {"fitted": max(fit["miss_min"], _LEAST_RATIO), "note": note},
        "working_set_mib": {"fitted": fit["working_set_mib"], "note": note},
        "steepness": {"fitted": fit["steepness"], "note": note},
        "mlp": _assumed(3.0),
        "bytes_per_miss": _measured(max(middle, _LINE)),
        "footprint_mib": _measured(max(found["footprint_mib"], 0.001)),
        "power": _assumed(1.0),
    }


def entry(found: dict[str, Any], threads: int) -> dict[str, Any]:
    """A mapping of the program's name to its parameters: a service where it was under load, else a job."""
    load = found["load"]
    if load is None:
        job = {"threads": _assumed(max(threads, 1))} | _memory(found)
        return {found["name"]: job | {key: _assumed(0.0) for key in ("disk_mbps", "network_gbps", "flows")}}
    native_s = max(load["native_cpu_ms"], 1e-4) / 1000.0
    rate = threads / native_s
    usual = {"switch_cost": 0.01, "queue_limit_s": 30.0, "stack_ms": 0.0, "disk_ios": 0.0, "pages": 50.0}
    service = _memory(found) | {key: _assumed(value) for key, value in usual.items()}
    service |= {key: _assumed(0.0) for key in ("network_kib", "device_kib")}
    deployment = {
        "max_load": {"fitted": float(f"{rate:.5g}"), "note": f"{threads} threads over the CPU time of a request here"},
        "target_ms": _assumed(float(f"{10_000.0 * native_s:.4g}")),
        "percentile": _assumed("p99"),
        "threads": _assumed(threads),
        "instructions": _measured(found["instructions_per_request"]),
        "cv2": _assumed(1.0),
        "usable": _assumed(1.0),
        "burstiness": _assumed(1.0),
        "serial_ms": _assumed(0.0),
    }
    return {found["name"]: service | {"deployments": {found["platform"]: deployment}}}


def text(found: dict[str, Any], threads: int) -> str:
    """The entry as YAML."""
    return yaml.safe_dump(entry(found, threads), sort_keys=False, width=110)
