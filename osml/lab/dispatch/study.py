"""Where the two-level thresholds stay good enough: the farms of `beyond`, over loads and interference rates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from osml.dispatch.mdp.model import Farm
from osml.dispatch.mdp.parameters import Epochs, FarmParameters
from osml.lab.dispatch.beyond import Comparison, compare, correlated, different_speeds, several_levels

ALPHAS = (0.3, 3.0, 30.0)
ARRIVALS_PER_SERVER = (2.0, 7.5, 17.5)
SERVERS = (2, 4)

EXTENSIONS: dict[str, Callable[[FarmParameters], Farm]] = {
    "levels 5 and 1": lambda p: several_levels(p, (5.0, 1.0), (0.5, 0.5)),
    "levels 20 and 1": lambda p: several_levels(p, (20.0, 1.0), (0.5, 0.5)),
    "speeds 1 and 0.9": lambda p: different_speeds(p, (p.servers // 2, p.servers // 2), (1.0, 0.9)),
    "speeds 1 and 0.5": lambda p: different_speeds(p, (p.servers // 2, p.servers // 2), (1.0, 0.5)),
    "correlated, strength 0.5": lambda p: correlated(p, 0.5, p.alpha_high / 5),
    "correlated, strength 1": lambda p: correlated(p, 1.0, p.alpha_high / 5),
}


@dataclass(frozen=True)
class Row:
    """One kind of farm over the grid. Losses against the optimum, percent: two-level thresholds, then non-idling."""

    name: str
    settings: int
    median_loss_pct: float
    worst_loss_pct: float
    worst_at: str
    median_non_idling_pct: float
    worse_than_non_idling: int


def comparisons(build: Callable[[FarmParameters], Farm], epochs: Epochs) -> Iterator[tuple[str, Comparison]]:
    """The grid: mu 50 and 1, interference half of the time."""
    for servers in SERVERS:
        for alpha in ALPHAS:
            for per_server in ARRIVALS_PER_SERVER:
                parameters = FarmParameters(servers, servers * per_server, 50.0, 1.0, alpha, alpha, epochs)
                where = f"k = {servers}, alpha = {alpha:g}, arrival = {servers * per_server:g}"
                yield where, compare(build(parameters))


def summarise(name: str, epochs: Epochs = "literal") -> Row:
    """Solve the whole grid of one extension."""
    found = list(comparisons(EXTENSIONS[name], epochs))
    losses = sorted(comparison.loss_pct for _, comparison in found)
    idle = sorted(100.0 * (c.solution.mean_non_idling / c.solution.mean_optimal - 1.0) for _, c in found)
    where, worst = max(found, key=lambda item: item[1].loss_pct)
    worse = sum(c.mean_two_level > c.solution.mean_non_idling * (1 + 1e-9) for _, c in found)
    return Row(name, len(found), losses[len(losses) // 2], worst.loss_pct, where, idle[len(idle) // 2], worse)
