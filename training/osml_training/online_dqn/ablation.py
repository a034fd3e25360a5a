"""Ablation of Model-C on the virtual node: reward, offline and online learning, and the start that Model-A' gives.

    python -m osml_training.online_dqn.ablation out/data/e5-alone out/data/e5-beside

prints a table for docs/reference/model-c.md and writes the figures as JSON. Everything is simulated.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from osml.lab.bench.report.statistics import Estimate, mean
from osml.predictors import find_model, load_predictor, models_folder
from osml.predictors.actions import NO_CHANGE
from osml_training.dqn import offline as fitted
from osml_training.dqn.config import read_offline_config, shipped_offline_config
from osml_training.dqn.export import load_qnet
from osml_training.dqn.qnet import QNet
from osml_training.dqn.rewards import Reward
from osml_training.dqn.transitions import Transitions, Tuples, sample_tuples, transitions_of
from osml_training.online_dqn.config import OnlineConfig, read_online_config
from osml_training.online_dqn.evaluate import Evaluation, better, evaluate_greedy
from osml_training.online_dqn.learner import Policy
from osml_training.online_dqn.loop import Progress, learn_online
from osml_training.online_dqn.starts import model_a_starts
from osml_training.train.splits import part_of

COLUMNS = {
    "e_s": ("mean E_S", 1, 3), "met": ("all targets met, %", 100, 1), "met_late": ("in the last third, %", 100, 1),
    "cores": ("cores, %", 100, 0), "ways": ("ways, %", 100, 0), "falls_per_10000": ("falls / 10,000", 1, 1),
}  # fmt: skip
"""Metric of `Evaluation.summary`: heading, factor, digits."""


class Row(NamedTuple):
    """One line of the table: a policy for each training seed, and the evaluations of each from both starts."""

    name: str
    even: list[Evaluation]
    from_a: list[Evaluation]


def hold(states: Any, legal: Any) -> Any:
    """Never changes anything."""
    return np.full(len(states), NO_CHANGE)


def at_random(seed: int) -> Policy:
    """A random legal action."""
    rng = np.random.default_rng(seed)
    return lambda states, legal: np.where(legal > 0, rng.random(legal.shape), -1.0).argmax(axis=1)


def pooled(found: Sequence[Evaluation], metric: str) -> Estimate:
    """Mean over episodes and training seeds, with its interval: an episode stays together with itself."""
    if metric == "falls_per_10000":
        downward = max(sum(float(one.downward.sum()) for one in found), 1.0)
        scale = 10_000 * len(found) * len(found[0].falls) / downward
        return mean({k: [float(one.falls[k]) * scale for one in found] for k in range(len(found[0].falls))})
    return mean({k: [float(getattr(one, metric)[k]) for one in found] for k in range(len(found[0].e_s))})


def table(rows: Sequence[Row]) -> str:
    """Markdown: for each row a line for each start."""
    lines = ["| learned | start | " + " | ".join(name for name, _, _ in COLUMNS.values()) + " |"]
    lines.append("|---|---" + "|---" * len(COLUMNS) + "|")
    for row in rows:
        for start, found in (("even", row.even), ("A'", row.from_a)):
            cells: list[str] = []
            for metric, (_, factor, digits) in COLUMNS.items():
                one = pooled(found, metric)
                value, low, high = (f"{factor * x:.{digits}f}" for x in one[:3])
                cells.append(f"{value} [{low}, {high}]")
            lines.append(f"| {row.name} | {start} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def figures(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The same as numbers, and the mean E_S of each training seed."""
    out: list[dict[str, Any]] = []
    for row in rows:
        for start, found in (("even", row.even), ("a2", row.from_a)):
            metrics = {metric: pooled(found, metric)._asdict() for metric in COLUMNS}
            by_seed = [float(one.e_s.mean()) for one in found]
            out.append({"learned": row.name, "start": start, "e_s_by_training_seed": by_seed} | metrics)
    return out


class Ablation:
    """Learns and evaluates, one row after the other."""

    def __init__(
        self,
        data: Sequence[Path],
        config: OnlineConfig,
        *,
        seeds: int,
        episodes: int,
        updates: int,
        statuses: int,
        say: Callable[[str], None],
    ):
        self.config, self.seeds, self.updates, self.say = config, range(seeds), updates, say
        self.episodes = range(episodes)
        folder = models_folder()
        self.starts = model_a_starts(load_predictor(find_model(folder, "a2", config.platform)))
        self.shipped = load_qnet(find_model(folder, "c", config.platform))
        split = read_offline_config(shipped_offline_config("masked")).split
        self.found: Transitions = transitions_of(
            data, lambda key: part_of(key, split) == "train", platform=config.platform, statuses=statuses
        )
        self.rows: list[Row] = []

    def add(self, name: str, policies: Sequence[QNet | Policy]) -> None:
        """Evaluate, and keep as a row."""
        both: list[list[Evaluation]] = [
            [evaluate_greedy(policy, self.config.platform, self.episodes, starts=starts) for policy in policies]
            for starts in (None, self.starts)
        ]
        self.rows.append(Row(name, *both))
        self.say(table(self.rows[-1:]).splitlines()[-2])
        self.say(table(self.rows[-1:]).splitlines()[-1])

    def offline(self, variant: str) -> tuple[QNet, Reward]:
        """A network that has learned offline with a shipped config, in as many updates as all others here."""
        changes = {"updates": self.updates}
        config = read_offline_config(shipped_offline_config(variant), changes)
        net = fitted.new_qnet(self.found, config)
        fitted.fit(net, self.found, config)
        return net, config.reward

    def tuples(self, reward: Reward) -> Tuples:
        """Offline tuples for the pool."""
        return sample_tuples(self.found, 500_000, reward, np.random.default_rng(0))

    def online(
        self,
        begin: QNet | None,
        reward: Reward,
        *,
        seeds: int | None = None,
        keep: bool = True,
        gate: bool = False,
        **changes: Any,
    ) -> list[QNet]:
        """A network for each seed that has learned online, from `begin` or from nothing.

        `keep`: the offline tuples stay in the batches. `gate`: of what it is on the way the last is taken that was
        better than the one before it beyond noise, on other episodes than those of the table.
        """
        nets: list[QNet] = []
        tuples = self.tuples(reward) if begin is not None and keep else None
        for seed in self.seeds[:seeds]:
            config = msgspec.structs.replace(self.config, reward=reward, seed=seed, **changes).checked()
            masked = read_offline_config(shipped_offline_config("masked"), {"seed": seed})
            net = fitted.new_qnet(self.found, masked) if begin is None else copy.deepcopy(begin)
            champion = Champion(net, config.platform)
            end = learn_online(
                net, config, offline=tuples, on_progress=champion.challenge if gate else None, every=100_000
            )
            self.say(f"seed {seed}: {end.steps / end.seconds:.0f} decisions/s")
            nets.append(champion.net if gate else net.eval())
        return nets

    def run(self) -> None:
        """All rows."""
        self.add("nothing: holds still", [hold])
        self.add("nothing: acts at random", [at_random(0)])
        self.add("offline, shipped", [self.shipped])
        for name, variant in (("entropy", "masked"), ("latency", "latency")):
            net, reward = self.offline(variant)
            self.add(f"{name}: offline only", [net])
            self.add(f"{name}: online only", self.online(None, reward))
            self.add(f"{name}: both", self.online(net, reward))
            if name == "entropy":
                self.add("entropy: both, gated", self.online(net, reward, gate=True))
                self.add("entropy: both, offline tuples not kept", self.online(net, reward, seeds=1, keep=False))
                self.add("entropy: online only, the node's E_S", self.online(None, reward, seeds=1, credit="node"))
                self.add("entropy: online only, no bound", self.online(None, reward, seeds=1, bounded=False))
                self.add("entropy: online only, acts each 1 s", self.online(None, reward, seeds=1, interval_s=1.0))


class Champion:
    """Keeps a copy of a network that learns, and takes a later one where that is better beyond noise."""

    def __init__(self, net: QNet, platform: str):
        self._learning, self._platform = net, platform
        self._seeds = range(100_000, 100_100)
        self.net, self._worth = copy.deepcopy(net), evaluate_greedy(net, platform, self._seeds)

    def challenge(self, _: Progress) -> None:
        """Compare; to be called as the network learns."""
        worth = evaluate_greedy(self._learning, self._platform, self._seeds)
        if better(worth, self._worth).high < 0:
            self.net, self._worth = copy.deepcopy(self._learning), worth


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m osml_training.online_dqn.ablation", description=__doc__)
    parser.add_argument(
        "data", nargs="+", type=Path, help="labelled data sets of one platform, for the offline training"
    )
    parser.add_argument("--config", type=Path, help="YAML config that replaces the shipped online-c")
    parser.add_argument("--seeds", type=int, default=3, help="online trainings per row (default 3)")
    parser.add_argument("--episodes", type=int, default=300, help="episodes per evaluation (default 300)")
    parser.add_argument("--steps", type=int, help="online decisions to learn from")
    parser.add_argument("--updates", type=int, default=4000, help="offline updates (default 4000)")
    parser.add_argument("--statuses", type=int, default=600_000, help="offline statuses (default 600,000)")
    parser.add_argument("--out", type=Path, default=Path("out/c-ablation.json"), help="figures (out/c-ablation.json)")
    told = parser.parse_args(arguments)
    changes = {} if told.steps is None else {"steps": told.steps}
    config = read_online_config(told.config, changes) if told.config else read_online_config(changes=changes)
    ablation = Ablation(
        told.data,
        config,
        seeds=told.seeds,
        episodes=told.episodes,
        updates=told.updates,
        statuses=told.statuses,
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    ablation.run()
    told.out.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "simulated": True,
        "config": msgspec.to_builtins(config),
        "seeds": told.seeds,
        "episodes": told.episodes,
        "updates": told.updates,
        "statuses": len(ablation.found.states),
        "rows": figures(ablation.rows),
    }
    told.out.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
    print(table(ablation.rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
