"""One node under one contender, hour by hour, judged without the noise of measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from osml.allocation.policy import Policy
from osml.lab.bench.episode import Row
from osml.lab.bench.judge import Judge, Judged
from osml.lab.studies.day.learner import LearningOsml
from osml.lab.studies.day.nodes import CHANGES_S
from osml.policies.osml.answers.models import shipped_models
from osml.simulator.closed_loop import ClosedLoop
from osml.simulator.surface import solo_speed
from osml.simulator.variation.draw import Variant
from osml.simulator.variation.loads import changing_loads

HOUR = 3600
REFIT = 600
"""Intervals between two fits of the learning Model-C'."""

LEARNING, FROZEN, WITHOUT, DQN, STAFFING = "osml, learning", "osml", "osml:ab", "osml:dqn", "staffing:climb"
CONTENDERS = (LEARNING, FROZEN, DQN, WITHOUT, STAFFING)
"""Model-C' learns on, Model-C' as shipped, Model-C in its place, no corrector, and the simplest policy."""


def hours(variant: Variant, contender: str, noise: int, count: int, hour: int = HOUR) -> Iterator[Row]:
    """A row an hour: shares of missed targets, mean E_S, cores and ways in use, changes and those of Model-C or C'."""
    policy = _policy(contender, variant.node.platform.id)
    loop = ClosedLoop(
        variant.node, changing_loads(variant, count * hour, CHANGES_S), policy, seed=variant.seed + 10_000 * noise,
        delay_s=0.1, drift=variant.drift, sensors=variant.sensors,
    )  # fmt: skip
    judge = Judge(variant.node, [solo_speed(variant.node.platform, job) for job in variant.node.jobs])
    for number in range(count):
        judged: list[Judged] = []
        corrected = 0
        for _ in range(hour):
            loads = loop.loads_now()
            interval = loop.step()
            judged.append(judge(interval, loads))
            reasons = interval.decision.reasons if interval.decision else []
            corrected += judged[-1].changed and any("Model-C" in reason.text for reason in reasons)
        row = _row(judged) | {"seed": variant.seed, "noise": noise, "contender": contender, "hour": number}
        learned = policy.outlook.labels if isinstance(policy, LearningOsml) else 0
        yield row | {"corrected": corrected, "labels": learned}


def whole_run(variant: Variant, contender: str, noise: int, count: int) -> list[Row]:
    """All hours of one node under one contender."""
    return [row | {"hours": count} for row in hours(variant, contender, noise, count)]


def _policy(contender: str, platform: str) -> str | Policy:
    return LearningOsml(shipped_models(platform), REFIT) if contender == LEARNING else contender


def _row(judged: list[Judged]) -> Row:
    def mean(of: Callable[[Judged], float]) -> float:
        return sum(of(one) for one in judged) / len(judged)

    return {
        "missed": sum(one.missed for one in judged) / sum(one.targets for one in judged),
        "e_s": mean(lambda one: one.e_s or 0.0),
        "cores": mean(lambda one: one.used[0]),
        "ways": mean(lambda one: one.used[1]),
        "changes": sum(one.changed for one in judged),
    }
