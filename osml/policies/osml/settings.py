"""Every threshold of the policy `osml`, with its unit. A change of one is tried by `Osml(settings=...)`."""

from __future__ import annotations

from msgspec import Struct


class Settings(Struct, frozen=True):
    """Thresholds of the rules.

    What a miss is:

    - `settle`: intervals after which a cell, or a way to run the node, shows what it is worth.
    - `patience`: intervals after which sharing everything shows what it is worth: queues drain one after the other.
    - `slight`: share of the target; a miss of less than this is acted upon in its second interval, not in its first.
    - `drain`: intervals that a queue may take to drain before its service gets more.
    - `noise_once`, `noise_mean`: share of the target by which a tail of n requests counts as missed, in 1/sqrt(n) for
      one interval and in sqrt(share of it in the mean / n) for the mean. The noise itself is about 0.22 of either.
    - `hovers`: intervals after which a mean latency above the target is a miss, however small.

    What a need is:

    - `memory`: intervals that the mean of predictions goes over.
    - `moved`: share by which a request rate has to change, beyond its noise, to be another load.
    - `round_bound`, `round_need`: parts of a unit that do not count above a whole number, of a bound and of a need.

    Steps up:

    - `step`, `far_step`: share of its cores that a service gets more after a miss, and where it is far behind.
    - `far`: latency over target from which a service is far behind.
    - `withdraw`: intervals after a step down in which a miss takes the step back.
    - `retry_s`, `retry_times`, `retry_most_s`: a correction is kept for so long; each miss makes that so many times
      longer, up to the last.
    - `ahead`: log(latency over target) that a cell has at most in nineteen of twenty cases: where it is expected to
      have more, a service gets the first cell with no more than the negative of this.
    - `helps`: by how much each of these cores has to lower that.

    Steps down:

    - `calm`: intervals in a row with all targets met before anything is taken.
    - `later`: intervals in a cell before a second step down.
    - `little`: share of a cell; a smaller surplus stays where it is.
    - `close`: mean latency over target above which a service gives nothing, and below which it may go below its need, a
      unit at a time.
    - `full`: share of its CPUs that a service may use after a step down.
    - `window_s`: seconds after its load fell in which a service keeps what it has, where nobody needs it.
    - `safe`, `safe_after`: log(latency over target) that a smaller cell has at most in nineteen of twenty cases, and
      intervals in the present one with the target met before it is taken.
    - `reach`: units that Model-C' moves at most, and as many more as this share of the cell.

    Where not all needs fit:

    - `near`: mean latency over target that a giver is expected to have at most.
    - `room`: share of the target by which a giver has to be nearer to it than the taker.
    - `worse`: E_S by which cells may be worse than sharing everything and are still balanced.
    - `returns`: times that all return to the cells in which they met their targets, until they meet them there again.
    - `scarce_ways`: share of its ways that a service keeps at least.
    - `better`: share of the E_S of services without anything from which setting them aside is tried.
    """

    settle: int = 2
    patience: int = 5
    slight: float = 0.1
    drain: int = 40
    noise_once: float = 1.0
    noise_mean: float = 0.45
    hovers: int = 8
    memory: int = 8
    moved: float = 0.08
    round_bound: float = 0.5
    round_need: float = 0.25
    step: float = 0.15
    far_step: float = 0.3
    far: float = 2.0
    near: float = 0.98
    ahead: float = 0.04
    helps: float = 0.015
    withdraw: int = 3
    retry_s: float = 180.0
    retry_times: float = 4.0
    retry_most_s: float = 86_400.0
    calm: int = 2
    later: int = 5
    little: float = 0.1
    close: float = 0.9
    full: float = 0.92
    window_s: float = 60.0
    safe: float = -0.15
    safe_after: int = 3
    reach: tuple[int, float] = (4, 0.15)
    room: float = 0.02
    worse: float = 0.03
    returns: int = 4
    scarce_ways: float = 0.8
    better: float = 0.9


DEFAULT = Settings()
