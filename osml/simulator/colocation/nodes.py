"""The environment without gymnasium: many nodes that begin, act and are observed. Single and vector form share it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from osml.predictors.actions import N_ACTIONS, NO_CHANGE, Mask
from osml.simulator import catalogs
from osml.simulator.colocation.actions import fill_masks, free_of, resolve
from osml.simulator.colocation.config import EnvironmentConfig
from osml.simulator.colocation.episodes import Episode
from osml.simulator.colocation.features import N_FEATURES, O_MEASURED, O_SLACK, Features, bounds, fill_features
from osml.simulator.colocation.rewards import entropy_rewards, latency_rewards
from osml.simulator.columns import FloatArray, IntArray
from osml.simulator.fleet import EMPTY, Fleet
from osml.simulator.fleet import measure as m

_ARRIVAL_CORES = 2
_ARRIVAL_WAYS = 2


class ColocationNodes:
    """`size` nodes, each in an episode of its own.

    After `begin` and `act` these hold, by node: `features` (nodes, n, 26), `masks` (nodes, n, 49), `rewards` (nodes,
    n), `taken` (nodes, n, 2), `e_s` (nodes,), `turn` (nodes,) who acts next, `acted` who did, `clock`.
    """

    def __init__(self, config: EnvironmentConfig, size: int):
        self.config = config
        self.platform = catalogs.platform(config.platform)
        kinds = [
            *(catalogs.service(name, config.platform) for name in config.services),
            *(catalogs.job(name) for name in config.jobs),
        ]
        self.fleet = Fleet(
            self.platform,
            kinds,
            size,
            config.places,
            noise=config.noise,
            relative_importance=config.relative_importance,
        )
        n, places = config.max_services, config.places
        self.low, self.high = bounds(self.platform)
        self.features: Features = np.zeros((size, n, N_FEATURES), np.float32)
        self.masks: Mask = np.zeros((size, n, N_ACTIONS), np.int8)
        self.rewards: FloatArray = np.zeros((size, n))
        self.taken: IntArray = np.zeros((size, n, 2), np.int64)
        self.e_s: FloatArray = np.zeros(size)
        self.turn: IntArray = np.zeros(size, np.int64)
        self.acted: IntArray = np.zeros(size, np.int64)
        self.clock: IntArray = np.full(size, config.horizon)  # nothing has begun
        self._kinds: IntArray = np.full((size, places), EMPTY, np.int64)
        self._script: FloatArray = np.full((config.horizon + 1, size, places), np.nan)
        self._loads: FloatArray = np.zeros((size, places))
        self._actions: IntArray = np.zeros((size, n), np.int64)
        self._fall: FloatArray = np.zeros(size)

    @property
    def done(self) -> NDArray[np.bool_]:
        """Whose episode is over (truncated), (nodes,)."""
        return self.clock >= self.config.horizon

    @property
    def qos_met(self) -> NDArray[np.bool_]:
        """Services that are there, were measured and met their target, (nodes, n)."""
        seen = self.features
        return (seen[:, :, O_MEASURED] > 0) & (seen[:, :, O_SLACK] >= 0)

    def begin(self, which: IntArray, episodes: Sequence[Episode]) -> None:
        """Begin an episode on each of the nodes `which`."""
        nodes = self.fleet.nodes
        for node, episode in zip(which.tolist(), episodes, strict=True):
            self._kinds[node] = episode.kinds
            self._script[:, node] = episode.loads.T
            nodes.cores[node], nodes.ways[node] = episode.cores, episode.ways
        self.fleet.seed(np.array([episode.noise_seed for episode in episodes], np.uint64), which)
        there = ~np.isnan(self._script[0, which])
        self.fleet.place(np.where(there, self._kinds[which], EMPTY), which)
        self._loads[which] = np.nan_to_num(self._script[0, which])
        self.clock[which], self.rewards[which], self.taken[which], self.e_s[which] = 0, 0.0, 0, 0.0
        for _ in range(self.config.warmup):
            self._pass(which)
        self.turn[which] = self.acted[which] = self._next(which, np.full(len(which), -1))
        self._look(which)

    def act(self, which: IntArray, actions: IntArray) -> None:
        """One interval on the nodes `which`: `actions` (len(which), n), or (len(which),) of whoever's turn it is."""
        nodes, config = self.fleet.nodes, self.config
        if config.turns:
            self._actions[which] = NO_CHANGE
            self._actions[which, self.turn[which]] = actions
        else:
            self._actions[which] = actions
        n = config.max_services
        e_s, mean_ms = self.e_s[which], nodes.measured[which, :n, m.M_MEAN_MS]
        resolve(self.fleet.terms, nodes, which, self._actions, self.taken)
        self.clock[which] += 1
        if config.churn > 0:
            self._come_and_go(which)
        self._loads[which] = np.nan_to_num(self._script[self.clock[which], which])
        self._pass(which)
        if config.reward == "entropy":
            given = entropy_rewards(
                e_s, self.e_s[which], self.taken[which], self.platform.cpus, self.platform.ways, config.price
            )
        else:
            given = latency_rewards(mean_ms, nodes.measured[which, :n, m.M_MEAN_MS], self.taken[which])
        self._fall[which] = e_s - self.e_s[which]
        self.rewards[which] = np.where(self._there(which), given, 0.0)
        self.acted[which] = self.turn[which]
        self.turn[which] = self._next(which, self.turn[which])
        self._look(which)

    def start_at(self, which: IntArray, cores: IntArray, ways: IntArray) -> None:
        """Let the episodes of the nodes `which` begin with these counts, (len(which), n), instead: Model-A's, say.

        As many intervals pass as before the first observation of any episode; the clock stands still. Raises
        NodeInputError, with the node, for counts that cannot be laid out.
        """
        counts, n = self.fleet.nodes, self.config.max_services
        there = self._there(which)
        counts.cores[which, :n], counts.ways[which, :n] = np.where(there, cores, 0), np.where(there, ways, 0)
        for _ in range(self.config.warmup):
            self._pass(which)
        self._look(which)

    def scalar_rewards(self, which: IntArray) -> FloatArray:
        """Rewards of the nodes `which` as one number: of who acted, or of all together."""
        each = self.rewards[which]
        if self.config.turns:
            return each[np.arange(len(which)), self.acted[which]]
        if self.config.reward == "latency":
            return each.sum(axis=1)
        # The fall of E_S is the node's: it counts once, while the prices add up.
        return self._fall[which] + (each - self._fall[which, None]).sum(axis=1, where=self._there(which))

    def _there(self, which: IntArray) -> NDArray[np.bool_]:
        return self.fleet.nodes.present[which, : self.config.max_services] != EMPTY

    def _pass(self, which: IntArray) -> None:
        """Let an interval pass; where E_S is not known afterwards, it stays what it was."""
        self.fleet.step(self._loads, self.config.interval_s, which)
        known = self.fleet.nodes.entropy[which, m.E_S]
        self.e_s[which] = np.where(np.isnan(known), self.e_s[which], known)

    def _look(self, which: IntArray) -> None:
        terms, nodes = self.fleet.terms, self.fleet.nodes
        fill_features(terms, nodes, self.e_s, self.config.interval_s, self.low, self.high, which, self.features)
        fill_masks(terms, nodes, which, self.masks)

    def _next(self, which: IntArray, after: IntArray) -> IntArray:
        """The next service in turn that is there, (len(which),)."""
        n = self.config.max_services
        order = (after[:, None] + 1 + np.arange(n)) % n
        there = np.take_along_axis(self._there(which), order, axis=1)
        return np.take_along_axis(order, there.argmax(axis=1)[:, None], axis=1)[:, 0]

    def _come_and_go(self, which: IntArray) -> None:
        """Services that leave give all back; those that arrive get a little of what is free, or one of the richest."""
        nodes = self.fleet.nodes
        there = ~np.isnan(self._script[self.clock[which], which])
        changed = there != (nodes.present[which] != EMPTY)
        for row, place in np.argwhere(changed & ~there).tolist():
            node = int(which[row])
            self.fleet.replace(node, place, EMPTY)
            nodes.cores[node, place] = nodes.ways[node, place] = 0
        for row, place in np.argwhere(changed & there).tolist():
            node = int(which[row])
            free = free_of(self.fleet.terms, nodes, node)
            for counts, left, wanted in ((nodes.cores, free[0], _ARRIVAL_CORES), (nodes.ways, free[1], _ARRIVAL_WAYS)):
                if left < 1:
                    counts[node, int(counts[node].argmax())] -= 1
                counts[node, place] = max(1, min(wanted, left))
            self.fleet.replace(node, place, int(self._kinds[node, place]))
