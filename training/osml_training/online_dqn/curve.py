"""What the greedy policy is worth before, during and after learning online, with the offline tuples kept and without.

    python -m osml_training.online_dqn.curve out/data/e5-alone out/data/e5-beside

begins with the shipped Model-C and prints a table for docs/reference/model-c-online.md. Simulated.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from osml.lab.bench.report.statistics import mean
from osml.predictors import find_model, models_folder
from osml_training.dqn.export import load_qnet
from osml_training.dqn.qnet import QNet
from osml_training.dqn.transitions import Tuples, sample_tuples, transitions_of
from osml_training.online_dqn.config import OnlineConfig, read_online_config
from osml_training.online_dqn.evaluate import evaluate_greedy
from osml_training.online_dqn.loop import Progress, learn_online

Point = tuple[int, str]
"""Decisions so far, and mean E_S with its interval."""


def curve(net: QNet, config: OnlineConfig, offline: Tuples | None, *, every: int, episodes: int) -> list[Point]:
    """E_S of the greedy policy every so many decisions, the first before any; `net` stays what it was."""
    learning = copy.deepcopy(net)
    points: list[Point] = []

    def look(progress: Progress | None) -> None:
        found = evaluate_greedy(learning, config.platform, range(episodes))
        points.append((0 if progress is None else progress.steps, mean(found.e_s.tolist()).text(".3f")))

    look(None)
    end = learn_online(learning, config, offline=offline, on_progress=look, every=every)
    if end.steps // every == config.steps // every and points[-1][0] < end.steps:
        look(end)
    return points


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m osml_training.online_dqn.curve", description=__doc__)
    parser.add_argument("data", nargs="+", type=Path, help="labelled data sets of one platform, for offline tuples")
    parser.add_argument("--steps", type=int, default=300_000, help="decisions (default 300,000)")
    parser.add_argument("--every", type=int, default=50_000, help="decisions between two evaluations (default 50,000)")
    parser.add_argument("--rate", type=float, help="learning rate", default=None)
    parser.add_argument("--anchor", type=float, help="weight of the pull to the offline values", default=0.0)
    parser.add_argument("--epsilon", type=float, default=0.05, help="share of random actions (default 0.05)")
    parser.add_argument("--episodes", type=int, default=150, help="episodes per evaluation (default 150)")
    told = parser.parse_args(arguments)
    changes = {"steps": told.steps, "epsilon": [[0, told.epsilon]], "anchor": told.anchor}
    config = read_online_config(changes=changes | ({} if told.rate is None else {"learning_rate": told.rate}))
    net = load_qnet(find_model(models_folder(), "c", config.platform))
    found = transitions_of(told.data, platform=config.platform, statuses=300_000)
    offline = sample_tuples(found, 300_000, config.reward, np.random.default_rng(0))
    columns: list[list[Point]] = []
    for share in (0.0, 0.25, 0.75):
        changed = msgspec.structs.replace(config, offline_share=share)
        columns.append(curve(net, changed, offline if share else None, every=told.every, episodes=told.episodes))
    print("| decisions | no offline tuples | a quarter | three quarters |\n|---|---|---|---|")
    for (steps, first), (_, second), (_, third) in zip(*columns, strict=False):
        print(f"| {round(steps / told.every) * told.every:,} | {first} | {second} | {third} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
