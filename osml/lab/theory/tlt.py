"""The TLT theorem (Ah-Q section IV-B, theorem 2): tail latency bounds throughput.

    phi <= RLP / TL_theta * (1 - f) / (1 - theta)                                                  (equation 2)

phi responses/s, RLP outstanding requests, TL_theta the tail latency, f the part of the mean latency that latencies
below the tail contribute. The proof has two steps, and both can be checked on data:

1. Little's law, RLP = phi AL (equation 3), which a system keeps that is stationary;
2. TL_theta / AL <= (1 - f) / (1 - theta) (equation 10), a property of the latency distribution alone.

What f counts decides whether step 2 is true. The theorem's text says latencies "no more than the tail latency", its
proof (equations 4 and 8) those smaller than it. With the proof's f the bound holds for every distribution: at least
1 - theta of all requests take TL_theta or longer. With the text's f it fails as soon as requests share the tail
latency; if all take the same time, f is 1 and the bound is 0. `TltRow.share_below` is the proof's f, `share_up_to` the
text's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError

FloatArray = NDArray[np.float64]

THETAS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999)
_ROUNDING = 1e-9  # relative: sums of millions of latencies


@dataclass(frozen=True)
class TltRow:
    """The theorem at one theta. Throughputs are responses/s.

    `share_below` is f over latencies below `tail_ms`, `share_up_to` over those up to it. `bound_per_s` is equation 2
    with the first, `bound_text_per_s` with the second, `bound_any_f_per_s` the same for f = 0 (equation 7).
    """

    theta: float
    tail_ms: float
    share_below: float
    share_up_to: float
    bound_per_s: float
    bound_text_per_s: float
    bound_any_f_per_s: float
    observed_per_s: float

    @property
    def holds(self) -> bool:
        """Whether the observed throughput is within the bound."""
        return self.observed_per_s <= self.bound_per_s * (1.0 + _ROUNDING)

    @property
    def holds_as_text(self) -> bool:
        """The same with the f that the theorem's text defines."""
        return self.observed_per_s <= self.bound_text_per_s * (1.0 + _ROUNDING)

    @property
    def looseness(self) -> float:
        """Bound over observed throughput: 1 where the bound is reached."""
        return self.bound_per_s / self.observed_per_s


@dataclass(frozen=True)
class Tlt:
    """The theorem over a grid of theta. `little_ratio` is RLP / (phi AL): 1 where Little's law holds (equation 3)."""

    rows: list[TltRow]
    requests: int
    mean_ms: float
    throughput_per_s: float
    outstanding: float

    @property
    def little_ratio(self) -> float:
        """RLP over phi AL."""
        return self.outstanding / (self.throughput_per_s * self.mean_ms / 1000.0)

    @property
    def holds(self) -> bool:
        """Whether the bound holds at every theta."""
        return all(row.holds for row in self.rows)


def counted_within(
    arrival_ms: FloatArray, answered_ms: FloatArray, begin_ms: float, end_ms: float
) -> tuple[FloatArray, float, float]:
    """(latencies, responses/s, mean outstanding requests) of a span of time; each is counted by itself.

    Latencies are in ms, of the requests that were answered within the span. Outstanding requests are counted over time,
    so Little's law can fail: where a backlog grows, more are present than it allows. Raises InputError where nothing
    was answered within the span.
    """
    inside = (answered_ms > begin_ms) & (answered_ms <= end_ms)
    span_ms = end_ms - begin_ms
    if span_ms <= 0.0 or not inside.any():
        raise InputError(f"no request was answered within {max(span_ms, 0.0) / 1000.0:.3g} s: give more requests")
    present_ms = np.minimum(answered_ms, end_ms) - np.maximum(arrival_ms, begin_ms)
    return (
        (answered_ms - arrival_ms)[inside],
        int(inside.sum()) / (span_ms / 1000.0),
        float(np.maximum(present_ms, 0.0).sum()) / span_ms,
    )


def checked_latencies(latencies_ms: FloatArray | Sequence[float]) -> FloatArray:
    """Latencies in ascending order; InputError unless all are finite and above 0 and there is at least one."""
    values = np.sort(np.asarray(latencies_ms, dtype=np.float64).ravel())
    if values.size == 0:
        raise InputError("no latencies, expected at least one")
    if not np.isfinite(values).all() or values[0] <= 0:
        wrong = values[~(np.isfinite(values) & (values > 0))]
        raise InputError(f"{wrong.size} of {values.size} latencies are not finite times above 0 ms, such as {wrong[0]}")
    return values


def check_theta(theta: float) -> float:
    """Theta as a share; InputError unless it is between 0 and 1."""
    if not (math.isfinite(theta) and 0.0 < theta < 1.0):
        raise InputError(f"theta is {theta}, expected a share between 0 and 1, such as 0.95")
    return theta


def tail_and_shares(ascending_ms: FloatArray, theta: float) -> tuple[float, float, float]:
    """(TL_theta, f below it, f up to it) of sorted latencies.

    TL_theta is the smallest latency that a share of at least theta of the requests does not exceed (section II).
    """
    n, total = ascending_ms.size, float(ascending_ms.sum())
    at = min(max(math.ceil(check_theta(theta) * n - 1e-9), 1), n) - 1
    tail = float(ascending_ms[at])
    below = int(np.searchsorted(ascending_ms, tail, "left"))
    up_to = int(np.searchsorted(ascending_ms, tail, "right"))
    return tail, float(ascending_ms[:below].sum()) / total, float(ascending_ms[:up_to].sum()) / total


def bound_per_s(outstanding: float, tail_ms: float, share: float, theta: float) -> float:
    """The right side of equation 2: responses/s. `share` is f."""
    return outstanding / (tail_ms / 1000.0) * (1.0 - share) / (1.0 - theta)


def check_tlt(
    latencies_ms: FloatArray | Sequence[float],
    thetas: Sequence[float] = THETAS,
    *,
    throughput_per_s: float | None = None,
    outstanding: float | None = None,
) -> Tlt:
    """Bound against observed throughput for one sample of latencies.

    What is not given follows from Little's law: RLP from the throughput, or phi from the outstanding requests. With
    neither, everything is per outstanding request (RLP = 1): step 2 of the proof alone. With both, which somebody must
    have measured apart from each other, step 1 is checked too. Raises InputError for what is no latency, theta or rate.
    """
    values = checked_latencies(latencies_ms)
    for name, value in (("throughput", throughput_per_s), ("outstanding requests", outstanding)):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise InputError(f"{name} is {value}, expected a number above 0")
    mean_ms = float(values.mean())
    if outstanding is None:
        outstanding = 1.0 if throughput_per_s is None else throughput_per_s * mean_ms / 1000.0
    if throughput_per_s is None:
        throughput_per_s = outstanding / (mean_ms / 1000.0)
    rows: list[TltRow] = []
    for theta in thetas:
        tail, below, up_to = tail_and_shares(values, theta)
        rows.append(
            TltRow(
                theta,
                tail,
                share_below=below,
                share_up_to=up_to,
                bound_per_s=bound_per_s(outstanding, tail, below, theta),
                bound_text_per_s=bound_per_s(outstanding, tail, up_to, theta),
                bound_any_f_per_s=bound_per_s(outstanding, tail, 0.0, theta),
                observed_per_s=throughput_per_s,
            )
        )
    return Tlt(rows, values.size, mean_ms, throughput_per_s, outstanding)


def predicted(first_ms: FloatArray, then_ms: FloatArray, thetas: Sequence[float] = THETAS) -> list[TltRow]:
    """The bound as a forecast: tail and f from one sample, throughput per outstanding request from another.

    On the sample that f was estimated from, the bound can't fail. Here it can, by as much as the two differ.
    """
    known = check_tlt(first_ms, thetas)
    later = 1000.0 / float(checked_latencies(then_ms).mean())
    return [replace(row, observed_per_s=later) for row in known.rows]
