"""The conditions under which nobody trained: each one a set of changes, drawn anew for each seed."""

from __future__ import annotations

from dataclasses import dataclass

from osml.simulator.variation.sensors import Missing
from osml.simulator.variation.spread import HARD, REAL

COUNTERS_REAL, COUNTERS_HARD = 0.15, 0.30


@dataclass(frozen=True)
class Condition:
    """What differs from the catalog. Shares are amplitudes: 0.3 is from -30 to +30 %.

    `node`: programs and machine; `curves`: steepness of miss curves; `drift`: work per request over time; `threads`:
    services have other numbers of threads. `counters`, `noise`, `missing`: as in `Sensors`; `seen` and `late` are
    ranges that its numbers are drawn from (a share of requests log-uniformly, whole intervals). `company`: a job like
    this one that nobody observes; `machines`: another machine with other numbers of services; `renamed`: names
    that no model knows.
    """

    about: str
    node: float = 0.0
    curves: float = 0.0
    drift: float = 0.0
    threads: bool = False
    counters: float = 0.0
    noise: float = 0.0
    seen: tuple[float, float] = (1.0, 1.0)
    late: tuple[int, int] = (0, 0)
    missing: Missing = "nothing"
    company: str = ""
    machines: bool = False
    renamed: bool = False


CONDITIONS: dict[str, Condition] = {
    "nominal": Condition("the catalog, as it is"),
    "node-30": Condition("programs and machine +-30 %", node=REAL),
    "node-50": Condition("programs and machine +-50 %", node=HARD),
    "curves": Condition("steepness of miss curves +-50 %", curves=HARD),
    "drift": Condition("work per request +-30 % over minutes", drift=REAL),
    "threads": Condition("half to three times the threads", threads=True),
    "counters-15": Condition("each counter wrong by up to 15 %", counters=COUNTERS_REAL),
    "counters-30": Condition("each counter wrong by up to 30 %", counters=COUNTERS_HARD),
    "noise": Condition("each counter +-10 % in each interval", noise=0.1),
    "sampled": Condition("latency of 1 to 20 % of the requests", seen=(0.01, 0.2)),
    "late": Condition("measurements one to four intervals late", late=(1, 4)),
    "blind": Condition("no counters", missing="all"),
    "cpu-time": Condition("no counters but CPU time", missing="all but CPU time"),
    "company": Condition("a job that nobody observes: 6 threads like fluidanimate", company="fluidanimate"),
    "company-stream": Condition("a job that nobody observes: 6 threads like stream", company="stream"),
    "machines": Condition("8 to 128 CPUs, 1 to 30 services", machines=True),
    "renamed": Condition("names that no model knows", renamed=True),
    "real": Condition(
        "node 30 %, counters 15 %, noise 5 %, a fifth of the requests, one interval late, drift 30 %",
        node=REAL, counters=COUNTERS_REAL, noise=0.05, seen=(0.2, 0.2), late=(1, 1), drift=REAL,
    ),
    "real-hard": Condition(
        "node 50 %, counters 30 %, noise 10 %, a tenth of the requests, two intervals late, drift 30 %",
        node=HARD, counters=COUNTERS_HARD, noise=0.1, seen=(0.1, 0.1), late=(2, 2), drift=REAL,
    ),
}  # fmt: skip
