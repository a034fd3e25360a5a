"""What the DIP experiment shows: the three observations of Ah-Q section VIII, and the abilities of each strategy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median

from osml.lab.theory.abilities import (
    Abilities,
    Changes,
    changes,
    mean_abilities,
    relative_gain,
    tolerance_ability,
    uncertainty,
)
from osml.lab.theory.experiments.dip_experiment import (
    APPLICATIONS,
    EVEN,
    PRIORITY,
    SHARED,
    Combination,
    Results,
    Setup,
)

SAME = 0.001
"""Relative change that counts as none: the solver's own precision is 1e-4."""


@dataclass(frozen=True)
class Published:
    """A number of the paper beside ours."""

    text: str
    published_pct: float
    ours_pct: float | None
    note: str


@dataclass(frozen=True)
class StrategyReport:
    """One strategy against Shared.

    `cores` and `ways` are the abilities that its grants show, over the pairs with an LC service. Measured:
    `uncertainties` by application (figure 14) and how many of them are below Shared's (observation 1); performance
    against Shared of all applications, of those with the high priority in all pairs and in those where no BE job
    outranks an LC service, and of LC services beside BE jobs (observation 2); utilisation against Shared's (observation
    3, "better" is higher). `computable_pct` is the share of LC services whose tail latency meets the target (PC of
    section II).
    """

    strategy: str
    cores: Abilities
    ways: Abilities
    uncertainties: dict[str, float | None]
    steadier: Changes
    uncertainty_ratio: float | None
    applications: Changes
    high: Changes
    high_critical_first: Changes
    lc_beside_be: Changes
    utilisation: Changes
    utilisation_median: float
    computable_pct: float | None


@dataclass(frozen=True)
class DipReport:
    """All strategies, TA of the LC services (equation 1), and the paper's numbers beside ours."""

    tolerance_ability: float
    tolerances: dict[str, float]
    strategies: list[StrategyReport]
    published: list[Published]


def caption_performances(results: Results, strategy: str, application: str) -> list[float]:
    """Performance over all co-runners as in figure 13: LC services with the high priority, BE jobs with the low one."""
    lc = application in results.lc
    return [
        c.performance[application] for c in results.of(strategy).values() if application == (c.high if lc else c.low)
    ]


def _uncertainties(results: Results, strategy: str) -> dict[str, float | None]:
    return {name: uncertainty(caption_performances(results, strategy, name)) for name in results.setup.applications}


def _gain(results: Results, before: Combination, after: Combination, name: str) -> float:
    return relative_gain(before.performance[name], after.performance[name], smaller_is_better=name in results.lc)


def _granted(results: Results, found: list[Combination], strategy: str, resource: str) -> Abilities:
    """Mean over the pairs with an LC service (all pairs where there is none): others leave a policy nothing to protect.

    PA over those of them where somebody is the more critical.
    """
    served = [c for c in found if c.high in results.lc or c.low in results.lc] or found
    every = mean_abilities([getattr(c.settled, resource) for c in served])
    unequal: list[Abilities] = [
        getattr(c.settled, resource)
        for c in served
        if strategy == PRIORITY or (c.high in results.lc) != (c.low in results.lc)
    ]
    return replace(every, pa=mean_abilities(unequal).pa if unequal else 0.0)


def _report(results: Results, strategy: str) -> StrategyReport | None:
    shared, own = results.of(SHARED), results.of(strategy)
    both = [(shared[pair], own[pair]) for pair in own if pair in shared]
    if not both:
        return None
    before, after = _uncertainties(results, SHARED), _uncertainties(results, strategy)
    ratios = [a / b for name, b in before.items() if b and (a := after[name]) is not None]
    first = [(b, a) for b, a in both if results.with_critical_first(a.high, a.low)]
    mixed = [(b, a) for b, a in both if a.high in results.lc and a.low not in results.lc]
    tails = [c.settled.tails_ms[name] <= results.targets_ms[name] for c in own.values() for name in c.settled.tails_ms]
    return StrategyReport(
        strategy,
        _granted(results, list(own.values()), strategy, "cores"),
        _granted(results, list(own.values()), strategy, "ways"),
        after,
        changes([1.0 - ratio for ratio in ratios], SAME),
        median(ratios) if ratios else None,
        changes([_gain(results, b, a, name) for b, a in both for name in (a.high, a.low)], SAME),
        changes([_gain(results, b, a, a.high) for b, a in both], SAME),
        changes([_gain(results, b, a, a.high) for b, a in first], SAME),
        changes([_gain(results, b, a, a.high) for b, a in mixed], SAME),
        changes([a.settled.utilisation / b.settled.utilisation - 1.0 for b, a in both], SAME),
        median(a.settled.utilisation for _, a in both),
        100.0 * sum(tails) / len(tails) if tails else None,
    )


def observe(results: Results) -> DipReport:
    """The report on an experiment. Strategies that failed on every pair are left out.

    The paper's numbers stand beside an experiment of its platform, cores and applications alone.
    """
    names = list(dict.fromkeys(c.strategy for c in results.combinations))
    reports = [found for name in names if (found := _report(results, name)) is not None]
    by_name = {report.strategy: report for report in reports}
    published: list[Published] = []
    setup = results.setup
    is_papers = (setup.platform, setup.cores, setup.applications) == (Setup.platform, Setup.cores, APPLICATIONS)
    if is_papers and EVEN in by_name and PRIORITY in by_name:
        even, priority = by_name[EVEN], by_name[PRIORITY]
        published = [
            Published("Even improves applications", 50.9, even.applications.better_pct, _counts(even.applications)),
            Published("RR improves those of high priority", 94.2, priority.high.better_pct, _counts(priority.high)),
            Published(
                "  without BE above LC",
                94.2,
                priority.high_critical_first.better_pct,
                _counts(priority.high_critical_first),
            ),
            Published("Even lowers CPU utilisation", 96.4, even.utilisation.worse_pct, _counts(even.utilisation)),
        ]
    tolerances = {
        name: tolerance_ability([(ideal, results.targets_ms[name])]) for name, ideal in results.ideals_ms.items()
    }
    return DipReport(sum(tolerances.values()), tolerances, reports, published)


def _counts(found: Changes) -> str:
    return f"{found.better} up, {found.same} same, {found.worse} down of {found.total}"
