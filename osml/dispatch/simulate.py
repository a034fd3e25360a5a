"""Event simulation of a farm, server by server: an answer that shares nothing with the chain of `phases` but the policy.

Times between events are drawn for single servers; nothing is uniformised, lumped or cut off.
"""

from __future__ import annotations


from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from osml.dispatch.model import Farm
from osml.dispatch.phases import Phases
from osml.dispatch.policy import Policy
from osml.failure import InputError
from osml.virtual.jit import compiled

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

BATCHES = 32
STUDENT_95 = 2.0395
"""Two-sided 95 % quantile of Student's t with 31 degrees of freedom."""
_MAX_CODES = 1 << 24


@dataclass(frozen=True)
class Simulated:
    """Mean number in system with the half-width of its 95 % confidence interval (batch means)."""

    mean: float
    half_width: float
    batches: FloatArray

    def agrees_with(self, value: float, widths: float = 1.0) -> bool:
        """Whether a value lies within so many half-widths."""
        return abs(value - self.mean) <= widths * self.half_width


def simulate(farm: Farm, phases: Phases, policy: Policy, *, time: float, seed: int) -> Simulated:
    """Simulate `time` units after a tenth of it as warm-up, from an empty farm. Raises InputError for time <= 0."""
    if not time > 0:
        raise InputError(f"time is {time}, expected more than 0")
    kinds = np.array([k for k, kind in enumerate(farm.kinds) for _ in range(kind.count)], dtype=np.int64)
    n_modes = max(len(kind.rates) for kind in farm.kinds)
    rates = np.zeros((len(farm.kinds), n_modes))
    switching = np.zeros((len(farm.environment), len(farm.kinds), n_modes, n_modes))
    classes = np.full((len(farm.kinds), n_modes), -1, dtype=np.int64)
    for k, kind in enumerate(farm.kinds):
        rates[k, : len(kind.rates)] = kind.rates
        for e, matrix in enumerate(kind.switching):
            switching[e, k, : len(kind.rates), : len(kind.rates)] = matrix
            np.fill_diagonal(switching[e, k], 0.0)
    for j, (k, mode) in enumerate(phases.classes):
        classes[k, mode] = j
    environment = np.array(farm.environment, dtype=np.float64)
    np.fill_diagonal(environment, 0.0)
    choice = np.vstack([policy.choice, policy.tail])
    areas = _run(
        farm.arrival, kinds, rates, switching, environment, classes, _codes(farm, phases), choice,
        farm.epochs == "anytime", time / BATCHES, 4 * BATCHES // 32, seed,
    )  # fmt: skip
    means = areas / (time / BATCHES)
    return Simulated(float(means.mean()), float(STUDENT_95 * means.std(ddof=1) / np.sqrt(BATCHES)), means)


def _codes(farm: Farm, phases: Phases) -> IntArray:
    """From the state of the servers, as digits to the base servers + 1, to the row of the policy."""
    base, n_classes = farm.servers + 1, len(phases.classes)
    length = len(farm.environment) * base ** (2 * n_classes - 1)
    if length > _MAX_CODES:
        raise InputError(f"{n_classes} classes of {farm.servers} servers are too many to simulate")
    codes = np.full(length, -1, dtype=np.int64)
    for s, (environment, counts, busy) in enumerate(phases.listed):
        code = environment
        for digit in (*counts, *busy):
            code = code * base + digit
        codes[code] = s
    return codes


@compiled
def _state_code(
    environment: int, kinds: IntArray, modes: IntArray, busy: IntArray, classes: IntArray, n_classes: int
) -> int:
    counts = np.zeros(n_classes, dtype=np.int64)
    used = np.zeros(n_classes, dtype=np.int64)
    for i in range(kinds.shape[0]):
        j = classes[kinds[i], modes[i]]
        counts[j] += 1
        used[j] += busy[i]
    code = environment
    base = kinds.shape[0] + 1
    for j in range(n_classes):
        code = code * base + counts[j]
    for j in range(1, n_classes):
        code = code * base + used[j]
    return code


@compiled
def _start(kinds: IntArray, modes: IntArray, busy: IntArray, classes: IntArray, wanted: int) -> bool:
    """Give a job to an idle server of a class, if there is one."""
    for i in range(kinds.shape[0]):
        if busy[i] == 0 and classes[kinds[i], modes[i]] == wanted:
            busy[i] = 1
            return True
    return False


@compiled
def _run(
    arrival: float, kinds: IntArray, rates: FloatArray, switching: FloatArray, environments: FloatArray,
    classes: IntArray, codes: IntArray, choice: IntArray, anytime: bool, batch: float, warm_up: int, seed: int,
) -> FloatArray:  # fmt: skip
    """Jobs x time in each batch."""
    np.random.seed(seed)  # noqa: NPY002 - the generator that compiled code has
    n, n_modes, n_classes = kinds.shape[0], rates.shape[1], classes.max() + 1
    modes, busy = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    areas = np.zeros(BATCHES)
    environment, waiting, in_service = 0, 0, 0
    clock, index = 0.0, -warm_up
    while True:
        total = arrival + environments[environment].sum()
        for i in range(n):
            total += rates[kinds[i], modes[i]] * busy[i] + switching[environment, kinds[i], modes[i]].sum()
        left = np.random.exponential(1.0 / total)  # noqa: NPY002
        while clock + left >= batch:
            if index >= 0:
                areas[index] += (batch - clock) * (waiting + in_service)
            left -= batch - clock
            clock = 0.0
            index += 1
            if index == BATCHES:
                return areas
        if index >= 0:
            areas[index] += left * (waiting + in_service)
        clock += left
        mark = np.random.random() * total  # noqa: NPY002
        asked = anytime
        mark -= arrival
        if mark < 0:
            waiting += 1
            asked = True
        else:
            for e in range(environments.shape[0]):
                if mark >= 0:
                    mark -= environments[environment, e]
                    if mark < 0:
                        environment = e
            i = 0
            while mark >= 0 and i < n:
                if busy[i] == 1:
                    mark -= rates[kinds[i], modes[i]]
                    if mark < 0:
                        busy[i] = 0
                        in_service -= 1
                        asked = asked or classes[kinds[i], modes[i]] > 0
                if mark >= 0:
                    here = modes[i]
                    for to in range(n_modes):
                        if mark >= 0:
                            mark -= switching[environment, kinds[i], here, to]
                            if mark < 0:
                                modes[i] = to
                i += 1
        while waiting > 0 and _start(kinds, modes, busy, classes, 0):
            waiting -= 1
            in_service += 1
        while asked and waiting > 0:
            row = codes[_state_code(environment, kinds, modes, busy, classes, n_classes)]
            wanted = choice[min(waiting + in_service, choice.shape[0] - 1), row]
            if wanted == 0 or not _start(kinds, modes, busy, classes, wanted):
                break
            waiting -= 1
            in_service += 1
            asked = anytime


