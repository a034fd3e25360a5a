"""A service's own curve, p99 over load, and its knee: the target that the papers' way of choosing gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec

from osml.base.failure import Failure, InputError
from osml.lab.trials.live.jobs import job_named
from osml.lab.trials.live.services import Service
from osml.lab.validation import design
from osml.lab.validation.calibrate import work_of
from osml.lab.validation.cells import Cell, Measured, Row
from osml.lab.validation.run import PROBE_RATE, PROBE_S
from osml.lab.validation.stage import Load, Quiet, Stage, sole_use

STEPS = (0.05, 0.15, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)


class Point(msgspec.Struct, frozen=True):
    """One step of the curve: requests offered and answered a second, latencies in ms."""

    rate: float
    measured: Measured


def knee(rates: Sequence[float], latencies: Sequence[float]) -> int:
    """Index of the knee: the point farthest below the chord from the first to the last point, both axes from 0 to 1.

    That is Kneedle without smoothing (Satopaa et al., 2011). Raises InputError for fewer than three points.
    """
    if len(rates) != len(latencies) or len(rates) < 3:
        raise InputError(f"a knee needs at least three points, got {len(rates)} rates and {len(latencies)} latencies")
    wide, high = rates[-1] - rates[0], max(latencies) - latencies[0]
    if wide <= 0.0 or high <= 0.0:
        return len(rates) - 1  # a flat curve has no knee: all of it is before one
    below = [
        (rate - rates[0]) / wide - (latency - latencies[0]) / high
        for rate, latency in zip(rates, latencies, strict=True)
    ]
    return max(range(len(below)), key=below.__getitem__)


def rising(latencies: Sequence[float]) -> list[float]:
    """Each latency, but none above a later one: less load makes no service slower, but a cold start or noise does."""
    return list(accumulate(reversed(latencies), min))[::-1]


def tail_of(measured: Measured, service: str, rate: float) -> float:
    """Its p99, ms. Raises Failure where there is none: a zero would make all lower loads as fast, see `rising`."""
    if measured.p99_ms is None:
        raise Failure(
            f"service '{service}' has no p99 at {rate:.3g} requests/s, expected one from each load: "
            "measure for longer with --seconds"
        )
    return measured.p99_ms


def curve(
    service: Service,
    out: Path,
    seed: int,
    seconds: float,
    quiet: Quiet,
    say: Callable[[str], None],
    beside: str | None = None,
) -> Any:
    """Measure the service at rising loads, alone or beside a job of equal weight; its document. Needs root.

    Keys: `beside`, `points: [{rate, measured}]`, `knee_rate`, `target_ms` (p99 at the knee), `ideal_ms` (p99 at the
    least load); of both, no p99 counts as more than that at a higher load.
    Raises Failure where the service answers nothing or a load has no p99, MachineError where the machine lacks
    something.
    """
    if not 0.5 <= seconds <= 600.0:
        raise InputError(f"--seconds is {seconds:g}, expected 0.5 to 600")
    points: list[Point] = []
    p99_ms: list[float] = []
    jobs = () if beside is None else (job_named(beside).name,)
    with sole_use([service], jobs), Stage([service], out, seed, quiet) as stage:
        probe = stage.measure(Cell(service.name, 2, None, 0.1), Load(PROBE_RATE), PROBE_S)
        if probe.throughput <= 0.0:
            raise Failure(f"service '{service.name}' answered none of {PROBE_RATE * PROBE_S:g} requests")
        work = 1000.0 * probe.cpu / probe.throughput
        for load in STEPS:
            cell = Cell(service.name, 2, None, load, beside or "none")
            rate = design.rate_of(cell, service.threads, work)
            if rate > design.MOST_RATE * 2.5 and len(points) > 2:
                say(f"{service.name}: {rate:.0f}/s and more would measure the generator: the curve ends here")
                break
            measured = stage.measure(cell, Load(rate), design.seconds_of(rate, seconds, 3.0 * seconds))
            if measured.throughput <= 0.0:
                raise Failure(f"service '{service.name}' answered no request at {rate:.3g} requests/s")
            p99_ms.append(tail_of(measured, service.name, rate))
            work = work_of(Row(cell, True, 0.0, measured))  # less a request as the load rises
            points.append(Point(rate, msgspec.structs.replace(measured, histogram=[])))
            say(f"{service.name}: {rate:.0f}/s, p99 {p99_ms[-1]:.2f} ms")
    latencies = rising(p99_ms)
    at = knee([point.rate for point in points], latencies)
    return {
        "service": service.name,
        "beside": beside,
        "cpus": 2,
        "seed": seed,
        "points": msgspec.to_builtins(points),
        "knee_rate": points[at].rate,
        "target_ms": latencies[at],
        "ideal_ms": latencies[0],
    }
