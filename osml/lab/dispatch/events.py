"""The compiled loop of the simulation: one event after the other, each belonging to one server."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osml.base.jit import compiled

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


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
def _happen(
    place: float,
    environment: int,
    kinds: IntArray,
    modes: IntArray,
    busy: IntArray,
    rates: FloatArray,
    switching: FloatArray,
    environments: FloatArray,
    classes: IntArray,
) -> tuple[int, bool, int]:
    """The event at `mark` on the line of all rates but arrivals: (jobs completed, whether to decide, environment).

    Decided is after a completion on a server not of the fastest class, and when an idle server gets faster.
    """
    mark = np.float64(place)
    for e in range(environments.shape[0]):
        mark -= environments[environment, e]
        if mark < 0:
            return 0, False, e
    for i in range(kinds.shape[0]):
        here = modes[i]
        if busy[i] == 1:
            mark -= rates[kinds[i], here]
            if mark < 0:
                busy[i] = 0
                return 1, bool(classes[kinds[i], here] > 0), environment
        for to in range(rates.shape[1]):
            mark -= switching[environment, kinds[i], here, to]
            if mark < 0:
                modes[i] = to
                faster = 0 < classes[kinds[i], to] < classes[kinds[i], here]
                return 0, busy[i] == 0 and faster, environment
    return 0, False, environment


@compiled
def _dispatch(
    waiting: int,
    in_service: int,
    asked: bool,
    anytime: bool,
    environment: int,
    kinds: IntArray,
    modes: IntArray,
    busy: IntArray,
    classes: IntArray,
    codes: IntArray,
    choice: IntArray,
) -> int:
    """Send waiting jobs to servers; return how many. The fastest class is never asked about."""
    sent = 0
    while waiting > sent and _start(kinds, modes, busy, classes, 0):
        sent += 1
    while asked and waiting > sent:
        row = codes[_state_code(environment, kinds, modes, busy, classes, classes.max() + 1)]
        wanted = choice[min(waiting + in_service, choice.shape[0] - 1), row]
        if wanted == 0 or not _start(kinds, modes, busy, classes, wanted):
            break
        sent += 1
        asked = anytime
    return sent


@compiled
def run(
    arrival: float,
    kinds: IntArray,
    rates: FloatArray,
    switching: FloatArray,
    environments: FloatArray,
    classes: IntArray,
    codes: IntArray,
    choice: IntArray,
    anytime: bool,
    batch: float,
    batches: int,
    warm_up: int,
    seed: int,
) -> FloatArray:
    """Jobs x time in each batch of length `batch`, after `warm_up` batches that aren't counted.

    kinds: (servers,). rates: (kinds, modes). switching: (environments, kinds, modes, modes). classes: (kinds, modes).
    codes: row of `choice` by code of the state. choice: (levels, rows), the last level stands for all above.
    """
    np.random.seed(seed)
    n = kinds.shape[0]
    modes, busy = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    areas = np.zeros(batches + warm_up)
    environment, waiting, in_service, index = 0, 0, 0, 0
    clock, left = 0.0, 0.0
    while True:
        total = arrival + float(environments[environment].sum())
        for i in range(n):
            total += float(rates[kinds[i], modes[i]] * busy[i] + switching[environment, kinds[i], modes[i]].sum())
        left = np.random.exponential(1.0 / total)
        while clock + left >= batch:
            areas[index] += (batch - clock) * (waiting + in_service)
            left -= batch - clock
            clock = 0.0
            index += 1
            if index == batches + warm_up:
                return areas[warm_up:]
        areas[index] += left * (waiting + in_service)
        clock += left
        mark = np.random.random() * total
        asked = True
        if mark < arrival:
            waiting += 1
        else:
            done, decides, environment = _happen(
                mark - arrival, environment, kinds, modes, busy, rates, switching, environments, classes
            )
            in_service -= done
            asked = anytime or decides
        sent = _dispatch(waiting, in_service, asked, anytime, environment, kinds, modes, busy, classes, codes, choice)
        waiting -= sent
        in_service += sent
