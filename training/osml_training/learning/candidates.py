"""Candidates for the place of the champion: how fast they learned, and how far they went from it."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch's own annotations have gaps.
from __future__ import annotations

import copy
from typing import NamedTuple

import torch

from osml.predictors import ModelMetadata
from osml_training.dqn.qnet import QNet
from osml_training.dqn.transitions import Tuples
from osml_training.learning.config import LearningConfig
from osml_training.online_dqn.resume import continue_online

Losses = list[tuple[int, float]]


class Candidate(NamedTuple):
    """A network, how it came about, and (update, loss) of its learning."""

    net: QNet
    learning_rate: float
    blend: float
    losses: Losses


def candidates_of(
    champion: QNet, metadata: ModelMetadata, recorded: Tuples, offline: Tuples | None, config: LearningConfig
) -> list[Candidate]:
    """One for each learning rate and blend of the config. Raises as `continue_online` does."""
    found: list[Candidate] = []
    for rate in config.learning_rates:
        losses: Losses = []
        learned = continue_online(
            champion,
            recorded,
            config.online(metadata, rate),
            offline=offline,
            passes=config.passes,
            on_progress=lambda update, loss, losses=losses: losses.append((update, loss)),
        )
        found += [Candidate(blended(champion, learned, share), rate, share, losses) for share in config.blends]
    return found


def blended(champion: QNet, learned: QNet, share: float) -> QNet:
    """A network whose weights lie between: 0 is the champion, 1 is who learned.

    Between two networks of one origin the weights still are one network, and less of what the champion knew is lost
    (Wortsman et al., "Robust fine-tuning of zero-shot models", CVPR 2022).
    """
    if share == 1:
        return learned
    net = copy.deepcopy(champion)
    with torch.no_grad():
        for mine, theirs in zip(net.parameters(), learned.parameters(), strict=True):
            mine.lerp_(theirs, share)
    return net
