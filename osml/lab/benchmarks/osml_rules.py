"""What each rule and each model of the policy `osml` is worth: the same mixes without it.

python -m osml.lab.benchmarks.osml_rules [--json docs/results/osml-rules.json] [--workers 2] [--without RULE,RULE]

Simulated. Every third mix of osml-302 and of osml-changes, every fourth of osml-jobs, all scripts of osml-arrivals,
every fifth mix of osml-mismatch, none of the fresh parts; one seed, at most 120 s, with the levers of the agent. Worth
is the change of E_S and of missed targets where a rule is left out, with the 90 % interval of its mean over the mixes.
`--without` leaves some rules out of all.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from osml.lab.bench.judge import Judge, Judged
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suites import osml_302, osml_arrivals, osml_changes, osml_jobs, osml_mismatch
from osml.lab.bench.unit import noise_seed
from osml.policies.osml import Osml, OsmlDqn
from osml.policies.osml.rules import RULES
from osml.simulator.closed_loop import ClosedLoop
from osml.simulator.surface import solo_speed

_EVERY = {"osml-302": 3, "osml-changes": 3, "osml-jobs": 4, "osml-arrivals": 1, "osml-mismatch": 5}
_SEED, _LIMIT_S = 0, 120.0
_Z90 = 1.645

MODELS = {"Model-A'": "a2", "Model-A": "a", "Model-C'": "c2"}


class Worth(NamedTuple):
    """Of one mix: mean E_S, and the share of targets missed over services and intervals."""

    e_s: float
    missed: float


class Change(NamedTuple):
    """What the mean over the mixes of a suite gains with a part, and half of the 90 % interval of that."""

    e_s: float
    e_s_error: float
    missed: float
    missed_error: float


def scenarios() -> dict[str, list[Scenario]]:
    """The mixes by suite."""
    found: dict[str, list[Scenario]] = {}
    for module in (osml_302, osml_changes, osml_jobs, osml_arrivals, osml_mismatch):
        suite = module.SUITE
        mixes = [one for one in suite.scenarios() if one.search is None and not one.part.startswith(osml_302.FRESH)]
        found[suite.name] = mixes[:: _EVERY[suite.name]]
    return found


def _missed(scenario: Scenario, judged: Judged) -> float:
    """Share of the services that are there which miss their target."""
    tails = zip(judged.tails_ms, scenario.node.services, judged.loads, strict=True)
    there = [tail > service.target_ms for tail, service, load in tails if not math.isnan(load)]
    return statistics.fmean(there) if there else 0.0


def run(without: tuple[str, ...], kinds: tuple[str, ...], scenario: Scenario) -> Worth:
    """One mix without some rules, with these kinds of models."""
    node = scenario.node
    policy = Osml(without=without)
    policy.kinds = kinds
    loop = ClosedLoop(
        node,
        scenario.loads,
        policy,
        seed=noise_seed(scenario, _SEED),
        delay_s=scenario.delay_s,
        tolerant=True,
        **scenario.varied,
    )
    judge = Judge(node, [solo_speed(node.platform, job) for job in scenario.jobs], loop.platform.mba)
    judged: list[Judged] = []
    for _ in range(round(min(scenario.limit_s, _LIMIT_S) / scenario.interval_s)):
        loads = loop.loads_now()
        judged.append(judge(loop.step(), loads))
    entropies = [one.e_s for one in judged if one.e_s is not None and not math.isnan(one.e_s)]
    return Worth(statistics.fmean(entropies), statistics.fmean([_missed(scenario, one) for one in judged]))


def change(with_it: Sequence[Worth], without_it: Sequence[Worth]) -> Change:
    """What a part gains: above 0 where E_S and misses are higher without it. Both have the same mixes, in order."""
    pairs = list(zip(with_it, without_it, strict=True))
    e_s = [after.e_s - before.e_s for before, after in pairs]
    missed = [after.missed - before.missed for before, after in pairs]
    return Change(statistics.fmean(e_s), _error(e_s), statistics.fmean(missed), _error(missed))


def _error(differences: Sequence[float]) -> float:
    return _Z90 * statistics.stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else math.nan


def in_words(gain: Change) -> str:
    """A part's worth on some mixes."""
    e_s = f"E_S {gain.e_s:+.4f} ± {gain.e_s_error:.4f}"
    return f"{e_s}, misses {100.0 * gain.missed:+.1f} ± {100.0 * gain.missed_error:.1f} points"


def main() -> None:
    """Print the table, or write it as a document for the page of rules."""
    parser = argparse.ArgumentParser(prog="osml.lab.benchmarks.osml_rules", description=__doc__)
    parser.add_argument("--json", type=Path, help="write the document there")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--without", default="", help="rules, comma-separated")
    parser.add_argument("--only", default="", help="rules and models to measure, comma-separated; others are not")
    given = parser.parse_args()
    base = tuple(name for name in given.without.split(",") if name)
    parts = {rule.name: ((*base, rule.name), Osml.kinds) for rule in RULES if rule.name not in base}
    parts |= {model: (base, tuple(k for k in Osml.kinds if k != kind)) for model, kind in MODELS.items()}
    parts["Model-C in place of Model-C'"] = (base, OsmlDqn.kinds)
    if given.only:
        parts = {name: parts[name] for name in given.only.split(",")}
    mixes = scenarios()
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(given.workers) as pool:
        every = {suite: list(pool.map(partial(run, base, Osml.kinds), found)) for suite, found in mixes.items()}
        for suite, worths in every.items():
            e_s, missed = statistics.fmean(w.e_s for w in worths), statistics.fmean(w.missed for w in worths)
            print(f"{suite}: {len(worths)} mixes, E_S {e_s:.4f}, missed {100.0 * missed:.1f} %", flush=True)
        for name, (without, kinds) in parts.items():
            others = {suite: list(pool.map(partial(run, without, kinds), found)) for suite, found in mixes.items()}
            gains = {suite: change(every[suite], other) for suite, other in others.items()}
            gains["all"] = change([*chain(*every.values())], [*chain(*others.values())])
            words = {suite: in_words(gain) for suite, gain in gains.items()}
            rows.append({"of": name, "ours": words.pop("all"), "by_suite": words})
            print(f"without {name}: {rows[-1]}", flush=True)
    if given.json is not None:
        document = {
            "kind": "simulated",
            "command": "python -m osml.lab.benchmarks.osml_rules",
            "date": date.today().isoformat(),
            "mixes": {suite: len(found) for suite, found in mixes.items()},
            "limit_s": _LIMIT_S,
            "rows": rows,
        }
        given.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
