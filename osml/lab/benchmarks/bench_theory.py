"""Requests per second of the scheduling disciplines and of counting their inversions: four cores, 80 % utilisation."""

from __future__ import annotations

from osml.lab.benchmarks.harness import rate, take
from osml.lab.theory.experiments.disciplines import DISCIPLINES, Stream, simulate
from osml.lab.theory.inversions import request_inversions

_SECONDS = 100.0
_STREAMS = [Stream("first", 0, 1600.0, 1.0, 0.5), Stream("second", 1, 1600.0, 1.0, 0.5)]


def run() -> None:
    """320,000 requests of two services each time."""
    for discipline in DISCIPLINES:
        log = simulate(_STREAMS, discipline, 4, _SECONDS, slice_ms=1.0)
        take(
            f"theory_simulate_{discipline}",
            "requests/s",
            rate(log.rank.size, lambda kind=discipline: simulate(_STREAMS, kind, 4, _SECONDS, slice_ms=1.0)),
        )
        take(
            f"theory_inversions_{discipline}",
            "requests/s",
            rate(
                log.rank.size,
                lambda log=log: request_inversions(
                    log.rank, log.arrival_ms, log.start_ms, log.finish_ms, log.service_ms, by="finish", servers=4
                ),
            ),
        )
