"""How real programs use the cache: fits of measurements, from which services that nobody measured are drawn."""

from __future__ import annotations

import csv
import zlib
from dataclasses import dataclass
from functools import cache

import numpy as np

from osml.simulator.catalogs import shipped_text
from osml.simulator.models import MemoryBehaviour

HARDLY_MISSES = 0.5
"""Misses per 1000 instructions with one way: programs with fewer tell nothing of the cache (39 % of them)."""

_USUAL_BYTES = 266.0
"""Bytes a miss with prefetched and written lines, where nobody measured them. Assumed: the median of the measured
programs is 227 where only those count that miss twice in 1000 instructions, and 309 from half a miss on."""

_LINE, _MOST_BYTES, _LEAST_APKI, _LEAST_MISSES = 64.0, 1024.0, 0.01, 1e-3


@dataclass(frozen=True)
class Program:
    """A measured program: cycles per instruction without misses, accesses, curve, and what a miss costs.

    Misses per access at c MiB are miss_min + (1 - miss_min)/(1 + (c/working_set_mib)^steepness). `ns_per_miss` is the
    time that a miss really costs, less than the memory's latency where misses overlap; `bytes_per_miss` are those of
    its line and of what is prefetched and written with it.
    """

    name: str
    mpki_one_way: float
    cpi: float
    apki: float
    miss_min: float
    working_set_mib: float
    steepness: float
    ns_per_miss: float
    bytes_per_miss: float

    def behaviour(self, latency_ns: float, footprint_mib: float, power: float) -> MemoryBehaviour:
        """The program on a machine whose memory takes `latency_ns`."""
        return MemoryBehaviour(
            cpi=self.cpi,
            apki=max(self.apki, _LEAST_APKI),
            miss_min=min(max(self.miss_min, _LEAST_MISSES), 0.99),
            working_set_mib=self.working_set_mib,
            steepness=self.steepness,
            mlp=max(latency_ns / self.ns_per_miss, 1.0),
            bytes_per_miss=min(max(self.bytes_per_miss, _LINE), _MOST_BYTES),
            footprint_mib=footprint_mib,
            power=power,
        )


@cache
def measured_programs() -> tuple[Program, ...]:
    """All programs of catalog/programs.csv."""
    text = shipped_text("programs.csv")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return tuple(
        Program(
            row["program"],
            *(float(row[name] or _USUAL_BYTES) for name in row if name != "program"),
        )
        for row in csv.DictReader(lines)
    )


def drawn_for(name: str) -> Program:
    """The program that a service behaves like where nobody measured it: drawn by its name alone."""
    known = [one for one in measured_programs() if one.mpki_one_way >= HARDLY_MISSES]
    return known[int(np.random.default_rng(zlib.crc32(name.encode())).integers(len(known)))]
