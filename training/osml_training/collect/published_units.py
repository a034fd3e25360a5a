"""Numbers of the published data set in our units: what its scripts did to them, undone where that is possible.

Each function takes and returns float64 arrays; NaN is a value that says nothing. Quirks are numbered as in
docs/reference/published-data.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MAX_IPC = 5.0
"""Quirk 2: the machines retire four instructions a cycle; 9.17 and 1046 are counters that were reset in between."""

MAX_CPUS, MAX_LATENCY_MS = 4096.0, 1e7
"""As far as our schema goes."""

SAMPLE_S = 0.1
"""Quirk 3: misses are thousands in one pqos sample of 100 ms, not in a second."""

LINE_BYTES = 64


def cpu_usage_cores(percent: Floats) -> Floats:
    """Quirk 1: top counts 100 per busy CPU. NaN for more CPUs than machines have."""
    return np.where((percent >= 0) & (percent <= 100.0 * MAX_CPUS), percent / 100.0, np.nan)


def ipc(value: Floats) -> Floats:
    """NaN where it is more than a core can do (quirk 2)."""
    return np.where((value >= 0) & (value <= MAX_IPC), value, np.nan)


def llc_misses_per_s(thousands: Floats, bandwidth_gbps: float) -> Floats:
    """NaN where the misses alone were more than twice what the memory can move (first samples, quirk 3)."""
    per_s = thousands * 1000.0 / SAMPLE_S
    return np.where((per_s >= 0) & (per_s * LINE_BYTES <= 2e9 * bandwidth_gbps), per_s, np.nan)


def local_gbps(mib_per_s: Floats, bandwidth_gbps: float) -> Floats:
    """Quirk 4: pqos's MB are MiB; a counter that ran backwards reads 2^64 bytes: NaN beyond 1.5 times the peak."""
    gbps = mib_per_s * 2**20 / 1e9
    return np.where((gbps >= 0) & (gbps <= 1.5 * bandwidth_gbps), gbps, np.nan)


def memory_mib(parsed: Floats, memory_gib: float) -> Floats:
    """Quirk 5: top's VIRT and RES with the last character cut off, times 2^20; the unit has to be guessed back.

    Plain KiB lost their last digit, so q = parsed/2^20 is a tenth of the KiB (at least 10 MiB here: q of 1000 and
    more). Below that the character was a suffix: m for 976.6 to 999.9, which has one decimal, else g, at most what the
    machine has.
    """
    q = parsed / 2**20
    kib = q * 10.0 / 1024.0
    tenths = np.rint(q * 10.0) / 10.0
    is_mib = (q > 976.0) & (q < 1000.0) & (tenths != np.rint(q))
    out = np.where(q >= 1000.0, kib, np.where(is_mib, q, q * 1024.0))
    return np.where((q > 0) & (out <= 16.0 * 1024.0 * memory_gib), out, np.nan)


def frequency_ghz(mhz: Floats) -> Floats:
    """/proc/cpuinfo has MHz; NaN below 0.1 GHz and above 7 GHz."""
    ghz = mhz / 1000.0
    return np.where((ghz >= 0.1) & (ghz <= 7.0), ghz, np.nan)


def ways(cache_mb: Floats, way_mib: float) -> Floats:
    """Whole ways; NaN where the megabytes are no multiple of a way (within 2 %)."""
    exact = cache_mb / way_mib
    whole = np.rint(exact)
    return np.where((whole >= 1) & (np.abs(exact - whole) <= 0.02 * np.maximum(whole, 1)), whole, np.nan)


def latency_ms(value: Floats) -> Floats:
    """NaN for what is no latency: 0 and less (nothing was answered yet), more than MAX_LATENCY_MS, and not finite."""
    return np.where((value > 0) & (value <= MAX_LATENCY_MS), value, np.nan)
