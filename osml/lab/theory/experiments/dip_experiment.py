"""The experiment of Ah-Q section VIII: ten applications in pairs on eight cores, under strategies with other abilities.

Shared is the policy `unmanaged`, Even is `even`, RR puts the application of high priority into a real-time class. Any
policy of the registry can stand beside them. What the paper leaves open, and how it is here:

- 90 combinations: the ordered pairs of ten applications, of which the first has the high priority. In 21 of them a BE
  job outranks an LC service, against the caption of figure 13; `with_critical_first` leaves those out (69 remain).
- Loads are not given: `load` is a share of what a service bears alone on the eight cores.
- Even, Shared and the policies know LC from BE, but no order of two of the same kind: both orders are the same run.
- Performance is the tail latency of an LC service, and for a BE job its instructions a second ("throughput", section I;
  the figures say IPC, which hardly falls for a job that waits for a CPU) or its IPC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Literal

from osml.base.failure import InputError
from osml.lab.theory.experiments.settled_runs import (
    Settled,
    Settling,
    by_priority,
    check_policy,
    kind_ranks,
    under_policy,
)
from osml.simulator import catalogs
from osml.simulator.catalogs import CatalogError
from osml.simulator.cut_down import cut_down, tenants_of
from osml.simulator.models import PlatformModel
from osml.simulator.state import Node
from osml.simulator.surface import ideal_ms

APPLICATIONS = (
    "mysql",
    "nginx",
    "redis",
    "fluidanimate",
    "blackscholes",
    "stream",
    "bodytrack",
    "ferret",
    "raytrace",
    "swaption",
)
"""Ah-Q table VI."""

SHARED, EVEN, PRIORITY = "unmanaged", "even", "rr"
BeMeasure = Literal["work", "ipc"]


@dataclass(frozen=True)
class Setup:
    """The node and what runs on it. `applications` are names of the catalogs, of which there are at least two."""

    platform: str = "gold-6278c"
    cores: int = 8
    applications: tuple[str, ...] = APPLICATIONS
    load: float = 0.3
    be_measure: BeMeasure = "work"
    settling: Settling = field(default_factory=Settling)

    def __post_init__(self) -> None:
        if len(set(self.applications)) != len(self.applications) or len(self.applications) < 2:
            listed = ", ".join(self.applications)
            raise InputError(f"applications are {listed or 'none'}, expected at least two different ones")
        if not 0.0 < self.load <= 1.0:
            raise InputError(f"load is {self.load}, expected a share of max load above 0 and up to 1")


@dataclass(frozen=True)
class Combination:
    """An ordered pair under one strategy: the first application has the high priority."""

    high: str
    low: str
    strategy: str
    settled: Settled
    performance: dict[str, float]  # ms of LC services (small is good), instructions/s or IPC of BE jobs


@dataclass(frozen=True)
class FailedPair:
    """A pair that a policy could not be run on, and why."""

    high: str
    low: str
    strategy: str
    reason: str


@dataclass(frozen=True)
class Results:
    """All combinations that were run, those that failed, and what is known of the LC services.

    `ideals_ms` are tail latencies alone on the node (TL_i0), `targets_ms` what is tolerated (M_i); `notes` say how
    loads were found that nobody published for this platform.
    """

    setup: Setup
    combinations: list[Combination]
    failed: list[FailedPair]
    lc: frozenset[str]
    ideals_ms: dict[str, float]
    targets_ms: dict[str, float]
    notes: list[str]

    def of(self, strategy: str) -> dict[tuple[str, str], Combination]:
        """By (high, low)."""
        return {(c.high, c.low): c for c in self.combinations if c.strategy == strategy}

    def with_critical_first(self, high: str, low: str) -> bool:
        """Whether the high priority is not that of a BE job above an LC service."""
        return high in self.lc or low not in self.lc


def _node(platform: PlatformModel, pair: Sequence[str]) -> Node:
    return Node(platform, *tenants_of(pair, platform))


def _run(setup: Setup, platform: PlatformModel, pair: tuple[str, str], strategy: str) -> Settled:
    node = _node(platform, pair)
    loads = {service.name: setup.load for service in node.services}
    if strategy == PRIORITY:
        return by_priority(node, loads, {pair[0]: 0, pair[1]: 1}, setup.settling)
    return under_policy(node, loads, strategy, setup.settling, kind_ranks(node))


def run_experiment(
    setup: Setup, policies: Sequence[str] = (), progress: Callable[[int, int], None] | None = None
) -> Results:
    """Run all ordered pairs under Shared, Even, RR and the given policies; `progress` is told (done, in all).

    A policy that raises on a pair costs that pair, not the rest. Raises InputError for unknown names.
    """
    strategies = list(dict.fromkeys([SHARED, EVEN, PRIORITY, *policies]))
    for name in strategies:
        if name != PRIORITY:
            check_policy(name)
    try:
        platform = cut_down(catalogs.platform(setup.platform), setup.cores)
        services, _ = tenants_of(setup.applications, platform)
    except CatalogError as error:
        raise InputError(str(error)) from None
    pairs = list(permutations(setup.applications, 2))
    done: list[Combination] = []
    failed: list[FailedPair] = []
    known: dict[tuple[str, frozenset[str]], Settled | str] = {}
    for number, (strategy, (high, low)) in enumerate((s, p) for s in strategies for p in pairs):
        if progress is not None:
            progress(number, len(strategies) * len(pairs))
        if strategy == PRIORITY:
            found: Settled | str = _run(setup, platform, (high, low), strategy)
        else:
            key = strategy, frozenset((high, low))
            if key not in known:
                known[key] = _guarded(setup, platform, (high, low), strategy)
            found = known[key]
        if isinstance(found, str):
            failed.append(FailedPair(high, low, strategy, found))
            continue
        jobs = found.work_gips if setup.be_measure == "work" else found.ipcs
        done.append(Combination(high, low, strategy, found, found.tails_ms | jobs))
    return Results(
        setup,
        done,
        failed,
        frozenset(s.name for s in services),
        {s.name: ideal_ms(platform, s, setup.load) for s in services},
        {s.name: s.target_ms for s in services},
        [s.scaled for s in services if s.scaled],
    )


def _guarded(setup: Setup, platform: PlatformModel, pair: tuple[str, str], strategy: str) -> Settled | str:
    """The run, or in one line why a policy could not do it: policies are plug-ins, and anything can go wrong in one."""
    try:
        return _run(setup, platform, pair, strategy)
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
