"""Whose pages stay in memory where it is too small: pages age in a list, and a touch makes them young again.

Pages are reclaimed as Linux reclaims anonymous ones (mm/vmscan.c, in kernels of two lists): a page that nobody touches
while it passes the inactive list goes to the disk, whoever it belongs to. That list is short beside the memory, and
what a job reads from the disk pushes pages through it.
"""

from __future__ import annotations

import math

from osml.base.jit import lean
from osml.simulator.columns import P_DISK_MBPS, P_MEMORY_MIB, T_FOOTPRINT, T_LC, T_PAGES, FloatArray

_PAGE_MIB = 4.0 / 1024.0
_EULER = 0.5772156649015329
_LONGEST_S, _HALVINGS, _TERMS = 1e9, 60, 40


@lean
def exponential_integral(x: float) -> float:
    """E1(x), the integral of e^-u/u from x > 0 to infinity: its series below 1, a continued fraction from there on."""
    if x > 700.0:
        return 0.0
    if x < 1.0:
        total, term = -_EULER - math.log(x), 1.0
        for k in range(1, _TERMS):
            term *= -x / k
            total -= term / k
        return total
    fraction = 0.0
    for k in range(2 * _TERMS, 0, -1):
        fraction = k / (1.0 + k / (x + fraction))
    return math.exp(-x) / (x + fraction)


@lean
def inactive_seconds(memory_mib: float, read_mbps: float) -> float:
    """How long a page is on the inactive list while a job reads `read_mbps` MB/s from the disk into full memory.

    active:inactive is sqrt(10 x GiB) (inactive_list_is_low). Who sweeps through more than there is finds none of it
    under LRU, so it reads as fast as the disk goes.
    """
    inactive_mib = memory_mib / (1.0 + math.sqrt(10.0 * memory_mib / 1024.0))
    return inactive_mib * 2**20 / (read_mbps * 1e6)


@lean
def touched_share(touches: float, pages: float, seconds: float) -> float:
    """Share of a program's pages that are touched within so many seconds, at `touches` a second in all.

    Which ones follows Zipf's law (page r as often as 1/r): requests are popular like that (PARTIES section 3.2), words
    and files too. With a = the touches of the last page in that time, 1 - e^-a + a E1(a).
    """
    a = touches * seconds / (max(math.log(pages), 1.0) * pages)
    return 1.0 - math.exp(-a) + a * exponential_integral(a) if a > 0.0 else 0.0


@lean
def late_share(touches: float, pages: float, seconds: float) -> float:
    """Share of the touches whose page was not touched within the last so many seconds (Che's approximation of LRU).

    (E1(a) - E1(a x pages))/ln(pages), a as in `touched_share`.
    """
    spread = max(math.log(pages), 1.0)
    a = touches * seconds / (spread * pages)
    if a <= 0.0:
        return 1.0
    return min((exponential_integral(a) - exponential_integral(a * pages)) / spread, 1.0)


@lean
def _kept_mib(tenants: FloatArray, arrivals: FloatArray, allowed: FloatArray, seconds: float) -> float:
    """MiB of all services that were touched within so many seconds."""
    total = 0.0
    for i in range(len(tenants)):
        if tenants[i, T_LC] > 0.0:
            mib = tenants[i, T_FOOTPRINT] * allowed[i]
            total += mib * touched_share(arrivals[i] * tenants[i, T_PAGES], mib / _PAGE_MIB + 1.0, seconds)
    return total


@lean
def reclaim(
    platform: FloatArray, tenants: FloatArray, arrivals: FloatArray, allowed: FloatArray, resident: FloatArray,
    missed: FloatArray,
) -> None:  # fmt: skip
    """Fill `resident` (share of a footprint that is in memory) and `missed` (share of page touches that go to disk).

    Called where what all tenants want, the share `allowed` of each footprint, is more than there is. One age decides
    for all: that at which the services' younger pages fit beside the jobs, but never less than pages have on the
    inactive list. Jobs, which go through all of theirs in turn, share what is left. `arrivals` are requests/s: a
    backlog does not touch its pages before its turn.
    """
    n, memory = len(tenants), platform[P_MEMORY_MIB]
    of_jobs = 0.0
    for i in range(n):
        of_jobs += tenants[i, T_FOOTPRINT] * allowed[i] if tenants[i, T_LC] == 0.0 else 0.0
    youngest = inactive_seconds(memory, platform[P_DISK_MBPS]) if of_jobs > 0.0 else 1.0 / _LONGEST_S
    low, high = youngest, _LONGEST_S
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        if _kept_mib(tenants, arrivals, allowed, middle) + of_jobs <= memory:
            low = middle
        else:
            high = middle
    kept = _kept_mib(tenants, arrivals, allowed, low)
    squeeze = min(1.0, memory / max(kept, 1e-9))  # services that do not fit even so
    for i in range(n):
        if tenants[i, T_LC] == 0.0:
            own = tenants[i, T_FOOTPRINT] * allowed[i]
            left = memory - kept
            for j in range(n):
                other = tenants[j, T_FOOTPRINT] * allowed[j]
                if tenants[j, T_LC] == 0.0 and (other < own or (other == own and j < i)):
                    left -= other
            resident[i] = allowed[i] * min(1.0, max(left, 0.0) / max(own, 1e-9))
            missed[i] = 1.0 - resident[i]
            continue
        pages = tenants[i, T_FOOTPRINT] * allowed[i] / _PAGE_MIB + 1.0
        touches = arrivals[i] * tenants[i, T_PAGES]
        resident[i] = allowed[i] * squeeze * touched_share(touches, pages, low)
        missed[i] = 1.0 - allowed[i] * squeeze * (1.0 - late_share(touches, pages, low))
