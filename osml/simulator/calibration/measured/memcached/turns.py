"""How long a request waits for a thread that never sleeps on the same CPU.

Sources: the rules of EEVDF and CFS in `kernel/sched/fair.c` of Linux 6.8 and 5.15. An event simulation of the rules of
EEVDF agrees within 0.25 ms at the 95th percentile. All times are in ms.
"""

from __future__ import annotations

import numpy as np

from osml.simulator.calibration.measured.machines import Machine
from osml.simulator.columns import FloatArray

LEVELS: FloatArray = np.array([0.0, 0.05, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999])
"""Levels of the quantiles of a service alone."""

_CREDIT = 3.0
"""CFS: a sleeper's credit over wakeup_granularity, 3 ms over 1 ms (each times 1 + log2 of the CPUs)."""

_CAUGHT_UP = 0.4
"""CFS, equal weights: CPU share from which on a service has no credit left (theory, no row)."""

_POINTS = 400
_MIXED = np.linspace(0.0025, 0.9975, 200)


def preempts_never(machine: Machine) -> bool:
    """Whether CFS lets no wake-up of such a weight preempt: wakeup_granularity counts at the sleeper's weight."""
    return not machine.eevdf and _CREDIT * machine.weight - 1.5 <= 0.0


def waiting_share(machine: Machine, busy: float, interrupt: float) -> float:
    """Share of requests that wait for the spinner to end its turn; `busy` is the service's share of the CPU.

    EEVDF: a service that has had less than its share preempts at once. What it gains while it waits it spends later,
    so the share that waits is its CPU time over the spinner's. `interrupt` of it is done in interrupts, whoever runs.
    CFS: whoever wakes preempts if its credit is worth more than wakeup_granularity at its weight.
    """
    if machine.eevdf:
        return min((1.0 - interrupt) * busy / max(1.0 - busy, 1e-9), 1.0)
    if preempts_never(machine):
        return 1.0 - busy  # all but those that come while it runs
    return min(max((busy - _CAUGHT_UP) / 0.1, 0.0), 1.0)


def ends_of_turn(machine: Machine) -> tuple[FloatArray, FloatArray]:
    """(x, P(wait > x)) of a request that finds the spinner running and its own group without credit.

    EEVDF: a turn lasts U(0, slice) + U(0, tick), because the tick sees the slice's end; longer turns catch more
    requests. CFS: until the first tick after the least run.
    """
    if not machine.eevdf:
        x: FloatArray = np.linspace(0.0, machine.turn_ms, _POINTS)
        return x, 1.0 - x / machine.turn_ms
    low, high = sorted((machine.slice_ms, machine.tick_ms))
    x = np.linspace(0.0, low + high, _POINTS)
    rising = np.where(x < high, low * x - low * low / 2.0, low * high - (low + high - x) ** 2 / 2.0)
    above = 1.0 - np.where(x < low, x * x / 2.0, rising) / (low * high)
    steps = np.concatenate([[0.0], np.cumsum((above[1:] + above[:-1]) / 2.0 * np.diff(x))])
    return x, 1.0 - steps / steps[-1]


def delayed(base: FloatArray, share: float, x: FloatArray, tail: FloatArray, level: float) -> float:
    """Quantile of base + delay in ms: `base` at LEVELS, a delay with P(> x) = tail for `share` of all requests."""
    values = np.interp(_MIXED, LEVELS, base)
    low, high = float(values[0]), float(values[-1] + x[-1])
    for _ in range(30):
        middle = 0.5 * (low + high)
        left = middle - values
        late = np.where(left < 0.0, 1.0, share * np.interp(left, x, tail, right=0.0))
        low, high = (middle, high) if late.mean() > 1.0 - level else (low, middle)
    return 0.5 * (low + high)
