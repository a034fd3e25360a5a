"""Fitted Q on tuples that lie in memory: DQN's update (OSML section 4.3) for all actions of a status at once.

The worth of what comes next changes only when the target network does, and it is a property of the status: so it is
computed once a synchronisation for every status, and an update looks it up for its 49 actions. One pass of the network
then learns from up to 49 tuples.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch's own annotations have gaps.
from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from osml.base.failure import Failure
from osml.predictors.actions import N_ACTIONS
from osml_training.dqn.config import OfflineConfig
from osml_training.dqn.qnet import QNet
from osml_training.dqn.rewards import costs_of
from osml_training.dqn.state import STATE
from osml_training.dqn.transitions import Transitions
from osml_training.networks import ignore_unmeasured
from osml_training.train.groups import membership
from osml_training.train.loop import deterministic, hide
from osml_training.train.scaling import scaling_by

_CHUNK = 32_768
_WALKS, _STEPS = 50_000, 20


class Progress(NamedTuple):
    """What was done between two synchronisations: mean loss, tuples learned from, seconds of it."""

    updates: int
    loss: float
    tuples: int
    seconds: float


class Statuses(NamedTuple):
    """Transitions as tensors. `x` (rows, width) scaled; `next` (rows, 49) rows, 0 where there is none.

    `told` (rows,): what rewards are made of is known. `legal` (rows, 49): the action leads somewhere; `known`: it has a
    reward, too, and is learned from.
    """

    x: Tensor
    next: Tensor
    told: Tensor
    legal: Tensor
    known: Tensor


def new_qnet(found: Transitions, config: OfflineConfig) -> QNet:
    """An untrained network, scaled for these statuses."""
    raw = found.states[:, [STATE.index(name) for name in config.inputs]]
    scaling = scaling_by(raw, config.inputs, masked=config.masked)
    net = QNet(scaling, hidden=config.hidden, masked=config.masked, seed=config.seed)
    ignore_unmeasured(net.linears()[0], raw)
    return net


def scaled(net: QNet, found: Transitions, config: OfflineConfig) -> Tensor:
    """What goes into the first layer, of all statuses."""
    places = [STATE.index(name) for name in config.inputs]
    with torch.no_grad():
        return torch.cat([net.scale(part[:, places]) for part in torch.from_numpy(found.states).split(_CHUNK)])


def tensors_of(net: QNet, found: Transitions, config: OfflineConfig) -> Statuses:
    """The transitions, ready to be learned from."""
    legal = found.next >= 0
    following = np.where(legal, found.next, 0)
    measure = found.q_i if config.reward.kind == "entropy" else found.column("mean_ms")
    is_known = ~np.isnan(measure)
    known = legal & is_known[following] & is_known[:, None]
    if config.known < 1.0:
        known &= np.random.default_rng([config.seed, 1]).random(known.shape, np.float32) < config.known
    tensors = (torch.from_numpy(array) for array in (following, is_known, legal, known))
    return Statuses(scaled(net, found, config), *tensors)


class _Rewards:
    """What the tuples of a batch are paid; the arithmetic of `rewards` in torch."""

    def __init__(self, found: Transitions, config: OfflineConfig):
        self.latency, self.cliff = config.reward.kind == "latency", config.reward.cliff
        self.measure = torch.from_numpy(np.nan_to_num(found.column("mean_ms") if self.latency else found.q_i))
        self.costs = torch.from_numpy(costs_of(*found.platform, config.reward))

    def gain(self, before: Tensor, after: Tensor) -> Tensor:
        """The reward without the cost of the action, any shape."""
        gain = before - after
        if self.latency:
            return torch.sign(gain) * torch.log1p(gain.abs())
        return gain - self.cliff * ((before == 0) & (after > 0)) if self.cliff else gain

    def targets(self, places: Tensor, following: Tensor, worth: Tensor) -> Tensor:
        """Reward + gamma x worth of what follows, (batch, 49); `worth` (rows,) is gamma x that of every status."""
        flat = following.reshape(-1)
        gain = self.gain(self.measure[places, None], self.measure[flat].view_as(following))
        return gain - self.costs + worth[flat].view_as(following)


def worth_of(
    net: QNet, target: QNet, data: Statuses, rewards: _Rewards, config: OfflineConfig
) -> tuple[Tensor, Tensor]:
    """Gamma times the worth of every status, and where its best legal action leads, both (rows,).

    The worth is that of the best legal action, as the target network says; of those that lead to a status whose measure
    is known. Where none does, nothing more is earned: what nobody measured is no met target.

    `sweeps` of policy evaluation then put what the data say in the place of what the network says: with n of them it
    is what the greedy policy earns in n steps over the data, and only after these the target network's opinion.
    """
    worth, best = torch.empty(len(data.x)), torch.empty(len(data.x), dtype=torch.int64)
    ends = torch.empty(len(data.x), dtype=torch.bool)
    with torch.no_grad():
        for first in range(0, len(data.x), _CHUNK):
            part = slice(first, first + _CHUNK)
            theirs = target.answer(data.x[part])
            chooser = net.answer(data.x[part]) if config.double else theirs
            may = data.legal[part] & data.told[data.next[part]]
            best[part] = chooser.masked_fill(~may, -torch.inf).argmax(1)
            ends[part] = ~may.any(1)
            worth[part] = theirs.gather(1, best[part, None])[:, 0]
        worth = worth.masked_fill(ends, 0.0)
        following = data.next.gather(1, best[:, None])[:, 0]
        following = torch.where(ends, torch.arange(len(ends), dtype=following.dtype), following)
        if config.sweeps:
            earned = rewards.gain(rewards.measure, rewards.measure[following]) - rewards.costs[best]
            earned = earned.masked_fill(ends | ~data.told, 0.0)
            for _ in range(config.sweeps):
                worth = earned + config.gamma * worth[following]
    return config.gamma * worth, following


def visited(following: Tensor, generator: torch.Generator) -> Tensor:
    """Statuses that the greedy policy comes through, from random ones on; one number for each visit."""
    rows = torch.randint(len(following), (_WALKS,), generator=generator)
    path: list[Tensor] = []
    for _ in range(_STEPS):
        rows = following[rows].long()
        path.append(rows)
    return torch.cat(path)


def loss_of(q: Tensor, targets: Tensor, known: Tensor, legal: Tensor, conservative: float) -> Tensor:
    """Mean squared error over the known tuples, and CQL(H) over them where `conservative` is above 0."""
    weight = known.float()
    count = weight.sum().clamp(min=1)
    loss = (weight * (q - targets).square()).sum() / count
    if conservative > 0:
        high = q.masked_fill(~legal, -torch.inf).logsumexp(1, keepdim=True)
        loss = loss + conservative * (weight * (high - q)).sum() / count
    return loss


def fit(
    net: QNet, found: Transitions, config: OfflineConfig, on_progress: Callable[[Progress], None] | None = None
) -> list[Progress]:
    """Learn in place. Same seed, same weights. Raises Failure where the loss is not finite."""
    deterministic()
    data, rewards = tensors_of(net, found, config), _Rewards(found, config)
    target = copy.deepcopy(net)
    optimiser = torch.optim.RMSprop(net.parameters(), config.learning_rate, alpha=0.9)

    def half_cosine(step: int) -> float:
        return 0.5 * (1 + np.cos(np.pi * min(step / config.updates, 1.0)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, half_cosine)
    members = torch.from_numpy(membership(config.inputs))
    generator = torch.Generator().manual_seed(config.seed + 1)
    on_policy = round(config.on_policy * config.batch)
    done: list[Progress] = []
    order = torch.empty(0, dtype=torch.int64)
    for first in range(0, config.updates, config.sync):
        started, summed, tuples = time.monotonic(), 0.0, 0
        worth, following = worth_of(net, target, data, rewards, config)
        seen = visited(following, generator) if on_policy else order
        target.load_state_dict(net.state_dict())
        updates = min(config.sync, config.updates - first)
        for _ in range(updates):
            if len(order) < min(config.batch - on_policy, len(data.x)):
                order = torch.randperm(len(data.x), generator=generator)
            places, order = order[: config.batch - on_policy], order[config.batch - on_policy :]
            if on_policy:
                places = torch.cat([places, seen[torch.randint(len(seen), (on_policy,), generator=generator)]])
            x, known = data.x[places], data.known[places]
            targets = rewards.targets(places, data.next[places], worth)
            if config.drop_counters:
                x = hide(x, members, config.drop_counters, generator)
            loss = loss_of(net.answer(x), targets, known, data.legal[places], config.conservative)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            summed += float(loss.detach())
            tuples += int(known.sum())
        if not np.isfinite(summed):
            raise Failure(
                f"the loss after {first + updates} updates is {summed}: lower learning_rate ({config.learning_rate:g})"
            )
        done.append(Progress(first + updates, summed / updates, tuples, time.monotonic() - started))
        if on_progress is not None:
            on_progress(done[-1])
    return done


def q_of(net: QNet, found: Transitions, config: OfflineConfig) -> NDArray[np.float32]:
    """Q of all actions of all statuses, (rows, 49)."""
    x = scaled(net, found, config)
    out = np.empty((len(x), N_ACTIONS), np.float32)
    with torch.no_grad():
        for first in range(0, len(x), _CHUNK):
            out[first : first + _CHUNK] = net.answer(x[first : first + _CHUNK]).numpy()
    return out
