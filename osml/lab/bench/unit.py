"""The unit of work of the bench: one scenario under all policies and seeds. It runs in any process of any machine."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from osml.lab.bench.episode import Row, run_episode
from osml.lab.bench.feasible import Feasible, asked
from osml.lab.bench.oracle_policy import Answers
from osml.lab.bench.scenario import Scenario

Case = tuple[str, int]
"""Policy and seed."""


@dataclass(frozen=True)
class Done:
    """Rows of a unit, those of its timelines, and what went wrong where something did."""

    index: int
    rows: list[Row] = field(default_factory=list[Row])
    timeline: list[Row] = field(default_factory=list[Row])
    failure: str | None = None


def run_unit(index: int, scenario: Scenario, cases: Sequence[Case], ask_oracle: bool = True) -> Done:
    """Run a scenario for these cases. What a policy does wrong is in its rows; `failure` is a fault of the bench.

    Without `ask_oracle` nobody asks whether the mix can be satisfied (unless a policy is the oracle).
    """
    rows: list[Row] = []
    timeline: list[Row] = []
    answers = Answers()
    try:
        wanted = ask_oracle and scenario.constant and scenario.search is None and scenario.domains == 1
        answer = (asked(scenario, answers) if wanted else Feasible(None)).row
        for policy, seed in cases:
            episode = run_episode(scenario, policy, noise_seed(scenario, seed), answers)
            who = {"policy": policy, "seed": seed}
            rows.append(episode.row | answer | who | {"case": index})
            timeline += [
                {"case": index, "mix": scenario.name, "part": scenario.part} | who | one for one in episode.timeline
            ]
    except Exception as error:
        return Done(index, rows, timeline, f"{type(error).__name__}: {error}")
    return Done(index, rows, timeline)


def noise_seed(scenario: Scenario, seed: int) -> int:
    """The same for all policies: same arrivals, same noise; another one for every mix."""
    return (seed << 32) | zlib.crc32(scenario.noise.encode())


def missing_cases(policies: Sequence[str], seeds: int, done: Collection[Case]) -> list[Case]:
    """Cases that are still to be run, policy by policy."""
    return [(policy, seed) for policy in policies for seed in range(seeds) if (policy, seed) not in done]
