"""The telemetry files of a node: one JSON line per interval and tenant, appended with one write."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from osml.simulator.measure import Measurement


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else float(f"{value:.{digits}g}")


def telemetry_line(time_s: float, seen: Measurement) -> bytes:
    """One line. Latencies of a job, and of a service without requests, are null: there was nothing to measure."""
    record = {
        "t": round(time_s, 3),
        "interval_s": round(seen.interval_s, 3),
        "mean_ms": _rounded(seen.mean_ms, 5),
        "p50_ms": _rounded(seen.p50_ms, 5),
        "p95_ms": _rounded(seen.p95_ms, 5),
        "p99_ms": _rounded(seen.p99_ms, 5),
        "requests_per_s": _rounded(seen.requests_per_s, 6),
        "samples": seen.samples,
        "ipc": _rounded(seen.ipc, 5),
        "instructions": _rounded(seen.instructions, 6),
        "cycles": _rounded(seen.cycles, 6),
        "llc_misses": _rounded(seen.llc_misses, 6),
        "frequency_ghz": _rounded(seen.frequency_ghz, 4),
        "cpu_usage_cores": _rounded(seen.cpu_usage_cores, 5),
        "work_rate": _rounded(seen.work_rate, 5),
    }
    return msgspec.json.encode(record) + b"\n"


class TelemetryFiles:
    """One open file per tenant. Files of a previous run are emptied."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        self._files = [os.open(folder / f"{name}.jsonl", flags, 0o644) for name in names]

    def append(self, time_s: float, measurements: Sequence[Measurement]) -> None:
        """The lines of one interval, tenants in order."""
        for descriptor, seen in zip(self._files, measurements, strict=True):
            os.write(descriptor, telemetry_line(time_s, seen))

    def close(self) -> None:
        """Close all files."""
        for descriptor in self._files:
            os.close(descriptor)
        self._files.clear()
