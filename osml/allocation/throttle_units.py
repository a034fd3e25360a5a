"""Throttles of memory bandwidth in the unit of the platform (`Platform.mba`), and the GB/s that they stand for."""

from __future__ import annotations

import math

from osml.domain import MbaRange, Platform


def peak_gbps(platform: Platform) -> float | None:
    """The bandwidth of the machine as far as the platform tells: its own figure, else the most that can be set."""
    if platform.bandwidth_gbps is not None:
        return platform.bandwidth_gbps
    if platform.mba is None or platform.mba.unit == "percent":
        return None
    return gbps_of(platform.mba.max, platform.mba, 0.0)


def gbps_of(value: int, mba: MbaRange, peak: float) -> float:
    """GB/s of a throttle; a percentage is of the machine's `peak` GB/s."""
    return {"percent": value * peak / 100.0, "mbps": value / 1e3, "eighth_gbps": value / 8.0}[mba.unit]


def _units(gbps: float, mba: MbaRange, peak: float) -> float:
    return {"percent": 100.0 * gbps / peak, "mbps": gbps * 1e3, "eighth_gbps": gbps * 8.0}[mba.unit]


def legal_up(gbps: float, mba: MbaRange, peak: float) -> int:
    """The least legal throttle that gives so much."""
    step = max(mba.step, 1)
    return max(mba.min, min(mba.max, math.ceil(_units(gbps, mba, peak) / step - 1e-9) * step))


def legal_down(gbps: float, mba: MbaRange, peak: float) -> int:
    """The largest legal throttle that gives no more; the least there is where none is so small."""
    step = max(mba.step, 1)
    return max(mba.min, min(mba.max, math.floor(_units(gbps, mba, peak) / step + 1e-9) * step))
