"""Several networks from different starting weights, and the one of them that earns most on runs that none learned from.

What a training comes to hangs on its seed more than on most settings (docs/reference/model-c.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from osml_training.dqn import offline
from osml_training.dqn.config import OfflineConfig
from osml_training.dqn.greedy import earned, greedy
from osml_training.dqn.offline import Progress
from osml_training.dqn.qnet import QNet
from osml_training.dqn.transitions import Transitions


class Attempt(NamedTuple):
    """One network: its seed, what it earns on the validation runs (None: not judged), how it learned."""

    net: QNet
    seed: int
    earned: float | None
    done: list[Progress]


def attempts_of(
    found: Transitions,
    validation: Transitions | None,
    config: OfflineConfig,
    on_progress: Callable[[Progress], None] | None = None,
) -> list[Attempt]:
    """`config.attempts` networks, the best first. Same seed, same networks.

    `on_progress` gets the updates of all of them together. A single one is not judged, so it needs no `validation`.
    """
    made: list[Attempt] = []
    for k in range(config.attempts):
        mine = msgspec.structs.replace(config, seed=config.seed + k)
        before = k * config.updates

        def told(progress: Progress, before: int = before) -> None:
            if on_progress is not None:
                on_progress(progress._replace(updates=before + progress.updates))

        net = offline.new_qnet(found, mine)
        done = offline.fit(net, found, mine, told)
        made.append(Attempt(net.eval(), mine.seed, None if validation is None else worth(net, validation, mine), done))
    return sorted(made, key=lambda one: -math.inf if one.earned is None else one.earned, reverse=True)


def worth(net: QNet, found: Transitions, config: OfflineConfig) -> float:
    """Discounted reward of the greedy policy, mean over all statuses."""
    return earned(found, greedy(offline.q_of(net, found, config), found), config.reward, config.gamma)
