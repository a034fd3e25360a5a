"""What comes of following a policy over measured surfaces: where it ends, what it falls off, how fast. No torch.

A policy is here the action that it takes in each status of `Transitions`, (rows,).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from osml.predictors.actions import NO_CHANGE
from osml.predictors.q_function import greedy as best_of
from osml_training.dqn.rewards import MOVES, Reward
from osml_training.dqn.transitions import Transitions, rewards_of

Ints = NDArray[np.int64]
Floats32 = NDArray[np.float32]

NEAR = 2
"""At OAA is who meets the target with at most so many cores and ways more or less than it."""

LIMIT = 30
"""Steps that a walk may take."""


def greedy(q: Floats32, found: Transitions, margin: float = 0.0) -> Ints:
    """The legal action of the highest value in each status; none that is not better than none by `margin`."""
    return best_of(q, found.next >= 0, margin)


def refused(q: Floats32, found: Transitions) -> float:
    """Of all legal actions that are falls off the cliff the share that has a lower value than changing nothing."""
    falls = lower = 0
    for action in range(len(MOVES)):
        after = found.next[:, action]
        fall = (after >= 0) & (found.q_i == 0) & (found.q_i[after] > 0)
        falls += int(fall.sum())
        lower += int((q[fall, action] < q[fall, NO_CHANGE]).sum())
    return lower / max(falls, 1)


def at_random(found: Transitions, rng: np.random.Generator) -> Ints:
    """A random legal action in each status."""
    return greedy(rng.random(found.next.shape, np.float32), found)


def towards(found: Transitions, aims: NDArray[np.float64]) -> Ints:
    """Straight to a cell, (rows, 2) cores and ways, as far as an action goes; nothing where there is none (NaN).

    With the OAA of the surface itself as aim nothing can do better: it is a bound, not a policy that one could have.
    """
    here = np.stack([found.column("cores"), found.column("ways")], axis=1)
    away = np.where(np.isnan(aims), 0.0, aims - here)
    wanted = np.clip(np.rint(away), -3, 3)
    distance = np.abs(MOVES[None, :, :] - wanted[:, None, :]).sum(axis=2)
    return greedy(-distance.astype(np.float32), found)


def walk(found: Transitions, actions: Ints, starts: Ints, steps: int = LIMIT) -> Ints:
    """(steps + 1, starts) rows that are passed through."""
    rows = [starts]
    for _ in range(steps):
        rows.append(found.next[rows[-1], actions[rows[-1]]].astype(np.int64))
    return np.stack(rows)


def earned(found: Transitions, actions: Ints, reward: Reward, gamma: float, steps: int = 2 * LIMIT) -> float:
    """Discounted reward of so many steps, mean over beginning in each status; a reward that is not known is 0."""
    rows = np.arange(len(actions))
    paid, after = np.nan_to_num(rewards_of(found, rows, actions, reward)), found.next[rows, actions]
    worth = np.zeros(len(rows))
    for _ in range(steps):
        worth = paid + gamma * worth[after]
    return float(worth.mean())


def one_step(found: Transitions, actions: Ints) -> dict[str, float]:
    """Over all statuses: where the policy's one action leads.

    `met`: the target is met afterwards; `could`: of at least one legal action; `kept`: of statuses that meet it, the
    share that still does; `crossings`: falls off the cliff for 10,000 actions that take something from a service that
    meets its target; `downward`: how many such there were.
    """
    rows = np.arange(len(actions))
    after = found.next[rows, actions]
    met_before, met = found.q_i == 0, found.q_i[after] == 0
    could = np.zeros(len(rows), np.bool_)
    for action in range(len(MOVES)):
        there = found.next[:, action]
        could |= (there >= 0) & (found.q_i[there] == 0)
    down = met_before & (MOVES[actions] < 0).any(axis=1)
    fell = down & (found.q_i[after] > 0)
    return {
        "met": float(met.mean()),
        "could": float(could.mean()),
        "kept": float(met[met_before].mean()),
        "crossings": 1e4 * float(fell.sum() / max(down.sum(), 1)),
        "downward": float(down.sum()),
    }


def walks(
    found: Transitions, actions: Ints, oaa: NDArray[np.float64], rng: np.random.Generator, starts: int = 8
) -> dict[str, Any]:
    """Walks from `starts` random cells of each run that has an OAA (`oaa` is (rows, 2), NaN where it has none).

    `arrived`: share that comes to OAA within LIMIT steps; `steps`: mean number of these; `ended_met`: share that
    ends within the target; `falls`: falls off the cliff for a walk; `cores`, `ways`: mean of what it ends with less
    OAA; `stays`: share that ends in an action that changes nothing; `settles`: share whose last 10 cells are one.
    """
    known = np.nonzero(~np.isnan(oaa[:, 0]))[0]
    order = rng.permutation(known)
    rank = np.empty(len(order), np.int64)  # of each row within its run, in random order
    by_run = np.argsort(found.run[order], kind="stable")
    runs, first = np.unique(found.run[order][by_run], return_index=True)
    sizes = np.diff(np.append(first, len(order)))
    rank[by_run] = np.arange(len(order)) - np.repeat(first, sizes)
    begin = order[rank < starts]
    path = walk(found, actions, begin)
    cell = np.stack([found.column("cores"), found.column("ways")], axis=1).astype(np.float64)
    away = cell[path] - oaa[path]  # (steps + 1, walks, 2)
    met = found.q_i[path] == 0
    there = met & (np.abs(away) <= NEAR).all(axis=2)
    arrived = there.any(axis=0)
    falls = (met[:-1] & (found.q_i[path[1:]] > 0)).sum(axis=0)
    last = path[-1]
    same = (cell[path[-10:]] == cell[last][None]).all(axis=(0, 2))
    return {
        "walks": len(begin), "runs": len(runs), "arrived": float(arrived.mean()),
        "steps": float(there.argmax(axis=0)[arrived].mean()) if arrived.any() else None,
        "ended_met": float(met[-1].mean()), "falls": float(falls.mean()), "cores": float(away[-1, :, 0].mean()),
        "ways": float(away[-1, :, 1].mean()), "stays": float((actions[last] == NO_CHANGE).mean()),
        "settles": float(same.mean()),
    }  # fmt: skip
