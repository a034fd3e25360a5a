"""Memory: latency under load, and the fixed point between traffic and the programs that it slows down."""

from __future__ import annotations

import math

from osml.base.jit import lean
from osml.simulator.columns import FloatArray, IntArray

MAX_UTILISATION = 0.95
"""The controllers keep some order beyond this: the rest of the wait is each program's own."""

_POLE = 0.641
_SEARCH_STEPS = 40
_LEAST_SHARE = 0.05  # of the bandwidth: what programs keep beside devices
_CLOSE = 1e-5

# Columns of the traffic that settle() reads: a closed tenant (a BE job) runs M_BUSY CPUs all the time and moves M_BYTES
# each M_COMPUTE + M_STALL * latency ns; an open one (an LC service) moves M_OPEN GB/s (-1: it is closed), unless the
# M_BUSY CPUs that it can get move less than that at the latency. Where M_BUSY is infinite they don't. M_NOW is what an
# open one moves at the latency of the round before. M_CAP is a slice of the memory in GB/s (MBA), infinite without.
M_BUSY, M_BYTES, M_COMPUTE, M_STALL, M_OPEN, M_NOW, M_CAP, TRAFFIC_COLUMNS = range(8)


@lean
def rise(a: float, b: float, utilisation: float) -> float:
    """1 + a u^b/(1 - u)^0.641, the utilisation taken no higher than MAX_UTILISATION.

    With a = 0.192 and b = 0.5 within 3.6 % of 16 of the 17 measurements of three machines
    (catalog/measured/memory_latency.csv); at the highest utilisation, 0.968, it is half too high.
    """
    u = min(max(utilisation, 0.0), MAX_UTILISATION)
    return 1.0 + a * u**b / (1.0 - u) ** _POLE


@lean
def gbps(traffic: FloatArray, i: int, latency_ns: float) -> float:
    """Traffic of tenant i at a memory latency; bytes per ns are GB/s."""
    wanted, cpus = traffic[i, M_OPEN], traffic[i, M_BUSY]
    if math.isinf(cpus):
        return wanted
    moved = cpus * traffic[i, M_BYTES] / (traffic[i, M_COMPUTE] + traffic[i, M_STALL] * latency_ns)
    return min(wanted, moved) if wanted >= 0.0 else moved


@lean
def _asked(traffic: FloatArray, latency_ns: float) -> float:
    total = 0.0
    for i in range(len(traffic)):
        total += min(gbps(traffic, i, latency_ns), traffic[i, M_CAP])
    return total


@lean
def utilisation(traffic: FloatArray, usable: float, t0: float, a: float, b: float, devices: float) -> float:
    """The utilisation at which traffic and latency agree (regula falsi, Illinois); at most MAX_UTILISATION.

    `devices` is what devices move in GB/s, whatever the latency.
    """
    fixed = True
    for i in range(len(traffic)):
        fixed = fixed and math.isinf(traffic[i, M_BUSY])
    if fixed:
        return min((_asked(traffic, t0) + devices) / usable, MAX_UTILISATION)
    low, high = 0.0, MAX_UTILISATION
    above = (_asked(traffic, t0) + devices) / usable  # at u = 0
    below = (_asked(traffic, t0 * rise(a, b, high)) + devices) / usable - high
    if below >= 0.0:
        return MAX_UTILISATION
    u = 0.0
    for _ in range(_SEARCH_STEPS):
        u = (low * below - high * above) / (below - above)
        value = (_asked(traffic, t0 * rise(a, b, u)) + devices) / usable - u
        if abs(value) < _CLOSE:
            break
        if value > 0.0:
            low, above, below = u, value, below / 2.0
        else:
            high, below, above = u, value, above / 2.0
    return u


@lean
def fair_split(demands: FloatArray, weights: FloatArray, capacity: float, granted: FloatArray) -> float:
    """Max-min fair split of the capacity into `granted`: who asks for less than its share gets all of it.

    Returns what a weight of 1 gets at most, infinite where all get what they ask for.
    """
    n = len(demands)
    left, weight = capacity, 0.0
    for i in range(n):
        granted[i] = -1.0 if demands[i] > 0.0 else 0.0
        weight += weights[i] if demands[i] > 0.0 else 0.0
    for _ in range(n):
        level = left / max(weight, 1e-12)
        modest, waiting = False, False
        for i in range(n):
            if granted[i] < 0.0 and demands[i] <= level * weights[i]:
                granted[i] = demands[i]
                left -= demands[i]
                weight -= weights[i]
                modest = True
            waiting = waiting or granted[i] < 0.0
        if not waiting:
            return math.inf
        if not modest:
            for i in range(n):
                if granted[i] < 0.0:
                    granted[i] = level * weights[i]
            return level
    return math.inf


@lean
def _held_back(traffic: FloatArray, i: int, latency_ns: float, share: float) -> float:
    """The latency at which a busy CPU of tenant i moves no more than `share` GB/s, where it would at latency_ns."""
    compute, stall = traffic[i, M_COMPUTE], traffic[i, M_STALL]
    if stall > 0.0 and traffic[i, M_BYTES] > share * (compute + stall * latency_ns):
        return (traffic[i, M_BYTES] / share - compute) / stall
    return latency_ns


@lean
def _calm(traffic: FloatArray, usable: float, t0: float, devices: float) -> bool:
    """Whether nobody can saturate anything."""
    for i in range(len(traffic)):
        if not math.isinf(traffic[i, M_CAP]):
            return False
    return _asked(traffic, t0) + devices < MAX_UTILISATION * usable


@lean
def _take_as_before(traffic: FloatArray) -> None:
    """Open tenants move what they moved in the round before, whatever the latency is."""
    for i in range(len(traffic)):
        if traffic[i, M_OPEN] >= 0.0:
            traffic[i, M_OPEN], traffic[i, M_BUSY] = traffic[i, M_NOW], math.inf


@lean
def _slices(traffic: FloatArray, t0: float, a: float, b: float, seen: FloatArray) -> None:
    """The latency that each tenant sees at its own slice (MBA), into `seen`; M_CAP becomes what it moves there."""
    for i in range(len(traffic)):
        seen[i], cap = t0, traffic[i, M_CAP]
        if not math.isinf(cap):
            u = utilisation(traffic[i : i + 1], cap, t0, a, b, 0.0)
            seen[i] = t0 * rise(a, b, u)
            if u >= MAX_UTILISATION:
                seen[i] = _held_back(traffic, i, seen[i], MAX_UTILISATION * cap / traffic[i, M_BUSY])
            traffic[i, M_CAP] = gbps(traffic, i, seen[i])


@lean
def _share_out(
    traffic: FloatArray, usable: float, t0: float, a: float, b: float, devices: float, seen: FloatArray,
    work: FloatArray,
) -> None:  # fmt: skip
    """Lengthen the latencies of `seen` to what `usable` GB/s for all tenants together make of them."""
    n = len(traffic)
    u = utilisation(traffic, usable, t0, a, b, devices)
    common, share = t0 * rise(a, b, u), math.inf
    if u >= MAX_UTILISATION:
        demands, weights, granted = work[0, :n], work[1, :n], work[2, :n]
        for i in range(n):
            demands[i], weights[i] = min(gbps(traffic, i, common), traffic[i, M_CAP]), traffic[i, M_BUSY]
        left = max(usable * MAX_UTILISATION - devices, _LEAST_SHARE * usable)
        share = fair_split(demands, weights, left, granted)
    for i in range(n):
        seen[i] = _held_back(traffic, i, max(common, seen[i]), share)


@lean
def settle(
    traffic: FloatArray, usable: float, t0: float, a: float, b: float, devices: float, seen: FloatArray,
    work: FloatArray,
) -> None:  # fmt: skip
    """The memory latency in ns that each tenant sees once traffic and latency agree, into `seen`.

    Below saturation all see t(u). At saturation no busy CPU moves more than a common share: whoever's would waits
    longer. A tenant with a slice of its own (MBA) waits for that in the same way, and sees the longer wait of the two:
    whoever is held back at one hardly waits at the other. M_CAP becomes what it moves there. Devices move
    `devices` GB/s first; no throttle reaches them. `work` is scratch, (3, tenants).
    """
    if _calm(traffic, usable, t0, devices):
        _take_as_before(traffic)
        seen[:] = t0 * rise(a, b, utilisation(traffic, usable, t0, a, b, devices))
        return
    _slices(traffic, t0, a, b, seen)
    _share_out(traffic, usable, t0, a, b, devices, seen, work)


@lean
def settle_domains(
    traffic: FloatArray, first: IntArray, link: float, usable: float, t0: float, a: float, b: float,
    devices: FloatArray, seen: FloatArray, work: FloatArray,
) -> None:  # fmt: skip
    """As `settle`, for cache domains that share one memory, each behind a link of `link` GB/s of its own.

    Rows first[d] to first[d + 1] of `traffic` are the tenants of domain d; what devices move for them, `devices[d]`,
    passes the link, too. A link is to a domain what a slice is to a tenant: the longer of the waits counts.
    """
    n_domains, everything = len(devices), devices.sum()
    calm = _calm(traffic, usable, t0, everything)
    for d in range(n_domains):
        calm = calm and _calm(traffic[first[d] : first[d + 1]], link, t0, devices[d])
    if calm:
        _take_as_before(traffic)
        common = utilisation(traffic, usable, t0, a, b, everything)
        for d in range(n_domains):
            u = utilisation(traffic[first[d] : first[d + 1]], link, t0, a, b, devices[d])
            seen[first[d] : first[d + 1]] = t0 * rise(a, b, max(u, common))
        return
    _slices(traffic, t0, a, b, seen)
    for d in range(n_domains):
        low, high = first[d], first[d + 1]
        _share_out(traffic[low:high], link, t0, a, b, devices[d], seen[low:high], work)
    for i in range(len(traffic)):
        traffic[i, M_CAP] = min(traffic[i, M_CAP], gbps(traffic, i, seen[i]))
    _share_out(traffic, usable, t0, a, b, everything, seen, work)
