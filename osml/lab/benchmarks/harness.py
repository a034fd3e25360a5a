"""Takes a figure several times and writes out/bench/NAME.json. Machines are noisy: quote medians and ratios."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from osml.base.cpu_model import cpu_model

OUT = Path("out/bench")


def machine() -> dict[str, object]:
    """What the figures were taken on."""
    return {
        "cpu": cpu_model(),
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def rate(items: float, work: Callable[[], object]) -> Callable[[], float]:
    """A sample for `take`: items per second of one run of `work` (wall clock)."""

    def sample() -> float:
        start = time.perf_counter()
        work()
        return items / (time.perf_counter() - start)

    return sample


def seconds(work: Callable[[], object]) -> Callable[[], float]:
    """A sample for `take`: seconds of one run of `work` (wall clock)."""

    def sample() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return sample


def take_answers(name: str, inputs: int, ask: Callable[[NDArray[np.float32]], object]) -> None:
    """Microseconds of one answer of a model with so many inputs, for 1 row and for 8."""
    for rows in (1, 8):
        x = np.full((rows, inputs), 3.0, np.float32)

        def many(x: NDArray[np.float32] = x) -> None:
            for _ in range(1000):
                ask(x)

        take(f"{name}_{rows}_rows", "us", lambda many=many: 1000 * seconds(many)(), runs=7)


def take(
    name: str,
    unit: str,
    sample: Callable[[], float],
    *,
    runs: int = 7,
    peer: Callable[[], float] | None = None,
    peer_name: str = "",
) -> None:
    """Run `sample` once to warm up and then `runs` times, in turn with a peer where there is one; print and store."""
    sample()
    if peer is not None:
        peer()
    values: list[float] = []
    ratios: list[float] = []
    for _ in range(runs):
        values.append(sample())
        if peer is not None:
            ratios.append(values[-1] / peer())
    figure: dict[str, object] = {
        "name": name,
        "unit": unit,
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
        "runs": runs,
        "machine": machine(),
    }
    if ratios:
        figure["ratio_to"] = {"peer": peer_name, "median": statistics.median(ratios)}
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / f"{name}.json").write_text(json.dumps(figure, indent=2) + "\n", "utf-8")
    beside = f"   {statistics.median(ratios):.3g} x {peer_name}" if ratios else ""
    print(f"{name:40} {statistics.median(values):12.6g} {unit:24} ({min(values):.6g} .. {max(values):.6g}){beside}")
