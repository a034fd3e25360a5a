"""What each rule of the policy `osml` is worth: the same mixes without it.

python -m osml.lab.benchmarks.osml_rules [--json docs/results/osml-rules.json] [--workers 2]

Simulated. Every tenth mix of osml-302, every fourth of osml-jobs, all scripts of osml-arrivals; one seed, 60 s and
120 s, with the levers of the agent. A rule is worth the change of E_S and of missed targets when it is left out.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from osml.lab.bench.judge import Judge, Judged
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suites import osml_302, osml_arrivals, osml_jobs
from osml.policies.osml import Osml
from osml.policies.osml.rules import RULES
from osml.simulator.closed_loop import ClosedLoop
from osml.simulator.surface import solo_speed

_EVERY = {"osml-302": 10, "osml-jobs": 4, "osml-arrivals": 1}
_SEED, _LIMIT_S = 0, 120.0


class Worth(NamedTuple):
    """Means over the mixes of a suite: E_S, and the share of targets missed over services and intervals."""

    e_s: float
    missed: float


def scenarios() -> dict[str, list[Scenario]]:
    """The mixes by suite."""
    found: dict[str, list[Scenario]] = {}
    for module in (osml_302, osml_jobs, osml_arrivals):
        suite = module.SUITE
        mixes = [scenario for scenario in suite.scenarios() if scenario.search is None]
        found[suite.name] = mixes[:: _EVERY[suite.name]]
    return found


def _missed(scenario: Scenario, judged: Judged) -> float:
    """Share of the services that are there which miss their target."""
    tails = zip(judged.tails_ms, scenario.node.services, judged.loads, strict=True)
    there = [tail > service.target_ms for tail, service, load in tails if not math.isnan(load)]
    return statistics.fmean(there) if there else 0.0


def run(without: tuple[str, ...], scenario: Scenario) -> Worth:
    """One mix without some rules."""
    node = scenario.node
    loop = ClosedLoop(node, scenario.loads, Osml(without=without), seed=_SEED, delay_s=scenario.delay_s)
    judge = Judge(node, [solo_speed(node.platform, job) for job in node.jobs], loop.platform.mba)
    judged: list[Judged] = []
    for _ in range(round(min(scenario.limit_s, _LIMIT_S) / scenario.interval_s)):
        loads = loop.loads_now()
        judged.append(judge(loop.step(), loads))
    entropies = [one.e_s for one in judged if one.e_s is not None and not math.isnan(one.e_s)]
    return Worth(statistics.fmean(entropies), statistics.fmean([_missed(scenario, one) for one in judged]))


def mean(found: Iterable[Worth]) -> Worth:
    """The mean over mixes."""
    rows = list(found)
    return Worth(statistics.fmean(row.e_s for row in rows), statistics.fmean(row.missed for row in rows))


def in_words(suite: str, with_it: Worth, without_it: Worth) -> str:
    """A rule's worth on one suite: what is higher without it."""
    e_s, missed = without_it.e_s - with_it.e_s, 100.0 * (without_it.missed - with_it.missed)
    return f"{suite}: E_S {e_s:+.4f}, misses {missed:+.1f} points"


def main() -> None:
    """Print the table, or write it as a document for the page of rules."""
    parser = argparse.ArgumentParser(prog="osml.lab.benchmarks.osml_rules", description=__doc__)
    parser.add_argument("--json", type=Path, help="write the document there")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    mixes = scenarios()
    rows: list[dict[str, str]] = []
    with ProcessPoolExecutor(given.workers) as pool:
        every = {suite: mean(pool.map(partial(run, ()), found)) for suite, found in mixes.items()}
        for suite, worth in every.items():
            print(f"{suite}: E_S {worth.e_s:.4f}, missed {100.0 * worth.missed:.1f} %", flush=True)
        for rule in RULES:
            parts = [
                in_words(suite, every[suite], mean(pool.map(partial(run, (rule.name,)), found)))
                for suite, found in mixes.items()
            ]
            rows.append({"of": rule.name, "ours": "; ".join(parts)})
            print(f"without {rule.name}: {rows[-1]['ours']}", flush=True)
    if given.json is not None:
        document = {"kind": "simulated", "command": "python -m osml.lab.benchmarks.osml_rules", "rows": rows}
        given.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
