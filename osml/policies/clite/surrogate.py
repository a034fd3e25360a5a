"""CLITE's model of the score: a Gaussian process with a Matern 5/2 kernel, and the expected improvement it promises.

scikit-learn does the mathematics and is imported at first use: the rest of osml does not need it. The length scale is
the likeliest of a fixed grid, which needs no gradients and no restarts.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osml.base.extras import how_to_install
from osml.base.failure import MachineError

Floats = NDArray[np.float64]

EXPLORATION = 0.01  # zeta (HPCA 2020, section 4)
LEAST_SPREAD = 1e-3  # of scores that are all alike
LENGTH_SCALES = (0.3, 0.6, 1.2)  # in shares of the platform; shorter ones see corners only
NOISES = (0.001, 0.03, 0.3)  # share of the scores' variance that is chance: queues left by the sample before


def require_scikit_learn() -> None:
    """Raises MachineError where scikit-learn is not installed."""
    if find_spec("sklearn") is None:
        raise MachineError(f"the policy 'clite' needs scikit-learn, which is not installed: {how_to_install('clite')}")


class Surrogate:
    """What the scores of these partitions say about others. `points` (n, dimensions), `scores` (n,).

    exploration: improvements smaller than this don't count.
    """

    def __init__(self, points: Floats, scores: Floats, exploration: float = EXPLORATION) -> None:
        require_scikit_learn()
        from sklearn.gaussian_process import GaussianProcessRegressor  # noqa: PLC0415
        from sklearn.gaussian_process.kernels import Matern, WhiteKernel  # noqa: PLC0415

        self.best, self._exploration = float(scores.max()), exploration
        self._mean, self._scale = float(scores.mean()), max(float(scores.std()), LEAST_SPREAD)
        optimizer: Any = _likeliest
        kernel: Any = Matern(nu=2.5) + WhiteKernel()
        self._model: Any = GaussianProcessRegressor(kernel, optimizer=optimizer)
        self._model.fit(points, (scores - self._mean) / self._scale)
        self.noise = float(np.exp(self._model.kernel_.theta[1]))

    def expected_improvement(self, points: Floats) -> Floats:
        """By how much each point is expected to beat the best score so far, shape (n,).

        Noise is no improvement, and no score is above 1: E[min(f, 1) - (best + zeta)]+ for a Gaussian f.
        """
        mean, deviation = self._model.predict(points, return_std=True)
        mean = mean * self._scale + self._mean
        deviation = self._scale * np.sqrt(np.maximum(deviation**2 - self.noise, 1e-12))
        goal = min(1.0, self.best + self._exploration)
        return _excess(mean, deviation, goal) - _excess(mean, deviation, 1.0)


def _excess(mean: Floats, deviation: Floats, over: float) -> Floats:
    """E[max(0, f - over)] for Gaussian f."""
    from scipy.special import ndtr  # noqa: PLC0415

    gain = mean - over
    z = gain / deviation
    return np.asarray(gain * ndtr(z) + deviation * np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi))


def _likeliest(objective: Any, initial: Floats, bounds: Floats) -> tuple[Floats, float]:
    """The optimiser of scikit-learn's interface: the best of the grid (theta holds logarithms)."""
    grid = [np.log([scale, noise]) for scale in LENGTH_SCALES for noise in NOISES]
    costs = [float(objective(theta, eval_gradient=False)) for theta in grid]
    best = int(np.argmin(costs))
    return grid[best], costs[best]
