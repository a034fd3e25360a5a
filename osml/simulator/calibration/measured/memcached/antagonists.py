"""p95 and throughput of a service on one CPU beside an iBench program.

Three mechanisms. A spinner (`cpu`, `l1i`) takes turns with the service on its CPU. A waker (`l1d`, `l2`) copies some
bytes and sleeps, on the same CPU: its source takes "32K" for 32 bytes. A streamer (`llc`, `membw`) slows the service
down from another CPU. Rates are in requests/ms, times in ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from osml.simulator.calibration.measured.machines import Machine
from osml.simulator.calibration.measured.memcached.alone import Alone, queue_ms
from osml.simulator.calibration.measured.memcached.turns import delayed, ends_of_turn, preempts_never, waiting_share

SPINNERS, WAKERS, STREAMERS = ("cpu", "l1i"), ("l1d", "l2"), ("llc", "membw")
ANTAGONISTS = (*SPINNERS, *WAKERS, *STREAMERS)

_U_MAX = 0.97
_LEAST_MS = 1e-6  # rows that contradict each other may say less than nothing
_FLOOR, _P95 = 1, 5  # levels of a service alone


@dataclass(frozen=True)
class BesideConstants:
    """What machines have in common. Fitted: by search on the shipped rows of memcached_p95.csv."""

    wake_ms: float = 0.015
    """CPU time of one turn of a waker: a timer's interrupt and two switches in a VM. Fitted."""
    nap_ms: float = 0.050
    """How long nanosleep(0) sleeps: the timer slack of the kernel."""
    interrupt: float = 0.08
    """Share of the service's work that is done in interrupts, whoever runs. Fitted."""
    single: float = 0.4
    """CPU time of a request at low load over that at saturation, less 1: one wake-up each, no batches. Fitted."""
    llc: float = 1.31
    """Slowdown of the service beside `llc` on the sibling. Fitted."""
    membw: float = 1.18
    """Slowdown of the service beside `membw` on the sibling. Fitted, on one machine only."""
    llc_core: float = 1.08
    """The same on another core: a guess, no row has it."""
    membw_core: float = 1.04
    """The same on another core: a guess, no row has it."""
    awake: float = 0.97
    """Response on a CPU that never sleeps, over that on one that must wake up. Fitted."""
    knee: float = 0.25
    """Queue near the knee, in service times x u/(1 - u): read off the rows without a neighbour."""
    knee_llc: float = 1.6
    """The same beside `llc`, whose stalls make services irregular. Fitted."""
    closed: float = 118.0
    """p95 x throughput at saturation: 68 requests on their way in the load generator, p95 1.74 times the mean."""


class Beside(NamedTuple):
    """A service (alone, as measured) beside one antagonist."""

    base: Alone
    antagonist: str
    machine: Machine
    constants: BesideConstants

    @property
    def slowdown(self) -> float:
        """Of a service whose neighbour streams memory."""
        c = self.constants
        if self.antagonist == "llc":
            return c.llc if self.machine.siblings else c.llc_core
        return c.membw if self.machine.siblings else c.membw_core

    @property
    def capacity(self) -> float:
        """Requests/ms at saturation."""
        c = self.constants
        if self.antagonist in SPINNERS:
            return self.base.capacity / (2.0 - c.interrupt)
        if self.antagonist in WAKERS:
            period = self.machine.tick_ms if preempts_never(self.machine) else c.wake_ms + c.nap_ms
            return self.base.capacity * (1.0 - c.wake_ms / period)
        return self.base.capacity / self.slowdown

    def p95(self, load: float) -> float:
        """p95 in ms: open arrivals up to u = 0.97, the generator's closed loop from 1.03 on, geometric in between."""
        most = self.capacity
        below = max(self._open_p95(load), _LEAST_MS)
        part = min(max((load / most - _U_MAX) / (2.0 - 2.0 * _U_MAX), 0.0), 1.0)
        return below * max(self.constants.closed / most / below, 1.0) ** part

    def _open_p95(self, load: float) -> float:
        c, base = self.constants, self.base
        most = self.capacity
        service_ms, u = 1.0 / most, load / most
        if self.antagonist in STREAMERS:
            slow = self.slowdown
            seen = base.at(load * slow)
            own = float(seen[_P95] - seen[_FLOOR])  # above the floor of the network
            knee = c.knee_llc if self.antagonist == "llc" else c.knee
            return float(seen[_FLOOR]) + slow * own + queue_ms(service_ms, u, knee)
        seen = c.awake * base.at(load)
        if self.antagonist in WAKERS:
            return float(seen[_P95]) + queue_ms(service_ms, u, c.knee)
        x, tail = ends_of_turn(self.machine)
        busy = min(load, _U_MAX * most) / base.capacity
        if not self.machine.eevdf:
            # The service's run shortens the turn; a run that leaves it less than the least run costs a tick.
            x = x * max(1.0 - busy, 0.7 + 2.0 * (busy - 0.3))
        share = waiting_share(self.machine, busy * (1.0 + c.single * max(1.0 - u, 0.0)), c.interrupt)
        return delayed(seen, share, x, tail, 0.95) + queue_ms(service_ms, u, c.knee)
