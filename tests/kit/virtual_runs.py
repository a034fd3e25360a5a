"""A mix under a policy on the virtual node, judged interval by interval. Simulated."""

from __future__ import annotations

from osml.lab.bench.judge import Judge
from osml.lab.bench.scenario import Scenario
from osml.simulator.closed_loop import ClosedLoop
from osml.simulator.mix import Mix, parse_mix
from osml.simulator.surface import solo_speed

PLATFORM = "e5-2697v4"


def run_mix(mix: str | Mix, policy: str, seconds: float, platform: str = PLATFORM, interval_s: float = 1.0, **more):
    scenario = Scenario("t", "t", parse_mix(mix) if isinstance(mix, str) else mix, platform, **more)
    loop = ClosedLoop(scenario.node, scenario.loads, policy, interval_s=interval_s, seed=5, delay_s=0.1)
    judge = Judge(scenario.node, [solo_speed(scenario.node.platform, job) for job in scenario.node.jobs])
    judged = []
    for _ in range(round(seconds / interval_s)):
        loads = loop.loads_now()
        judged.append(judge(loop.step(), loads))
    return judged, loop
