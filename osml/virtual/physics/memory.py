"""Memory: latency under load, and the fixed point between traffic and the programs that it slows down."""

from __future__ import annotations

import math

from osml.virtual.columns import FloatArray
from osml.virtual.jit import lean

MAX_UTILISATION = 0.95
"""The controllers keep some order beyond this: the rest of the wait is each program's own."""

_SEARCH_STEPS = 40
_CLOSE = 1e-5

# Columns of the traffic that settle() reads: a closed tenant (a BE job) runs M_BUSY CPUs all the time and moves M_BYTES
# each M_COMPUTE + M_STALL * latency ns; an open one (an LC service) moves M_OPEN GB/s whatever the latency is (-1: it
# is closed). M_CAP is its slice of the memory in GB/s (MBA), infinite without.
M_BUSY, M_BYTES, M_COMPUTE, M_STALL, M_OPEN, M_CAP, TRAFFIC_COLUMNS = range(7)


@lean
def rise(a: float, b: float, utilisation: float) -> float:
    """1 + a u^b/(1 - u), the utilisation taken no higher than MAX_UTILISATION."""
    u = min(max(utilisation, 0.0), MAX_UTILISATION)
    return 1.0 + a * u**b / (1.0 - u)


@lean
def gbps(traffic: FloatArray, i: int, latency_ns: float) -> float:
    """Traffic of tenant i at a memory latency; bytes per ns are GB/s."""
    if traffic[i, M_OPEN] >= 0.0:
        return traffic[i, M_OPEN]
    return traffic[i, M_BUSY] * traffic[i, M_BYTES] / (traffic[i, M_COMPUTE] + traffic[i, M_STALL] * latency_ns)


@lean
def _asked(traffic: FloatArray, latency_ns: float) -> float:
    total = 0.0
    for i in range(len(traffic)):
        total += min(gbps(traffic, i, latency_ns), traffic[i, M_CAP])
    return total


@lean
def utilisation(traffic: FloatArray, usable: float, t0: float, a: float, b: float) -> float:
    """The utilisation at which traffic and latency agree (regula falsi, Illinois); at most MAX_UTILISATION."""
    closed = False
    for i in range(len(traffic)):
        closed = closed or traffic[i, M_OPEN] < 0.0
    if not closed:
        return min(_asked(traffic, t0) / usable, MAX_UTILISATION)
    low, high = 0.0, MAX_UTILISATION
    above = _asked(traffic, t0) / usable  # at u = 0
    below = _asked(traffic, t0 * rise(a, b, high)) / usable - high
    if below >= 0.0:
        return MAX_UTILISATION
    u = 0.0
    for _ in range(_SEARCH_STEPS):
        u = (low * below - high * above) / (below - above)
        value = _asked(traffic, t0 * rise(a, b, u)) / usable - u
        if abs(value) < _CLOSE:
            break
        if value > 0.0:
            low, above, below = u, value, below / 2.0
        else:
            high, below, above = u, value, above / 2.0
    return u


@lean
def fair_split(demands: FloatArray, weights: FloatArray, capacity: float, granted: FloatArray) -> None:
    """Max-min fair split of the capacity into `granted`: who asks for less than its share gets all of it."""
    n = len(demands)
    left, weight = capacity, 0.0
    for i in range(n):
        granted[i] = -1.0 if demands[i] > 0.0 else 0.0
        weight += weights[i] if demands[i] > 0.0 else 0.0
    for _ in range(n):
        level = left / max(weight, 1e-12)
        modest = False
        for i in range(n):
            if granted[i] < 0.0 and demands[i] <= level * weights[i]:
                granted[i] = demands[i]
                left -= demands[i]
                weight -= weights[i]
                modest = True
        if not modest:
            for i in range(n):
                if granted[i] < 0.0:
                    granted[i] = level * weights[i]
            return


@lean
def settle(
    traffic: FloatArray, usable: float, t0: float, a: float, b: float, seen: FloatArray, work: FloatArray
) -> None:
    """The memory latency in ns that each tenant sees once traffic and latency agree, into `seen`.

    Below saturation all see t(u). At saturation who asks for more than its fair share waits longer, until its traffic
    fits. A tenant with a slice of its own (MBA) waits for that in the same way, and sees the longer wait of the two:
    whoever is held back at one hardly waits at the other. M_CAP becomes what it moves there. `work` is scratch,
    (3, tenants).
    """
    n = len(traffic)
    for i in range(n):
        seen[i], cap = t0, traffic[i, M_CAP]
        if not math.isinf(cap):
            seen[i] = t0 * rise(a, b, utilisation(traffic[i : i + 1], cap, t0, a, b))
            traffic[i, M_CAP] = min(gbps(traffic, i, seen[i]), MAX_UTILISATION * cap)
    u = utilisation(traffic, usable, t0, a, b)
    common = t0 * rise(a, b, u)
    demands, weights, granted = work[0], work[1], work[2]
    for i in range(n):
        demands[i] = granted[i] = min(gbps(traffic, i, common), traffic[i, M_CAP])
        weights[i] = max(traffic[i, M_BUSY], 0.01)
    if u >= MAX_UTILISATION:
        fair_split(demands, weights, usable * MAX_UTILISATION, granted)
    for i in range(n):
        own = max(common, seen[i])
        wanted = gbps(traffic, i, common)
        if wanted > granted[i] * 1.000001 and traffic[i, M_STALL] > 0.0 and granted[i] > 0.0:
            # The latency at which its CPUs move just what it is granted.
            alone = traffic[i, M_BUSY] * traffic[i, M_BYTES] / granted[i] - traffic[i, M_COMPUTE]
            own = max(own, alone / traffic[i, M_STALL])
        seen[i] = own
