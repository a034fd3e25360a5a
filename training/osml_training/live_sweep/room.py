"""What the swept service can be given without taking from its neighbours what they need, and who gets the rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from osml.allocation.fair import equal_split
from osml.allocation.limits import Budget, Limits, budgets
from osml.base.failure import MachineError
from osml.datasets.label import FEWEST_CELLS
from osml.domain import Observation, Partition, Platform, Region, usable_domains
from osml_training.live_sweep.design import Bools, Cell

OF_ONE_CACHE = "set cpu.cpus of the agent to the CPUs of one cache (`lscpu -e=CPU,CACHE` shows them)"

_HEADROOM = 2.0
"""Times the CPU time that a neighbour used: what it keeps, with one unit more."""

_MORE = 1.25
"""Times what a neighbour had when it missed its target: what it keeps from then on."""


@dataclass
class Room:
    """The node, and the least of cores and ways that each neighbour keeps."""

    service: str
    cores: Budget
    ways: Budget | None
    least_cores: dict[str, int]
    least_ways: dict[str, int]

    @property
    def shape(self) -> tuple[int, int]:
        """(core units, ways) of the node; 1 way where the cache can't be partitioned."""
        return self.cores.total, self.ways.total if self.ways else 1

    def allowed(self) -> Bools:
        """Cells that leave every neighbour its least, within the operator's limits."""
        cores, ways = np.indices(self.shape) + 1
        own = self.cores.limits[self.service]
        out = (own.least <= cores) & (cores <= min(own.most, self.cores.total - sum(self.least_cores.values())))
        if self.ways is not None:
            own = self.ways.limits[self.service]
            out &= (own.least <= ways) & (ways <= min(own.most, self.ways.total - sum(self.least_ways.values())))
        return out

    def partition(self, cell: Cell, mba: int | None) -> Partition:
        """The cell for the service, and the rest in isolated parts, as equal as the leasts allow."""
        rest = self._rest(self.cores, self.least_cores, cell[0] + 1)
        ways = {} if self.ways is None else self._rest(self.ways, self.least_ways, cell[1] + 1)
        regions = [Region([self.service], cell[0] + 1, cell[1] + 1 if self.ways else 0)]
        regions += [Region([name], units, ways.get(name, 0)) for name, units in rest.items()]
        return Partition(regions, {} if mba is None else {self.service: mba})

    @staticmethod
    def _rest(budget: Budget, least: dict[str, int], taken: int) -> dict[str, int]:
        limits = {name: Limits(units, max(units, budget.limits[name].most)) for name, units in least.items()}
        return equal_split(budget.total - taken, list(least), limits)

    def give(self, cell: Cell, troubled: list[str], mba: int | None) -> None:
        """From now on these neighbours keep more than they have beside this cell."""
        partition = self.partition(cell, mba)
        for least, had in (
            (self.least_cores, partition.cores_of),
            (self.least_ways, partition.ways_of),
        ):
            for name in troubled:
                if name in least:
                    least[name] = max(least[name], had(name) + 1, round(_MORE * had(name)))


def check_room(room: Room, platform: Platform) -> None:
    """MachineError where the cells of a sweep would be too few for a label, or would not be what the rows say."""
    caches = len(usable_domains(platform))
    if platform.ways is not None and caches > 1:
        raise MachineError(
            f"the agent uses {caches} cache domains, expected one: a service on several has the ways of each; "
            f"{OF_ONE_CACHE}"
        )
    cells = int(room.allowed().sum())
    if cells < FEWEST_CELLS:
        raise MachineError(
            f"{room.service} can have {cells} different allocations here, expected at least {FEWEST_CELLS}; "
            "match it by its cgroup and set cpu.quantum of the agent to 0.1, or stop neighbours"
        )


def room_of(observations: list[Observation], service: str) -> Room:
    """The room on a node that was looked at. MachineError where the service can have nothing beside its neighbours."""
    last = observations[-1]
    found = {budget.resource: budget for budget in budgets(last)}
    cores, ways = found["cores"], found.get("ways")
    neighbours = sorted(one.name for one in last.services if one.name != service)
    used: dict[str, float] = dict.fromkeys(neighbours, 0.0)
    for observation in observations:
        for one in observation.services:
            if one.name in used and one.kind == "lc":  # a job takes whatever it gets, that is no need
                used[one.name] = max(used[one.name], one.counters.cpu_usage_cores or 0.0)
    quantum = last.platform.core_quantum
    least_cores = {
        name: max(cores.limits[name].least, 1 + int(np.ceil(_HEADROOM * used[name] / quantum)) if used[name] else 1)
        for name in neighbours
    }
    # Nobody can read the need of cache from a counter: services with a target keep a fair part, jobs the least.
    lc = {one.name for one in last.services if one.kind == "lc"}
    fair = 0 if ways is None else ways.total // len(last.services)
    least_ways = {} if ways is None else {n: max(ways.limits[n].least, fair if n in lc else 0) for n in neighbours}
    if last.platform.max_groups is not None and ways is not None and len(neighbours) + 2 > last.platform.max_groups:
        raise MachineError(
            f"{len(neighbours) + 1} services need a cache group each, but the node has {last.platform.max_groups} "
            "with the default one: leave neighbours out of the configuration"
        )
    room = Room(service, cores, ways, least_cores, least_ways)
    if not room.allowed().any():
        raise MachineError(
            f"nothing is left for '{service}': its neighbours keep {sum(least_cores.values())} of {cores.total} core "
            f"units (twice what they use: {', '.join(f'{name} {units}' for name, units in least_cores.items())})"
        )
    return room
