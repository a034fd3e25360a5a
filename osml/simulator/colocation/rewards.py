"""The two rewards of Model-C, as functions of what was measured before and after an action."""

from __future__ import annotations

import numpy as np

from osml.simulator.columns import FloatArray, IntArray


def entropy_rewards(
    before: FloatArray, after: FloatArray, taken: IntArray, cpus: int, ways: int, price: float
) -> FloatArray:
    """Rewards (nodes, services): E_S(before) - E_S(after) - price x share of the node that the service took.

    `before` and `after` are E_S (nodes,), `taken` (nodes, services, 2) the cores and ways that each got: all of both
    would be a share of 1, what is given back counts negative.
    """
    share = 0.5 * (taken[:, :, 0] / cpus + taken[:, :, 1] / ways)
    return (before - after)[:, None] - price * share


def latency_rewards(before_ms: FloatArray, after_ms: FloatArray, taken: IntArray) -> FloatArray:
    """Rewards (nodes, services) of OSML, section 4.3: +-log(1 + |change of the mean latency in ms|) - (cores + ways).

    The logarithm is the natural one. Where one of the latencies is not known (NaN), only what was taken counts.
    """
    change = np.nan_to_num(before_ms - after_ms, nan=0.0)
    return np.sign(change) * np.log1p(np.abs(change)) - taken.sum(axis=2)
