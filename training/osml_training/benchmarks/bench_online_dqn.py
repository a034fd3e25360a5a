"""Model-C online: environment steps a second of the plain loop, sampling and learning on one core; RLlib beside it.

An environment step is an interval of a node, in which each of its services (2.5 in the mean) decides. The replay ratio
is how many tuples are learned from for each one that is made.
"""

# ruff: noqa: PLC0415 - torch and Ray may be missing

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from osml.base.extras import how_to_install
from osml.lab.benchmarks.harness import take

_STEPS = 150_000
_RLLIB_STEPS = 4_000


def _loop() -> None:
    import msgspec

    from osml_training.online_dqn.config import OnlineConfig
    from osml_training.online_dqn.loop import Progress, learn_online
    from osml_training.rllib.comparison import CONFIG, new_net

    base = OnlineConfig(learning_starts=1000)

    def figure(config: OnlineConfig, value: Callable[[Progress], float]) -> Callable[[], float]:
        net = new_net(config, 0)
        return lambda: value(learn_online(net, config))

    for ratio in (1.0, 4.0):
        config = msgspec.structs.replace(base, steps=_STEPS, replay_ratio=ratio)
        sample = figure(config, lambda end: end.intervals / end.seconds)
        take(f"online_dqn_ratio_{ratio:g}", "environment steps/s", sample, runs=3)
    small = msgspec.structs.replace(CONFIG, steps=_STEPS // 5)
    take("online_dqn_as_rllib", "decisions/s", figure(small, lambda end: end.steps / end.seconds), runs=3)


def _rllib() -> None:
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "ray_results").mkdir()
        os.environ["HOME"] = home  # Ray leaves a folder there for every algorithm; its path is fixed by the import
        import msgspec

        from osml_training.rllib.comparison import CONFIG, new_net
        from osml_training.rllib.learn import learn_on_rllib, start_ray

        cluster = start_ray("local", 1)
        config = msgspec.structs.replace(CONFIG, steps=_RLLIB_STEPS)

        def sample() -> float:
            end = learn_on_rllib(new_net(config, 0), config)
            return end.steps / end.seconds

        take("online_dqn_rllib", "decisions/s", sample, runs=3)
        cluster.shutdown()


def run() -> None:
    """The loop at two replay ratios, the loop as RLlib is set, RLlib."""
    if find_spec("torch") is None or find_spec("osml_training") is None or find_spec("gymnasium") is None:
        print("online DQN: skipped, torch or gymnasium is not installed")
        return
    _loop()
    if find_spec("ray") is None:
        print(f"RLlib: skipped, Ray is not installed: {how_to_install('ray', package='osml-training')}")
        return
    _rllib()
