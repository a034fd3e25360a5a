"""How well the measured cells were predicted: shares within a quarter, coverage of intervals, by group."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from osml.lab.validation.cells import NEVER_MS, Cell, Range, Row

QUARTER = 0.25
WORST = 12
GROUPS: dict[str, Callable[[Cell], str]] = {
    "service": lambda cell: cell.service,
    "company": lambda cell: "another service" if cell.company.startswith("service:") else cell.company,
    "scheduling of the company": lambda cell: "no company" if cell.company == "none" else cell.scheduling,
    "CPUs": lambda cell: str(cell.cpus),
    "quota": lambda cell: "no quota" if cell.quota is None else "quota",
    "load": lambda cell: f"{cell.load:g}",
}


def relative_error(said: float, seen: float) -> float:
    """|said - seen| / seen; infinite where the prediction is."""
    return abs(said - seen) / seen if math.isfinite(said) else math.inf


def latency_rows(rows: Sequence[Row]) -> list[Row]:
    """Held-out, quiet cells below saturation.

    A cell in which nothing was answered in time is among them: no prediction of it is right.
    """
    return [row for row in _held_out(rows) if not row.measured.noisy and not row.cell.saturated]


def throughput_rows(rows: Sequence[Row]) -> list[Row]:
    """Held-out, quiet cells at saturation."""
    return [row for row in _held_out(rows) if not row.measured.noisy and row.cell.saturated]


def _held_out(rows: Sequence[Row]) -> list[Row]:
    """Cells that were predicted first; of those that were measured twice the first measurement."""
    return [row for row in rows if not row.calibrated and row.predicted is not None and row.cell.repeat == 0]


def document(rows: Sequence[Row], settings: dict[str, Any]) -> dict[str, Any]:
    """The document of a run, with the keys that others rely on."""
    latencies, throughputs = latency_rows(rows), throughput_rows(rows)
    return {
        "simulated": False,
        "settings": settings,
        "cells": [_cell(row) for row in rows],
        "held_out": len(latencies),
        "held_out_saturated": len(throughputs),
        "noisy": sum(bool(row.measured.noisy) for row in _held_out(rows)),
        "calibration_cells": sum(row.calibrated and row.cell.repeat == 0 for row in rows),
        "unsaturated_calibration_cells": sum(
            row.calibrated and row.cell.saturated and not row.measured.overloaded for row in rows
        ),
        "noisy_calibration_cells": _noisy_calibration(rows),
        "unanswered": sum(row.measured.unanswered for row in latencies),
        "within_25pct_with_noisy": _within([row for row in _held_out(rows) if not row.cell.saturated], "p99_ms"),
        "median_width_p99": _median([_width(row) for row in latencies]),
        "within_25pct": _within(latencies, "p99_ms"),
        "simulation_within_25pct": _simple(latencies, lambda row: _simulated(row, "p99_ms")),
        "within_25pct_p50": _within(latencies, "p50_ms"),
        "within_25pct_p95": _within(latencies, "p95_ms"),
        "median_error_p99": _median([_error(row, "p99_ms") for row in latencies]),
        "nearest_within_25pct": _simple(latencies, lambda row: row.predicted.nearest_ms[2] if row.predicted else 0.0),
        "mm1_within_25pct": _simple(latencies, lambda row: row.predicted.mm1_ms[2] if row.predicted else 0.0),
        "throughput_within_10pct": _share([_error(row, "throughput") <= 0.1 for row in throughputs]),
        "cpu_within_10pct": _share([_error(row, "cpu") <= 0.1 for row in latencies]),
        "coverage_90": _coverage(latencies, "p99_ms"),
        "unbounded_p99": sum(_is_unbounded(_said(row, "p99_ms")) for row in latencies),
        "coverage_90_p50": _coverage(latencies, "p50_ms"),
        "coverage_90_p95": _coverage(latencies, "p95_ms"),
        "coverage_90_throughput": _coverage(throughputs, "throughput"),
        "two_measurements_agree": _repeats(rows),
        "groups": {name: _groups(latencies, of) for name, of in GROUPS.items()},
        "worst": [_worst(row) for row in sorted(latencies, key=lambda row: -_error(row, "p99_ms"))[:WORST]],
    }


def _cell(row: Row) -> dict[str, Any]:
    measured: dict[str, Any] = msgspec.to_builtins(row.measured)
    del measured["histogram"]
    cell: dict[str, Any] = msgspec.to_builtins(row.cell)
    return {
        **cell,
        "calibrated": row.calibrated,
        "measured_at": row.measured_at,
        "measured": measured,
        "predicted": msgspec.json.decode(msgspec.json.encode(row.predicted)),  # with null for what is no number
    }


def _finite(value: float) -> float | None:
    """None for what JSON has no number for."""
    return value if math.isfinite(value) else None


def _said(row: Row, kind: str) -> Range:
    if row.predicted is None:
        raise ValueError(f"cell {row.cell.key} has no prediction")
    found: Range = getattr(row.predicted, kind)
    return found


def _simulated(row: Row, kind: str) -> float:
    """What the simulation alone says."""
    said = _said(row, kind)
    return said.value if said.simulated is None else said.simulated


def _seen(row: Row, kind: str) -> float:
    """What was measured; infinite where nothing was answered."""
    seen: float | None = getattr(row.measured, kind)
    return math.inf if seen is None else seen


def _error(row: Row, kind: str) -> float:
    seen = _seen(row, kind)
    return math.inf if math.isinf(seen) else relative_error(_said(row, kind).value, seen or math.nan)


def _width(row: Row) -> float:
    """How many times its lower end the upper end of the interval of p99 is."""
    said = _said(row, "p99_ms")
    return said.high / said.low if said.low > 0.0 else math.inf


def _share(hits: Sequence[bool]) -> float | None:
    return sum(hits) / len(hits) if hits else None


def _within(rows: Sequence[Row], kind: str) -> float | None:
    return _share([_error(row, kind) <= QUARTER for row in rows])


def _simple(rows: Sequence[Row], say: Callable[[Row], float]) -> float | None:
    return _share([relative_error(say(row), row.measured.p99_ms or math.nan) <= QUARTER for row in rows])


def _is_unbounded(said: Range) -> bool:
    """The interval holds everything, so it promises nothing."""
    return said.value < NEVER_MS <= said.high


def _coverage(rows: Sequence[Row], kind: str) -> float | None:
    """Share of intervals that hold what was measured, out of those with an end."""
    said = [(row, one) for row in rows if not _is_unbounded(one := _said(row, kind))]
    return _share([one.low <= _seen(row, kind) <= one.high for row, one in said])


def _noisy_calibration(rows: Sequence[Row]) -> int:
    """Calibration cells without a quiet measurement."""
    quiet: dict[str, bool] = {}
    for row in rows:
        if row.calibrated:
            quiet[_conditions(row.cell)] = quiet.get(_conditions(row.cell), False) or not row.measured.noisy
    return sum(not one for one in quiet.values())


def _median(errors: Sequence[float]) -> float | None:
    """None without errors, and where it is infinite: JSON has no number for that."""
    found = statistics.median(errors) if errors else math.inf
    return found if math.isfinite(found) else None


def _repeats(rows: Sequence[Row]) -> dict[str, Any]:
    """How often a second measurement of the same conditions is within a quarter of the first, and what that means.

    `best_possible` is the share that a perfect prediction would reach. The logarithm of the ratio of two measurements
    has the noise of both, so it is sqrt(2) times as wide as that of a measurement over the truth, in either direction.
    """
    first = {_conditions(row.cell): row for row in rows if row.cell.repeat == 0}
    pairs = [
        (first[_conditions(row.cell)].measured, row.measured)
        for row in rows
        if row.cell.repeat > 0 and not row.calibrated and not row.cell.saturated and _conditions(row.cell) in first
    ]
    quiet = [
        (one.p99_ms, other.p99_ms)
        for one, other in pairs
        if not one.noisy and not other.noisy and one.p99_ms is not None and other.p99_ms is not None
    ]
    ratios = [(a / b) ** (sign / math.sqrt(2.0)) for a, b in quiet for sign in (1.0, -1.0)]
    return {
        "pairs": len(quiet),
        "within_25pct": _share([relative_error(a, b) <= QUARTER for a, b in quiet]),
        "best_possible": _share([relative_error(ratio, 1.0) <= QUARTER for ratio in ratios]),
    }


def _conditions(cell: Cell) -> str:
    return msgspec.structs.replace(cell, repeat=0).key


def _groups(rows: Sequence[Row], of: Callable[[Cell], str]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name in sorted({of(row.cell) for row in rows}):
        own = [row for row in rows if of(row.cell) == name]
        found[name] = {
            "cells": len(own),
            "within_25pct": _within(own, "p99_ms"),
            "median_error": _median([_error(row, "p99_ms") for row in own]),
            "bias": _median([_said(row, "p99_ms").value / (row.measured.p99_ms or math.nan) - 1.0 for row in own]),
            "coverage_90": _coverage(own, "p99_ms"),
            "nearest_within_25pct": _simple(own, lambda row: row.predicted.nearest_ms[2] if row.predicted else 0.0),
            "mm1_within_25pct": _simple(own, lambda row: row.predicted.mm1_ms[2] if row.predicted else 0.0),
        }
    return found


def _worst(row: Row) -> dict[str, Any]:
    return {
        "cell": row.cell.key,
        "measured_ms": row.measured.p99_ms,
        "predicted_ms": _finite(_said(row, "p99_ms").value),
        "reason": reason(row),
    }


def reason(row: Row) -> str:
    """What may be behind an error, by what the cell itself shows."""
    seen, said = row.measured, row.predicted
    if said is None:
        return ""
    if seen.samples < 300:
        return f"p99 of {seen.samples} requests is one of the largest few"
    if (seen.lateness_p99_ms or 0.0) > 0.2 * (seen.p99_ms or math.inf):
        return "the generator itself was late"
    off = seen.cpu / said.cpu.value - 1.0 if said.cpu.value > 0.0 else 0.0
    if abs(off) > 0.1:
        return f"CPU time differs from the prediction by {100 * off:+.0f} %"
    if row.cell.load > 0.8:
        return "near saturation, where little more work means much more waiting"
    if row.cell.company != "none" and row.cell.scheduling == "normal":
        return "beside a job of normal weight: order of wake-ups and slices"
    return "the cell shows no reason"
