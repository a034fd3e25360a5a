"""RLlib against the plain loop: the same network, environment, settings and seeds. It also checks RLlib's set-up.

    python -m osml_training.rllib.comparison

prints decisions/s of both and what their greedy policies are worth. Simulated; the budget is small.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from osml.lab.bench.report.statistics import mean, median
from osml.simulator.colocation.config import EnvironmentConfig  # before HOME changes: the machine code is in it
from osml_training.dqn.qnet import QNet
from osml_training.dqn.state import STATE
from osml_training.online_dqn.config import OnlineConfig
from osml_training.online_dqn.environment import ServiceSteps, states_of
from osml_training.online_dqn.evaluate import Evaluation, evaluate_greedy
from osml_training.online_dqn.loop import Progress, learn_online
from osml_training.train.scaling import scaling_by

Learn = Callable[[QNet, OnlineConfig], Progress]

CONFIG = OnlineConfig(
    envs=64,
    batch=256,
    replay_ratio=1.0,
    min_services=4,
    max_services=4,
    steps=20_000,
    learning_starts=1000,
    target_sync=2000,
    capacity=50_000,
    epsilon=((0, 1.0), (10_000, 0.05)),
    offline_share=0.0,
)
"""Four services on every node, so that there are no empty places, which RLlib would learn from and the loop not."""


def new_net(config: OnlineConfig, seed: int) -> QNet:
    """Untrained, scaled by what a node that nobody manages shows."""
    env = ServiceSteps(1024, **config.environment())
    seen, _ = env.reset(seed=0)
    return QNet(scaling_by(states_of(seen["observations"][env.present]), STATE, masked=True), seed=seed)


def learned(
    learn: Learn, config: OnlineConfig, seeds: Sequence[int], episodes: int
) -> tuple[list[Progress], list[Evaluation]]:
    """Where each seed came to, and what its greedy policy is worth."""
    ends: list[Progress] = []
    found: list[Evaluation] = []
    for seed in seeds:
        net = new_net(config, seed)
        ends.append(learn(net, msgspec.structs.replace(config, seed=seed)))
        found.append(evaluate_greedy(net, config.platform, range(episodes), min_services=config.min_services))
        print(
            f"seed {seed}: {ends[-1].steps / ends[-1].seconds:.0f} decisions/s, E_S {found[-1].e_s.mean():.3f}",
            file=sys.stderr,
            flush=True,
        )
    return ends, found


def compared(config: OnlineConfig = CONFIG, seeds: Sequence[int] = range(5), episodes: int = 200) -> dict[str, Any]:
    """Both ways in turn. `difference` is RLlib less loop, over the training seeds: 0 lies in its 95 % interval where
    both learn the same.
    """
    from osml_training.rllib.learn import learn_on_rllib, start_ray  # noqa: PLC0415 - Ray may be missing

    cluster = start_ray("local", 1)
    try:
        _, before = learned(lambda net, config: Progress(1, 0, 0, 0.0, 0.0, 0.0, 0.0, 1.0), config, seeds, episodes)
        ends, loop = learned(learn_online, config, seeds, episodes)
        their_ends, theirs = learned(learn_on_rllib, config, seeds, episodes)
    finally:
        cluster.shutdown()
    document: dict[str, Any] = {"simulated": True, "config": msgspec.to_builtins(config), "seeds": len(seeds)}
    for name, steps in (("loop", ends), ("rllib", their_ends)):
        document[f"{name}_decisions_per_s"] = median([end.steps / end.seconds for end in steps])._asdict()
        document[f"{name}_updates"] = [end.updates for end in steps]
    for metric in ("reward", "e_s", "met"):
        values = {
            name: [float(getattr(one, metric).mean()) for one in found]
            for name, found in (("untrained", before), ("loop", loop), ("rllib", theirs))
        }
        document[metric] = {name: mean(given)._asdict() for name, given in values.items()} | {
            "difference": welch(values["rllib"], values["loop"]),
            "by_seed": values,
        }
    return document


def welch(ours: Sequence[float], other: Sequence[float]) -> dict[str, float]:
    """Mean of `ours` less that of `other`, and its 95 % interval by Welch's t: the seeds are no pairs, as each way
    draws its own random numbers from them.
    """
    from scipy import stats  # noqa: PLC0415

    tests: Any = stats
    found = tests.ttest_ind(ours, other, equal_var=False)
    low, high = found.confidence_interval(0.95)
    return {"value": float(np.mean(ours) - np.mean(other)), "low": float(low), "high": float(high)}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m osml_training.rllib.comparison", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="trainings per method (default 5)")
    parser.add_argument(
        "--steps", type=int, default=CONFIG.steps, help=f"decisions per training (default {CONFIG.steps})"
    )
    parser.add_argument("--ratio", type=float, default=1.0, help="replayed tuples per new tuple (default 1)")
    parser.add_argument("--episodes", type=int, default=200, help="episodes per evaluation (default 200)")
    parser.add_argument(
        "--out", type=Path, default=Path("out/online-comparison.json"), help="file for the results as JSON"
    )
    told = parser.parse_args(arguments)
    config = msgspec.structs.replace(CONFIG, steps=told.steps, replay_ratio=told.ratio).checked()
    EnvironmentConfig()  # everything is compiled by now
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "ray_results").mkdir()
        os.environ["HOME"] = home  # Ray leaves a folder there for every algorithm
        document = compared(config, range(told.seeds), told.episodes)
    told.out.parent.mkdir(parents=True, exist_ok=True)
    told.out.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
    for name in ("loop_decisions_per_s", "rllib_decisions_per_s"):
        print(f"{name:24} {document[name]['value']:10.0f}")
    for metric in ("reward", "e_s", "met"):
        for name, one in document[metric].items():
            if name != "by_seed":
                print(f"{metric:8} {name:12} {one['value']:8.4f} [{one['low']:.4f}, {one['high']:.4f}]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
