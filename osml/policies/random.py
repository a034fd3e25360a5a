"""Random: another legal partition in every interval, drawn uniformly. The lower bound for everything that learns.

Every LC service has an isolated part, BE jobs share one, and all units are in use (as PARTIES and CLITE divide a node).
It looks at no measurement.
"""

from __future__ import annotations

from msgspec import Struct

from osml.allocation.compositions import cut_of, draw_cuts, seeded, with_parts
from osml.allocation.division import divide
from osml.allocation.policy import Plan
from osml.domain import Observation, Partition, Reason


class RandomState(Struct, frozen=True):
    """`draws` counts the partitions drawn so far: with the seed it says which one comes next."""

    seed: int
    draws: int = 0
    wanted: Partition | None = None


class Random:
    """A uniform draw from the partitions that give each LC service and the BE jobs together a part of their own."""

    name = "random"
    version = 1
    State = RandomState

    def initial(self, observation: Observation, seed: int) -> RandomState:
        """Nothing drawn yet."""
        return RandomState(seed)

    def decide(self, observation: Observation, state: RandomState) -> tuple[Plan, RandomState]:
        """Cores and ways are drawn independently of each other and of what was before."""
        order = [s.name for s in observation.services if s.kind == "lc"]
        sharers = tuple(s.name for s in observation.services if s.kind == "be")
        division = divide(observation, order, lambda _: sharers, state)
        rng = seeded(state.seed, state.draws)
        for resource, holding in division.holdings.items():
            cut = cut_of(holding)
            division.holdings[resource] = with_parts(holding, cut, draw_cuts(cut, 1, rng)[0].tolist())
        pool = f"be:{','.join(sharers)}" if sharers else "idle"
        drawn = Reason(text=f"random draw {state.draws + 1}: {division.summary(pool)}")
        partition = division.partition()
        plan = Plan(partition, [drawn, *division.reasons()], division.infeasible())
        return plan, RandomState(state.seed, state.draws + 1, partition)
