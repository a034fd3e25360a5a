"""One step of Q-learning: policy and target network, double Q, RMSProp (OSML section 4.3, table 4)."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch's own annotations have gaps.
from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from osml.base.failure import Failure
from osml_training.dqn.qnet import QNet
from osml_training.dqn.transitions import Floats32, Tuples
from osml_training.online_dqn.config import OnlineConfig
from osml_training.online_dqn.replay import Replay, some

Policy = Callable[[Floats32, NDArray[np.int8]], NDArray[np.int64]]
"""(states (rows, inputs) raw, legal (rows, 49)) -> actions (rows,)."""


def greedy(net: QNet) -> Policy:
    """The policy that takes the legal action of the highest value; it follows the net as that learns."""

    def act(states: Floats32, legal: NDArray[np.int8]) -> NDArray[np.int64]:
        with torch.no_grad():
            found = net(torch.from_numpy(states), torch.from_numpy(legal)).argmax(dim=1)
        return found.numpy()

    return act


class Learner:
    """Learns in place on `net`, the policy network; the target network is a copy of it.

    `offline` tuples make up the share `config.offline_share` of every batch. Same seed, same weights.
    """

    def __init__(self, net: QNet, config: OnlineConfig, offline: Tuples | None = None):
        self.net, self.config = net, config
        self.target = copy.deepcopy(net).requires_grad_(False)
        self.anchor = copy.deepcopy(net).requires_grad_(False)
        self.updates = 0
        self._bound = config.bound()
        self._optimiser = torch.optim.RMSprop(net.parameters(), config.learning_rate)
        self._loss = torch.nn.functional.mse_loss if config.loss == "mse" else torch.nn.functional.huber_loss
        self._rng = np.random.default_rng([config.seed, 3])
        self._offline = offline if offline is not None and len(offline.before) else None

    def anneal(self, done: float) -> None:
        """The learning rate of when the share `done` of everything is over."""
        for group in self._optimiser.param_groups:
            group["lr"] = self.config.rate_at(done)

    def synchronise(self) -> None:
        """The target network becomes the policy network."""
        self.target.load_state_dict(self.net.state_dict())

    def learn(self, replay: Replay, *, penalty_everywhere: bool = False) -> float:
        """One update on a random batch, its loss. Raises Failure where that is not finite.

        The conservative penalty is on the offline part; with `penalty_everywhere` on what is in `replay`, too.
        """
        rows = self.config.batch
        theirs = 0
        parts: list[Tuples] = []
        if self._offline is not None:
            theirs = round(rows * self.config.offline_share)
            parts.append(some(self._offline, self._rng.integers(0, len(self._offline.before), theirs)))
        if theirs < rows:
            parts.append(replay.sample(rows - theirs, self._rng))
        batch = parts[0] if len(parts) == 1 else Tuples._make(np.concatenate(both) for both in zip(*parts, strict=True))
        loss = self.update(batch, rows if penalty_everywhere else theirs, theirs)
        if not np.isfinite(loss):
            raise Failure(
                f"the loss of update {self.updates} is {loss}: lower learning_rate (now {self.config.learning_rate:g})"
            )
        return loss

    def update(self, batch: Tuples, penalised: int = 0, anchored: int = 0) -> float:
        """One update on a batch, its loss; the conservative penalty is on the first `penalised` rows, the first
        `anchored` are held where they were if the config says so.
        """
        before, action, reward, after, legal = (torch.from_numpy(part) for part in batch)
        config, net = self.config, self.net
        with torch.no_grad():
            ahead = net.scale(after)
            worth = self.target.answer(ahead).masked_fill(legal == 0, -torch.inf)
            choice = net.answer(ahead).masked_fill(legal == 0, -torch.inf) if config.double_q else worth
            best = worth.gather(1, choice.argmax(dim=1, keepdim=True))
            if self._bound is not None:
                best = torch.minimum(best, self._bound(after))
            wanted = reward + config.gamma * best[:, 0]
        q = net(before)
        chosen = q.gather(1, action[:, None])[:, 0]
        held = anchored if config.anchor else 0
        loss = self._loss(chosen[held:], wanted[held:]) if held < len(chosen) else torch.zeros(())
        if held:
            with torch.no_grad():
                kept = self.anchor(before[:held])
            loss = loss + config.anchor * torch.nn.functional.mse_loss(q[:held], kept)
        if config.conservative and penalised:
            mine = q[:penalised]
            loss = loss + config.conservative * (torch.logsumexp(mine, dim=1) - chosen[:penalised]).mean()
        self._optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), config.grad_clip)
        self._optimiser.step()
        self.updates += 1
        return float(loss.detach())
