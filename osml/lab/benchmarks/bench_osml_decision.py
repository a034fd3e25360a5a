"""One decision of the policy `osml` for four services, as the server makes it: check, features, models, layout."""
# pyright: basic

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from time import perf_counter, thread_time_ns

from osml.decide import decide as front_door
from osml.decide.decide import decide
from osml.domain import Decision, Observation
from osml.lab.benchmarks.harness import take
from osml.predictors import feature_rows
from osml.simulator.closed_loop import ClosedLoop
from osml.simulator.mix import node_of, parse_mix

_MIX = "moses=0.3,img-dnn=0.3,xapian=0.3,masstree=0.3"
_INTERVALS, _CALLS = 40, 2_000


def run() -> None:
    """Median and 99th percentile over the intervals of a run, where most change nothing; and with every layout new."""
    seen = _observations()
    known = _microseconds(seen, decide)
    take("osml_decision_median", "us/decision", lambda: statistics.median(known()))
    take("osml_decision_p99", "us/decision", lambda: statistics.quantiles(known(), n=100)[98])
    cpu = _microseconds(seen, decide, lambda: thread_time_ns() / 1e9)  # without what others do on the machine
    take("osml_decision_cpu_median", "us/decision", lambda: statistics.median(cpu()))
    take("osml_decision_cpu_p99", "us/decision", lambda: statistics.quantiles(cpu(), n=100)[98])
    take("osml_decision_new_layout", "us/decision", lambda: statistics.median(_microseconds(seen, _laid_out_anew)()))
    from osml.policies.osml.answers.models import shipped_models  # noqa: PLC0415 - needs onnxruntime

    models = shipped_models("e5-2697v4")
    if models.a2 is not None:
        names = [service.name for service in seen[-1].services]
        inputs, model = models.a2.metadata.inputs, models.a2
        take("osml_features_4", "us", lambda: _median(partial(feature_rows, seen[-1], names, inputs)))
        rows = feature_rows(seen[-1], names, inputs)
        take("osml_answer_a2_4", "us", lambda: _median(lambda: model.predict(rows)))


def _observations() -> list[Observation]:
    """What the policy sees in a run of the virtual node."""
    found: list[Observation] = []
    mix = parse_mix(_MIX)
    loop = ClosedLoop(node_of(mix, "e5-2697v4"), mix.loads, "osml", seed=3, delay_s=0.1)

    def watched(observation: Observation, seed: int = 0) -> Decision:
        found.append(observation)
        return decide(observation, seed=seed)

    setattr(loop, "_decide", watched)  # noqa: B010 - the only door to what a loop observes
    loop.run(_INTERVALS)
    return found


def _microseconds(
    seen: list[Observation], work: Callable[[Observation], object], clock: Callable[[], float] = perf_counter
) -> Callable[[], list[float]]:
    def sample() -> list[float]:
        times: list[float] = []
        for i in range(_CALLS):
            start = clock()
            work(seen[i % len(seen)])
            times.append((clock() - start) * 1e6)
        return times

    return sample


def _laid_out_anew(observation: Observation) -> Decision:
    front_door._layouts.clear()
    return decide(observation)


def _median(work: Callable[[], object]) -> float:
    times: list[float] = []
    for _ in range(_CALLS):
        start = perf_counter()
        work()
        times.append((perf_counter() - start) * 1e6)
    return statistics.median(times)
