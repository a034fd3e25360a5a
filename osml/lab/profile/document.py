"""What `osml look profile` prints: the curve with its error bars, what was measured besides, and what was not."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from osml.lab.profile import law
from osml.lab.profile.caches import Caches
from osml.lab.profile.curve import Curve, Floats, check_long_enough, curve_of
from osml.lab.profile.outcome import Outcome

_MIB = 1024.0 * 1024.0
NOT_SEEN = (
    "What the kernel does for the program (sockets, files) is not seen: neither its instructions nor its misses.",
    "Replacement is LRU; a real last-level cache replaces lines by rules of its own.",
    "Each thread has private caches of its own, as if it stayed on one core.",
    "The program sees a CPU with AVX2, without AVX-512 and fast string copies: it may choose other code than natively.",
    "Lines that processes share (libraries, shared buffers, a forked parent's pages) count once for each process.",
    "Time is not simulated: cycles, overlapping misses and late prefetches are unknown.",
)


def _rounded(values: Floats) -> list[float]:
    return [round(float(value), 5) for value in values]


def _curve(curve: Curve, mib: Floats, requests_ki: float | None) -> dict[str, Any]:
    """`requests_ki` are kilo-instructions per request."""
    fit = law.fitted(mib, curve.mpki, curve.accesses)
    found: dict[str, Any] = {
        "mpki": _rounded(curve.mpki), "mpki_error": _rounded(curve.errors),
        "apki": round(curve.accesses, 5), "apki_error": round(curve.accesses_error, 5),
        "cold_mpki": round(curve.cold, 5), "bytes_per_miss": _rounded(curve.bytes_per_miss),
        "law": {key: float(f"{value:.5g}") for key, value in asdict(fit).items()},
    }  # fmt: skip
    if requests_ki is not None:
        found["misses_per_request"] = _rounded(curve.mpki * requests_ki)
        found["misses_per_request_error"] = _rounded(curve.errors * requests_ki)
        found["accesses_per_request"] = round(curve.accesses * requests_ki, 3)
    return found


def document(name: str, platform_id: str, caches: Caches, outcome: Outcome, command: list[str]) -> dict[str, Any]:
    """The document. Raises Failure for a run that is too short."""
    report = outcome.report
    check_long_enough(report)
    mib: Floats = caches.way_mib * np.arange(1, caches.ways + 1, dtype=np.float64)
    per_request = None if not outcome.requests else report["instructions"] / outcome.requests
    ki = None if per_request is None else per_request / 1000.0
    prefetched = curve_of(report, 1, outcome.whole)
    found: dict[str, Any] = {
        "name": name, "source": "measured", "platform": platform_id, "complete": outcome.complete,
        "ways": list(range(1, caches.ways + 1)), "way_mib": round(caches.way_mib, 6),
    }  # fmt: skip
    found |= _curve(curve_of(report, 0, outcome.whole), mib, ki)
    found["with_stream_prefetcher"] = _curve(prefetched, mib, ki) | {"prefetched": _rounded(prefetched.prefetched)}
    found |= {
        "instructions": report["instructions"],
        "instructions_per_request": None if per_request is None else round(per_request, 1),
        "requests": outcome.requests, "whole_run": outcome.whole,
        "footprint_mib": round(report["footprint_bytes"] / _MIB, 3),
        "processes": report["processes"], "threads": report["threads"], "seconds": round(outcome.seconds, 1),
        "load": _load(outcome),
        "caches": {
            "l1_kib": caches.l1_kib, "l2_kib": caches.l2_kib, "sampled_sets": report["sampled_sets"],
            "sets": report["sets"], "seed": caches.seed,
        },
        "command": command, "notes": [*outcome.notes, *_unanswered(outcome), *_unseen(outcome), *NOT_SEEN],
    }  # fmt: skip
    return found


def _load(outcome: Outcome) -> dict[str, Any] | None:
    if outcome.load is None:
        return None
    given = {key: value for key, value in asdict(outcome.load).items() if key != "requests"}
    native = outcome.load.native_cpu_ms
    return given | {"slow_down": None if native <= 0.0 else outcome.load.cpu_ms / native}


def _unanswered(outcome: Outcome) -> list[str]:
    load = outcome.load
    if load is None or load.errors == 0:
        return []
    return [
        f"{load.errors} requests were not answered in time, beside {load.requests} that were: counts per request are "
        "too high; try again on a quieter machine or with a lower --load."
    ]


def _unseen(outcome: Outcome) -> list[str]:
    count = int(outcome.report["unseen_programs"])
    if count <= 0:
        return []
    return [
        f"{count} further programs were started (exec) and ran without instrumentation: "
        "their misses are missing; profile the program itself, not a script that starts it."
    ]
