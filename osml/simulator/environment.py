"""The virtual node as a gymnasium environment: `osml/Colocation-v0`, single and vectorised. Importing it registers it.

>>> env = gymnasium.make("osml.simulator.environment:osml/Colocation-v0", max_services=3, reward="latency")
>>> many = gymnasium.make_vec("osml.simulator.environment:osml/Colocation-v0", num_envs=1000)

Everything that it shows is simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from osml.base.extras import how_to_install
from osml.predictors.actions import N_ACTIONS
from osml.simulator.colocation.config import EnvironmentConfig, config_of
from osml.simulator.colocation.episodes import Episode, draw_episode, episode_of
from osml.simulator.colocation.features import O_LATENCY, O_TARGET
from osml.simulator.colocation.nodes import ColocationNodes
from osml.simulator.columns import FloatArray, IntArray
from osml.simulator.fleet import EMPTY
from osml.simulator.mix import parse_mix

try:
    import gymnasium
    from gymnasium import spaces
    from gymnasium.utils import seeding
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        f"the environment osml/Colocation-v0 needs gymnasium: {how_to_install('gym')}",
        name="gymnasium",
    ) from None

ENVIRONMENT_ID = "osml/Colocation-v0"

Observation = NDArray[np.float32] | dict[str, NDArray[Any]]
Bools = NDArray[np.bool_]
Info = dict[str, Any]


def _spaces(nodes: ColocationNodes) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    """(observation space, action space) of one node."""
    config = nodes.config
    n = config.max_services
    box = spaces.Box(nodes.low, nodes.high, dtype=np.float32)
    shape = (N_ACTIONS,)
    if not config.turns:
        box = spaces.Box(np.tile(nodes.low, (n, 1)), np.tile(nodes.high, (n, 1)), dtype=np.float32)
        shape = (n, N_ACTIONS)
    seen: spaces.Space[Any] = box
    if config.mask_in_observation:
        seen = spaces.Dict({"observations": box, "action_mask": spaces.Box(0, 1, shape, np.int8)})
    return seen, spaces.Discrete(N_ACTIONS) if config.turns else spaces.MultiDiscrete([N_ACTIONS] * n)


def _shown(nodes: ColocationNodes) -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """Features and masks of all nodes, of all services or of whoever's turn it is; copies."""
    if not nodes.config.turns:
        return nodes.features.copy(), nodes.masks.copy()
    rows = np.arange(len(nodes.turn))
    return nodes.features[rows, nodes.turn], nodes.masks[rows, nodes.turn]


def _info(nodes: ColocationNodes, masks: NDArray[np.int8]) -> Info:
    """What `info` says of all nodes."""
    n = nodes.config.max_services
    info: Info = {
        "action_mask": masks,
        "taken": nodes.taken.copy(),
        "service_rewards": nodes.rewards.copy(),
        "e_s": nodes.e_s.copy(),
        "qos_met": nodes.qos_met,
        "services": nodes.fleet.nodes.present[:, :n].copy(),
    }
    if nodes.config.turns:
        rows = np.arange(len(nodes.turn))
        info["turn"], info["acted"] = nodes.turn.copy(), nodes.acted.copy()
        info["acted_observation"] = nodes.features[rows, nodes.acted]
    return info


def _episodes(
    nodes: ColocationNodes, rngs: Sequence[np.random.Generator], options: dict[str, Any] | None
) -> list[Episode]:
    """One episode for each generator: random, or of the mix that `options` give."""
    if options and "mix" in options:
        mix = parse_mix(str(options["mix"]))
        return [episode_of(mix, nodes.config, nodes.platform, rng) for rng in rngs]
    return [draw_episode(nodes.config, nodes.platform, rng) for rng in rngs]


def _checked(actions: Any, shape: tuple[int, ...]) -> IntArray:
    """Actions of this shape, each from 0 to 48; InvalidAction otherwise."""
    given = np.asarray(actions)
    if given.shape != shape or given.dtype.kind not in "iu":
        raise gymnasium.error.InvalidAction(
            f"actions have shape {given.shape} and type {given.dtype}, expected whole numbers of shape {shape}"
        )
    if given.size and not (given.min() >= 0 and given.max() < N_ACTIONS):
        raise gymnasium.error.InvalidAction(
            f"actions are {given.min()} to {given.max()}, expected 0 to {N_ACTIONS - 1}"
        )
    return given.astype(np.int64, copy=False)


class ColocationEnv(gymnasium.Env[Any, Any]):
    """One virtual node on which latency-critical (LC) services and best-effort jobs share cores and cache ways.

    ## Description
    The task of Model-C (OSML, FAST '23, section 4.3): give each service cores and ways, or take some, once an interval,
    so that every service meets its target with as few of them as possible.

    ## Action space
    `MultiDiscrete([49] * n)` with n = `max_services`: action `7 (m + 3) + (w + 3)` of a service gives it m cores and w
    ways, each from -3 to 3. `info["action_mask"]` (n, 49) has the legal ones; `colocation.actions` says what is legal
    and how joint actions are resolved. Illegal ones are cut to what is possible. With `turns=True`: `Discrete(49)`, one
    service acts in each step, in turn.

    ## Observation space
    `Box(n, 26)`, float32, a row a service in raw units; all zeros where nobody is. Columns, units and meanings:
    `colocation.features.FEATURES`. With `turns=True` the row of the service whose turn it is, `Box(26,)`. With
    `mask_in_observation=True` a `Dict` of `observations` and `action_mask`.

    ## Rewards
    `entropy`: E_S(before) - E_S(after) - price x share of the node that was taken. `latency`: the paper's; the sum over
    the services. `info["service_rewards"]` (n,) has them one by one; with `turns=True` the reward is that of who acted.

    ## Starting state
    `min_services` to n random services under random loads, with a best-effort job or without, with a random partition,
    some intervals after their start. `reset(options={"mix": "moses=0.4,xapian=0.5,be:stream"})` gives a certain one.

    ## Episode end
    Truncated after `horizon` intervals, never terminated.

    ## Arguments
    The fields of `EnvironmentConfig`.

    ## Version history
    v0: first version.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 1}  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, render_mode: str | None = None, **settings: Any):
        self.config: EnvironmentConfig = config_of(settings)
        self.render_mode = render_mode
        self._nodes = ColocationNodes(self.config, 1)
        self.observation_space, self.action_space = _spaces(self._nodes)
        self._which: IntArray = np.zeros(1, np.int64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, Info]:
        """Begin an episode; InputError where the mix in `options` is not possible."""
        super().reset(seed=seed)
        self._nodes.begin(self._which, _episodes(self._nodes, [self.np_random], options))
        return self._look()

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, Info]:
        """One interval. Raises InvalidAction for what is no action, ResetNeeded before an episode and after its end."""
        given = _checked(action, () if self.config.turns else (self.config.max_services,))
        if self._nodes.done[0]:
            raise gymnasium.error.ResetNeeded("no episode is running, call reset() first")
        self._nodes.act(self._which, given[None])
        seen, info = self._look()
        return seen, float(self._nodes.scalar_rewards(self._which)[0]), False, bool(self._nodes.done[0]), info

    def action_masks(self) -> NDArray[np.int8]:
        """The legal actions now, (n, 49), or (49,) of whoever's turn it is."""
        return _shown(self._nodes)[1][0]

    def render(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One line a service: what it owns, and its latency beside its target."""
        nodes, fleet = self._nodes, self._nodes.fleet
        lines = [f"interval {nodes.clock[0]} of {self.config.horizon} (simulated), E_S {nodes.e_s[0]:.3f}"]
        present: list[int] = fleet.nodes.present[0].tolist()
        for place, kind in enumerate(present):
            if kind == EMPTY:
                continue
            name = fleet.kinds[kind].name
            if place >= self.config.max_services:
                lines.append(f"{name:12} best effort")
                continue
            row = nodes.features[0, place]
            cores, ways = fleet.nodes.cores[0, place], fleet.nodes.ways[0, place]
            lines.append(f"{name:12} {cores:3} cores {ways:3} ways {row[O_LATENCY]:10.2f} of {row[O_TARGET]:g} ms")
        return "\n".join(lines)

    def _look(self) -> tuple[Observation, Info]:
        features, masks = _shown(self._nodes)
        info = {key: value[0] for key, value in _info(self._nodes, masks).items()}
        if self.config.mask_in_observation:
            return {"observations": features[0], "action_mask": masks[0]}, info
        return features[0], info


class ColocationVectorEnv(VectorEnv[Any, Any, Any]):
    """`num_envs` nodes of one platform at once, each as in `ColocationEnv`: the same seed gives the same node.

    Node i has the seed `seed + i`, as in `SyncVectorEnv`. An episode that is over begins anew with the next step
    (`AutoresetMode.NEXT_STEP`): the action of that step is ignored, its reward is 0. All of `info` are arrays whose
    first axis is the node.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, num_envs: int = 1, render_mode: str | None = None, **settings: Any):
        self.config: EnvironmentConfig = config_of(settings)
        self.num_envs, self.render_mode = num_envs, render_mode
        self._nodes = ColocationNodes(self.config, num_envs)
        seen, action = _spaces(self._nodes)
        self.single_observation_space, self.single_action_space = seen, action
        self.observation_space, self.action_space = batch_space(seen, num_envs), batch_space(action, num_envs)
        self._all: IntArray = np.arange(num_envs)
        self._rngs: dict[int, np.random.Generator] = {}
        self._over: Bools = np.zeros(num_envs, np.bool_)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observation, Info]:
        """Begin an episode on all nodes, or on those of `options["reset_mask"]` (num_envs,)."""
        super().reset(seed=seed)
        which = self._all
        if options and "reset_mask" in options:
            which = np.nonzero(cast(Bools, options["reset_mask"]))[0]
        seeds = [None if seed is None else seed + i for i in range(self.num_envs)]
        for node in which.tolist():
            if seeds[node] is not None or node not in self._rngs:
                self._rngs[node] = seeding.np_random(seeds[node])[0]
        self._begin(which, options)
        self._over[which] = False
        return self._look()

    def step(self, actions: Any) -> tuple[Observation, FloatArray, Bools, Bools, Info]:
        """One interval on all nodes, but for those whose episode was over: they begin a new one."""
        n = () if self.config.turns else (self.config.max_services,)
        given = _checked(actions, (self.num_envs, *n))
        if len(self._rngs) < self.num_envs:
            raise gymnasium.error.ResetNeeded("no episode is running on some node, call reset() for all of them first")
        going, over = np.nonzero(~self._over)[0], np.nonzero(self._over)[0]
        rewards = np.zeros(self.num_envs)
        if len(going):
            self._nodes.act(going, given[going])
            rewards[going] = self._nodes.scalar_rewards(going)
        if len(over):
            self._begin(over, None)
        self._over = self._nodes.done
        seen, info = self._look()
        return seen, rewards, np.zeros(self.num_envs, np.bool_), self._over.copy(), info

    def action_masks(self) -> NDArray[np.int8]:
        """The legal actions now, (num_envs, n, 49), or (num_envs, 49) of whoever's turn it is."""
        return _shown(self._nodes)[1]

    def _begin(self, which: IntArray, options: dict[str, Any] | None) -> None:
        rngs = [self._rngs[node] for node in which.tolist()]
        self._nodes.begin(which, _episodes(self._nodes, rngs, options))

    def _look(self) -> tuple[Observation, Info]:
        features, masks = _shown(self._nodes)
        info = _info(self._nodes, masks)
        there = np.ones(self.num_envs, np.bool_)
        info.update({f"_{key}": there for key in list(info)})
        if self.config.mask_in_observation:
            return {"observations": features, "action_mask": masks}, info
        return features, info


if ENVIRONMENT_ID not in gymnasium.registry:
    gymnasium.register(  # pyright: ignore[reportUnknownMemberType]
        ENVIRONMENT_ID,
        entry_point="osml.simulator.environment:ColocationEnv",
        vector_entry_point="osml.simulator.environment:ColocationVectorEnv",
    )
