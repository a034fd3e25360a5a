"""What a policy is worth on the virtual node: fixed episodes, one a seed, so that policies can be compared in pairs.

Every service of a node acts once an interval. What is judged is what really was, without the noise of measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.lab.bench.judge import CLIFF_TIMES
from osml.lab.bench.report.statistics import Estimate, mean
from osml.predictors.actions import NO_CHANGE
from osml.simulator import columns as c
from osml.simulator.colocation.config import config_of
from osml.simulator.colocation.episodes import Episode, draw_episode
from osml.simulator.colocation.nodes import ColocationNodes
from osml.simulator.fleet import measure as m
from osml_training.dqn.qnet import QNet
from osml_training.dqn.state import environment_state
from osml_training.online_dqn.learner import Policy, greedy
from osml_training.train.loop import deterministic

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Starts = Callable[[ColocationNodes], tuple[NDArray[np.int64], NDArray[np.int64]]]
"""Cores and ways (nodes, places) that the services begin with, by what was seen of them at an even start."""

_TAILS = {m.M_P50_MS: c.F_P50_MS, m.M_P95_MS: c.F_P95_MS, m.M_P99_MS: c.F_P99_MS, m.M_MEAN_MS: c.F_MEAN_MS}


class Evaluation(NamedTuple):
    """By episode, (episodes,): mean E_S; share of intervals in which all targets were met, of all and of the last
    third; cores and ways that the services owned, as shares of the node; sum of the rewards; decisions
    that took from a service that met its target, and those of them that were falls off the cliff (`osml lab bench`).
    """

    e_s: Floats
    met: Floats
    met_late: Floats
    cores: Floats
    ways: Floats
    reward: Floats
    downward: Floats
    falls: Floats

    def summary(self) -> dict[str, Estimate]:
        """Means over the episodes with 95 % bootstrap intervals; `falls_per_10000` downward decisions."""
        found = {name: mean(getattr(self, name).tolist()) for name in self._fields if name not in ("downward", "falls")}
        downward = max(float(self.downward.sum()), 1.0)
        per = mean((self.falls * len(self.falls) / downward * 10_000).tolist())
        return found | {"falls_per_10000": per}


def better(candidate: Evaluation, champion: Evaluation, name: str = "e_s") -> Estimate:
    """Mean by how much the candidate has more of `name`, paired by episode, with its 95 % bootstrap interval.

    With `e_s` below 0 is better: it is beyond noise where `high` is below 0.
    """
    ours, theirs = getattr(candidate, name), getattr(champion, name)
    if ours.shape != theirs.shape:
        raise InputError(f"the evaluations have {len(ours)} and {len(theirs)} episodes, expected the same seeds")
    return mean((ours - theirs).tolist())


def evaluate_greedy(
    net: QNet | Policy, platform: str, seeds: Sequence[int], *, starts: Starts | None = None, **settings: Any
) -> Evaluation:
    """The greedy policy of `net` (or a policy itself) in one episode for each of `seeds`; the same seed is the same
    episode: services, loads, noise. Simulated.

    `settings` are those of `osml/Colocation-v0`; by default even starts and 60 intervals. `starts`: other ones.
    """
    deterministic()
    config = config_of({"platform": platform, "start": "even", "horizon": 60} | settings)
    if config.turns or config.churn:
        raise InputError("turns or churn is not supported in an evaluation: all services act in each interval and stay")
    policy = greedy(net) if isinstance(net, QNet) else net
    nodes, every = ColocationNodes(config, len(seeds)), np.arange(len(seeds))
    episodes = [draw_episode(config, nodes.platform, np.random.default_rng([seed, 7])) for seed in seeds]
    nodes.begin(every, episodes)
    if starts is not None:
        nodes.start_at(every, *starts(nodes))
    seen = _Seen(nodes, episodes)
    there = nodes.fleet.is_service[:, : config.max_services]
    actions = np.full(there.shape, NO_CHANGE, np.int64)
    for _ in range(config.horizon):
        states = environment_state(nodes.features[there])
        actions[there] = policy(states, nodes.masks[there])
        nodes.act(every, actions)
        seen.look()
    return seen.evaluation()


class _Seen:
    """Collects intervals; the first is the one before any action."""

    def __init__(self, nodes: ColocationNodes, episodes: Sequence[Episode]):
        n = nodes.config.max_services
        self._nodes, self._n = nodes, n
        self._there = nodes.fleet.is_service[:, :n]
        self._loads = np.stack([episode.loads[:n] for episode in episodes])  # (nodes, places, horizon + 1)
        facts = nodes.fleet.terms.kinds[nodes.fleet.nodes.present]
        self._target = facts[:, :n, m.K_TARGET_MS]
        column = np.vectorize(_TAILS.get, otypes=[np.int64])(facts[:, :n, m.K_PERCENTILE].astype(int), c.F_P99_MS)
        self._column = column[:, :, None]
        self._solo = facts[:, n:, m.K_SOLO_WORK]
        self._jobs = nodes.fleet.nodes.present[:, n:] >= 0
        self._tails: list[Floats] = []
        self._e_s: list[Floats] = []
        self._owned: list[tuple[Floats, Floats]] = []
        self._taken: list[Bools] = []
        self._reward = np.zeros(len(episodes))
        self.look()

    def look(self) -> None:
        nodes, n = self._nodes, self._n
        flows, dt = nodes.fleet.nodes.flows, nodes.config.interval_s
        tails = np.take_along_axis(flows[:, :n], self._column, axis=2)[:, :, 0]
        tails = np.where(np.isfinite(tails) & (flows[:, :n, c.F_COMPLETED] > 0), tails, np.inf)
        q = np.where(self._there, np.maximum(0.0, 1.0 - self._target / tails), 0.0)
        entropy: Floats = q.sum(axis=1) / self._there.sum(axis=1)
        if self._jobs.any():
            rate = np.maximum(flows[:, n:, c.F_INSTRUCTIONS] / dt / 1e9, 1e-12)
            slow: Floats = np.where(self._jobs, np.maximum(1.0, self._solo / rate), 0.0).sum(axis=1)
            count = self._jobs.sum(axis=1)
            e_be = 1.0 - count / np.maximum(slow, 1e-12)
            share = nodes.config.relative_importance
            entropy = np.where(count > 0, share * entropy + (1.0 - share) * e_be, entropy)
        self._e_s.append(entropy)
        self._tails.append(tails)
        cores, ways = (np.where(self._there, x[:, :n], 0).sum(axis=1) for x in nodes.fleet.nodes[1:3])
        self._owned.append((cores / nodes.platform.cpus, ways / nodes.platform.ways))
        self._taken.append((nodes.taken < 0).any(axis=2) & self._there)
        self._reward += nodes.scalar_rewards(np.arange(len(tails))) if len(self._tails) > 1 else 0.0

    def evaluation(self) -> Evaluation:
        tails, there, target = np.stack(self._tails), self._there, self._target  # (intervals + 1, nodes, places)
        within = (tails <= target) | ~there
        met: Bools = np.asarray(within[1:].all(axis=2))
        owned = np.array(self._owned[1:])  # (intervals, 2, nodes)
        steady = self._loads[:, :, 1:] == self._loads[:, :, :-1]
        steady = np.moveaxis(steady, 2, 0)  # (intervals, nodes, places)
        downward = np.stack(self._taken)[1:] & within[:-1] & steady
        worst = tails[1:].copy()
        worst[:-1] = np.where(steady[1:], np.maximum(worst[:-1], tails[2:]), worst[:-1])
        falls = downward & (worst > target) & (worst >= CLIFF_TIMES * tails[:-1])
        return Evaluation(
            np.stack(self._e_s)[1:].mean(axis=0),
            met.mean(axis=0),
            met[-(len(met) // 3 or 1) :].mean(axis=0),
            owned[:, 0].mean(axis=0),
            owned[:, 1].mean(axis=0),
            self._reward,
            downward.sum(axis=(0, 2)).astype(float),
            falls.sum(axis=(0, 2)).astype(float),
        )
