"""What the generator wrote of itself beside each percentile, found again for the observation that it belongs to."""

from __future__ import annotations

from pathlib import Path

import msgspec

from osml.domain import Latency


class TelemetryLine(msgspec.Struct, frozen=True):
    """One line of osml-loadgen; keys that the trial has no use for are left out."""

    t: float
    p99_ms: float | None
    samples: int
    lateness_p99_ms: float | None
    errors: int
    offered_per_s: float
    waiting: int


def read_telemetry(path: Path) -> list[TelemetryLine]:
    """All complete lines. A service that never got a line has none."""
    if not path.exists():
        return []
    text = path.read_bytes()
    complete = text[: text.rfind(b"\n") + 1]
    return [msgspec.json.decode(line, type=TelemetryLine) for line in complete.splitlines()]


def line_of(latency: Latency | None, lines: list[TelemetryLine]) -> TelemetryLine | None:
    """The line that an observation's latency was read from: same percentile over the same number of samples."""
    if latency is None:
        return None
    for line in reversed(lines):
        if line.samples == latency.samples and line.p99_ms == latency.p99_ms:
            return line
    return None
