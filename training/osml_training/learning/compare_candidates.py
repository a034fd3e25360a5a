"""Is a candidate better than the champion, beyond noise? On what nodes really saw, and on the virtual node."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch's own annotations have gaps.
from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from osml.lab.bench.report.statistics import Estimate, mean
from osml_training.dqn.qnet import QNet
from osml_training.dqn.rewards import MOVES
from osml_training.learning.config import LearningConfig
from osml_training.learning.recorded import Recorded
from osml_training.online_dqn.evaluate import better, evaluate_greedy

Floats = NDArray[np.float64]
_CHOICE, _JUDGEMENT = 1_000_000, 2**33  # seeds of these episodes begin here; `LearningConfig.seed` is below 2^31
_LEAST_BLOCKS = 12  # fewer clusters say too little of how far apart they are
_LONGEST_MINUTES = 24 * 60


class HeldOut(NamedTuple):
    """Champion against candidate on experiences that neither has learned from, paired.

    `error`: by how much the candidate's squared error of Q is smaller (above 0 is better). `falls`: of the decisions
    after which a target was missed, the share that it would repeat or worsen, less the champion's (below 0 is better).
    `neglect`: the same for taking from a service that misses its target. `tuples` are so many, on which the champion's
    squared error is `champion_error` in the mean.
    """

    error: Estimate
    falls: Estimate
    neglect: Estimate
    tuples: int
    champion_error: float


class Virtual(NamedTuple):
    """Candidate less champion on the same episodes of the virtual node. Simulated. `e_s` below 0 is better.

    `e_s_since_first` compares with the champion before the first promotion: small losses must not add up.
    """

    e_s: Estimate
    e_s_since_first: Estimate
    falls: Estimate
    champion_e_s: float
    candidate_e_s: float


class Verdict(NamedTuple):
    """Whether to promote, and why or why not, in sentences."""

    promote: bool
    reasons: list[str]


def on_held_out(candidate: QNet, champion: QNet, held: Recorded, gamma: float) -> HeldOut:
    """Compare on `held`.

    Both are measured by reward + gamma x the mean of what both think comes after: so neither gains by thinking highly
    of the future. A candidate whose values are no numbers where the champion's are is worse by any measure: `error` is
    minus infinity.
    """
    ours, theirs = _values(candidate, held), _values(champion, held)
    target = held.tuples.reward + gamma * 0.5 * (ours.ahead + theirs.ahead)
    gain = (theirs.chosen - target) ** 2 - (ours.chosen - target) ** 2
    taken, moves = held.tuples.action, MOVES
    fell = held.before_met & ~held.after_met & (moves[taken] < 0).any(axis=1)
    missed = ~held.before_met

    def repeats(greedy: NDArray[np.int64]) -> Floats:
        return np.asarray((moves[greedy] <= moves[taken]).all(axis=1), np.float64)

    def takes(greedy: NDArray[np.int64]) -> Floats:
        return np.asarray((moves[greedy] <= 0).all(axis=1) & (moves[greedy] < 0).any(axis=1), np.float64)

    error = _by_block(gain, held, np.ones(len(gain), np.bool_))
    if (np.isfinite(theirs.chosen + theirs.ahead) & ~np.isfinite(ours.chosen + ours.ahead)).any():
        error = Estimate(-np.inf, -np.inf, -np.inf, len(gain))  # the mean would leave just these out
    return HeldOut(
        error,
        _by_block(repeats(ours.greedy) - repeats(theirs.greedy), held, fell),
        _by_block(takes(ours.greedy) - takes(theirs.greedy), held, missed),
        len(gain),
        float(((theirs.chosen - target) ** 2).mean()) if len(gain) else 0.0,
    )


class _Values(NamedTuple):
    chosen: Floats  # Q of the action that was taken
    ahead: Floats  # Q of the best legal action afterwards
    greedy: NDArray[np.int64]  # the action that this network would have taken


def _values(net: QNet, held: Recorded) -> _Values:
    with torch.no_grad():
        now = net(torch.from_numpy(held.tuples.before))
        later = net(torch.from_numpy(held.tuples.after), torch.from_numpy(held.tuples.legal_after))
        chosen = now.gather(1, torch.from_numpy(held.tuples.action)[:, None])[:, 0]
        greedy = now.masked_fill(torch.from_numpy(held.legal_before) == 0, -torch.inf).argmax(dim=1)
    return _Values(chosen.double().numpy(), later.max(dim=1).values.double().numpy(), greedy.numpy())


def _by_block(values: Floats, held: Recorded, rows: NDArray[np.bool_]) -> Estimate:
    """The mean over `rows` with its bootstrap interval, of which neighbouring minutes are resampled together.

    How long a gain or a loss lasts is not known: the widest interval counts, of blocks of 1, 2, 4, ... minutes, as
    long as there are enough blocks to resample.
    """
    found, minutes = _resampled(values, held.blocks(), rows), 2
    while len(set((blocks := held.blocks(minutes))[rows].tolist())) >= _LEAST_BLOCKS:
        longer = _resampled(values, blocks, rows)
        found, minutes = max(found, longer, key=lambda one: one.high - one.low), 2 * minutes
        if minutes > _LONGEST_MINUTES:
            break
    return found


def _resampled(values: Floats, blocks: NDArray[np.int64], rows: NDArray[np.bool_]) -> Estimate:
    clusters: dict[Hashable, list[float]] = {}
    for number, value in zip(blocks[rows].tolist(), values[rows].tolist(), strict=True):
        clusters.setdefault(number, []).append(value)
    return mean(clusters)


def choose(candidates: Sequence[QNet], champion: QNet, platform: str, config: LearningConfig) -> int:
    """The candidate that is surest to have a lower E_S than the champion: by the upper end of the interval, in pairs.

    In episodes that `on_virtual_node` does not use: so chance, which helped to choose it, does not help it there.
    """
    if len(candidates) == 1:
        return 0
    seeds = [_CHOICE + config.seed + k for k in range(config.episodes)]
    theirs = evaluate_greedy(champion, platform, seeds, horizon=config.horizon)
    bounds = [better(evaluate_greedy(n, platform, seeds, horizon=config.horizon), theirs).high for n in candidates]
    return int(np.argmin(np.nan_to_num(bounds, nan=np.inf)))


def on_virtual_node(
    candidate: QNet,
    champion: QNet,
    platform: str,
    config: LearningConfig,
    learned_from: str,
    first: QNet | None = None,
) -> Virtual:
    """Compare on episodes of this judgement; with the `first` champion, too, where that is another one.

    Their seeds follow from `learned_from`, a checksum in hexadecimal digits over what the candidate learned from. So
    every night has others: on episodes that stay, a champion would be chosen by what chance does in them.
    """
    start = _JUDGEMENT + config.seed + (int(learned_from[:8], 16) << 20)
    seeds = [start + k for k in range(config.episodes)]
    ours = evaluate_greedy(candidate, platform, seeds, horizon=config.horizon)
    theirs = evaluate_greedy(champion, platform, seeds, horizon=config.horizon)
    falls = mean((ours.falls - theirs.falls).tolist())
    e_s = better(ours, theirs)
    since = e_s if first is None else better(ours, evaluate_greedy(first, platform, seeds, horizon=config.horizon))
    return Virtual(e_s, since, falls, float(theirs.e_s.mean()), float(ours.e_s.mean()))


def judge(held: HeldOut, virtual: Virtual, config: LearningConfig) -> Verdict:
    """Promote who is better beyond noise somewhere, worse nowhere, and sure not to cost E_S."""
    against: list[str] = []
    e_s, error = virtual.e_s, held.error
    if not e_s.high <= config.margin:
        against.append(
            f"E_S on the virtual node may rise by {e_s.high:.4f} ({e_s.text('.4f')}), expected at most "
            f"{config.margin:g}"
        )
    since = virtual.e_s_since_first
    if since != e_s and not since.high <= config.margin:
        against.append(
            f"E_S on the virtual node may have risen by {since.high:.4f} since the first champion "
            f"({since.text('.4f')}), expected at most {config.margin:g}"
        )
    if virtual.falls.low > 0 and not e_s.high < 0:  # who meets targets at last can miss them again: E_S weighs both
        against.append(f"more falls off the cliff on the virtual node, by {virtual.falls.text()} per episode")
    if not error.high >= 0:
        against.append(f"larger error on held-out experiences, by {error.text()}")
    for found, words in (
        (held.falls, "more repetitions of held-out decisions after which a target was missed"),
        (held.neglect, "more actions that take resources from services below target"),
    ):
        if found.n and found.low > 0:
            against.append(f"{words}, by {found.text()}")
    if against:
        return Verdict(False, against)
    better_at: list[str] = []
    if error.low > config.least_gain * held.champion_error:
        better_at.append(
            f"the squared error of Q on {held.tuples} held-out tuples decreases by {error.text()} of "
            f"{held.champion_error:.3g}"
        )
    if e_s.high < 0:
        better_at.append(f"E_S on the virtual node decreases by {-e_s.value:.4f} ({e_s.text('.4f')})")
    if not better_at:
        return Verdict(
            False,
            [
                f"not significantly better: the squared error on held-out experiences decreases by {error.text()} "
                f"of {held.champion_error:.3g} (expected at least {config.least_gain:.0%}), E_S on the virtual node "
                f"changes by {e_s.text('.4f')}"
            ],
        )
    return Verdict(True, better_at)
