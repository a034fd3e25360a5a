"""A cell in the simulated kernel: service, load generator and company as tenants of two CPUs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from osml.lab.studies.scheduler import columns as c
from osml.lab.studies.scheduler.columns import FloatArray
from osml.lab.studies.scheduler.model import Job, Machine, Service, eevdf
from osml.lab.studies.scheduler.simulation import simulate
from osml.lab.validation.cells import Cell
from osml.lab.validation.profiles import Profile
from osml.lab.validation.stage import GIVE_UP_S, N_CPUS, PERIOD_MS

KERNEL = replace(eevdf(N_CPUS), base_ms=1.4)
"""Linux 6.6 and later at 250 Hz on two CPUs (sched_base_slice: 0.7 ms, doubled for two CPUs)."""

WARM_UP_S, BIN_S = 0.5, 0.1
SHORTEST_SLEEP_MS = 0.001
GENERATOR_PRIORITY = 50
GENERATOR_CV2 = 0.3
LEVELS = (0.5, 0.95, 0.99)


@dataclass(frozen=True)
class Seen:
    """Latencies in ms and CPU time in CPUs of one simulated measurement; throughput a second.

    As in a measured cell, requests that are due within it count, also those answered after its end. Those without an
    answer GIVE_UP_S after its end count as so late.
    """

    response_ms: FloatArray
    throughput: float
    cpu: float

    def quantiles(self) -> tuple[float, float, float]:
        """p50, p95 and p99; infinite where nothing was answered."""
        if len(self.response_ms) == 0:
            return (math.inf, math.inf, math.inf)
        found = np.quantile(self.response_ms, LEVELS, method="inverted_cdf")
        return (float(found[0]), float(found[1]), float(found[2]))


def _tenant(profile: Profile, cell: Cell, rate: float, scale: float, cpus: tuple[int, ...]) -> Service:
    return Service(
        profile.threads, cpus, grouped=True, quota=math.inf if cell.quota is None else cell.quota,
        period_ms=PERIOD_MS, rate=rate, work_ms=profile.work_at(cell.load, cell.quota) * scale, bound=profile.bound,
        lifo=profile.bound, shape=profile.shape,
        wake_cost_ms=profile.wake_beside(cell.company, cell.cpus, rate) * scale, cool_ms=SHORTEST_SLEEP_MS,
    )  # fmt: skip


def simulate_cell(
    cell: Cell,
    rate: float,
    profile: Profile,
    seconds: float,
    seed: int,
    other: tuple[Profile, float] | None = None,
    scale: tuple[float, float] = (1.0, 1.0),
) -> Seen:
    """One finite measurement. `other` is the service that keeps company and its rate; `scale` multiplies work and base.

    The same seed gives the same result.
    """
    cpus = tuple(range(N_CPUS - cell.cpus, N_CPUS))
    # The generator wakes the service up from the first CPU. A single thread goes to another CPU where that is idle, or
    # runs SCHED_IDLE only, and stays there.
    own = cpus[-1:] if profile.threads == 1 and (cell.company == "none" or cell.scheduling == "idle") else cpus
    end = BIN_S * max(round((seconds + WARM_UP_S) / BIN_S), 6)
    late = 0.0 if cell.saturated else GIVE_UP_S
    served = replace(_tenant(profile, cell, rate, scale[0], own), steps=((end, 0.0),) if late else ())
    tenants: list[Job | Service] = [served]
    sent = rate + (other[1] if other else 0.0)
    # It runs twice a request, to send and to receive.
    tenants.append(
        Service(
            1, (0,), priority=GENERATOR_PRIORITY, rate=2.0 * sent, work_ms=0.5 * profile.generator_ms, cv2=GENERATOR_CV2
        )
    )
    if other is not None:
        free = Cell(other[0].service, cell.cpus, None, 0.3)
        tenants.append(_tenant(other[0], free, other[1], 1.0, cpus))
    elif cell.company != "none":
        weight = 1.0 if cell.scheduling == "idle" else cell.weight
        tenants.append(Job(cell.cpus, cpus, weight, True, idle=cell.scheduling == "idle"))
    # Without balance the calibration cells beside SCHED_IDLE jobs fit better; the kernel's reason was not checked.
    kernel = replace(KERNEL, balance_ms=0.0) if cell.scheduling == "idle" else KERNEL
    outcome = simulate(Machine(N_CPUS), kernel, tenants, end + late, WARM_UP_S, seed).tenants[0]
    response = outcome.response_ms + profile.base_beside(cell.company) * scale[1]
    if cell.saturated:
        response = response[np.isfinite(response)]
    window = outcome.bins[round(WARM_UP_S / BIN_S) : round(end / BIN_S)].sum(axis=0) / (end - WARM_UP_S)
    return Seen(
        np.nan_to_num(response, nan=1000.0 * GIVE_UP_S), float(window[c.A_COMPLETED]), float(window[c.A_CPU]) / 1000.0
    )
