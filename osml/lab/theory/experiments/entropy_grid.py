"""E_S of a mix under policies on nodes of fewer cores and ways (Ah-Q sections VII-B and VII-C, figures 11 and 12)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.entropy import RELATIVE_IMPORTANCE, be_entropy, combine, intolerable, lc_entropy
from osml.lab.theory.equivalence import EntropyCurve, Need, isentropic_line
from osml.lab.theory.experiments.settled_runs import Settled, Settling, check_policy, under_policy
from osml.simulator.cut_down import cut_down_node
from osml.simulator.mix import Mix
from osml.simulator.state import Node
from osml.simulator.surface import solo_speed

FloatArray = NDArray[np.float64]
BeMeasure = Literal["ipc", "work"]

AHQ_MIX = Mix({"xapian": 0.2, "moses": 0.2, "img-dnn": 0.2}, ("fluidanimate",))
"""What runs in Ah-Q's figures 11 and 12, with 4 threads of fluidanimate."""


@dataclass(frozen=True)
class GridSetup:
    """The mix, the sizes of node and the policies.

    `be_threads` are those of every BE job (None: one a CPU), `be_measure` what E_BE compares: instructions per cycle as
    Ah-Q writes, or instructions a second. `seeds` are runs with other measurement noise; E_S is their median.
    """

    mix: Mix = AHQ_MIX
    platform: str = "e5-2630v4"
    cores: tuple[int, ...] = tuple(range(4, 11))
    ways: tuple[int, ...] = (20,)
    policies: tuple[str, ...] = ("unmanaged", "arq")
    be_threads: int | None = 4
    be_measure: BeMeasure = "ipc"
    importance: float = RELATIVE_IMPORTANCE
    seeds: int = 1
    settling: Settling = field(default_factory=lambda: Settling(120.0, 60.0, 0.5))

    def __post_init__(self) -> None:
        for name in ("cores", "ways"):
            counts: tuple[int, ...] = getattr(self, name)
            if not counts or list(counts) != sorted(set(counts)):
                raise InputError(f"{name} are {list(counts)}, expected ascending numbers, such as 4-10")
        if not self.policies:
            raise InputError("no policy, expected at least one")
        if self.seeds < 1:
            raise InputError(f"seeds is {self.seeds}, expected at least 1")
        for name in self.policies:
            check_policy(name)


@dataclass(frozen=True)
class Cell:
    """Entropies of one policy on one size of node: medians over the seeds; E_S also least and most.

    `failed` says in one line why a policy could not be run there; the entropies are then None.
    """

    policy: str
    cores: int
    ways: int
    e_lc: float | None
    e_be: float | None
    e_s: float | None
    e_s_range: tuple[float, float] | None
    failed: str | None = None


@dataclass(frozen=True)
class Grid:
    """All cells of a setup."""

    setup: GridSetup
    cells: list[Cell]

    def e_s(self, policy: str) -> FloatArray:
        """E_S of a policy, shape (cores, ways). InputError where it failed somewhere."""
        found = {(cell.cores, cell.ways): cell for cell in self.cells if cell.policy == policy}
        failed = next((cell.failed for cell in found.values() if cell.failed), None)
        if failed or not found:
            raise InputError(f"policy '{policy}' lacks E_S in some cells: {failed or 'it did not run'}")
        return np.array([[found[n, w].e_s for w in self.setup.ways] for n in self.setup.cores], dtype=np.float64)

    def curve(self, policy: str, ways: int | None = None) -> EntropyCurve:
        """E_S over the cores at a number of ways (None: the most)."""
        column = self.setup.ways.index(self.setup.ways[-1] if ways is None else ways)
        return EntropyCurve(self.setup.cores, tuple(float(x) for x in self.e_s(policy)[:, column]))

    def line(self, policy: str, level: float) -> list[Need]:
        """The isentropic line of a policy: cores for an E_S at each number of ways."""
        return isentropic_line(self.setup.cores, self.e_s(policy), level)

    @property
    def policies_that_ran(self) -> list[str]:
        """Policies that have an E_S everywhere, in the order given."""
        return [name for name in self.setup.policies if not any(c.failed for c in self.cells if c.policy == name)]


def entropies(setup: GridSetup, node: Node, settled: Settled) -> tuple[float | None, float | None, float]:
    """(E_LC, E_BE, E_S) of what a node settled to."""
    e_lc = lc_entropy([intolerable(settled.tails_ms[s.name], s.target_ms) for s in node.services])
    slowdowns: list[float] = []
    for job in node.jobs:
        ipc, work = solo_speed(node.platform, job)
        alone, now = (ipc, settled.ipcs[job.name]) if setup.be_measure == "ipc" else (work, settled.work_gips[job.name])
        slowdowns.append(alone / now if now > 0 else float("inf"))
    e_be = be_entropy(slowdowns) if slowdowns else None
    found = combine(e_lc, e_be, setup.importance)
    return e_lc, e_be, e_lc if found is None else found


def run_cell(setup: GridSetup, policy: str, cores: int, ways: int) -> Cell:
    """One policy on one size of node, over all seeds."""
    node = cut_down_node(setup.mix, setup.platform, cores, ways, setup.be_threads)
    rows: list[tuple[float | None, float | None, float]] = []
    try:
        for seed in range(setup.seeds):
            times = replace(setup.settling, seed=setup.settling.seed + seed)
            rows.append(entropies(setup, node, under_policy(node, setup.mix.loads, policy, times)))
    except Exception as error:  # policies are plug-ins: one that fails must not cost the others' cells
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return Cell(policy, cores, ways, None, None, None, None, reason)
    e_lc, e_be, e_s = zip(*rows, strict=True)
    return Cell(policy, cores, ways, _median(e_lc), _median(e_be), _median(e_s), (min(e_s), max(e_s)))


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(median(known)) if known else None


def _plan(setup: GridSetup) -> Iterable[tuple[str, int, int]]:
    return ((policy, n, w) for policy in setup.policies for n in setup.cores for w in setup.ways)


def run_grid(setup: GridSetup, workers: int = 1, progress: Callable[[int, int], None] | None = None) -> Grid:
    """Run all cells; `progress` is told (done, in all). The result does not depend on the number of workers."""
    for cores in setup.cores:  # wrong sizes and names are found before anything runs
        for ways in setup.ways:
            cut_down_node(setup.mix, setup.platform, cores, ways, setup.be_threads)
    if not setup.mix.loads:
        raise InputError("the mix has no LC service, expected at least one, such as moses=0.4")
    plan = list(_plan(setup))
    cells: list[Cell] = []
    if workers <= 1:
        for policy, n, w in plan:
            cells.append(run_cell(setup, policy, n, w))
            if progress is not None:
                progress(len(cells), len(plan))
        return Grid(setup, cells)
    with ProcessPoolExecutor(workers) as pool:
        for cell in pool.map(run_cell, [setup] * len(plan), *zip(*plan, strict=True)):
            cells.append(cell)
            if progress is not None:
                progress(len(cells), len(plan))
    return Grid(setup, cells)


def pairs_of(policies: Sequence[str]) -> list[tuple[str, str]]:
    """(better, worse) to compare: every policy against all that were named before it, the first being the baseline."""
    return [(b, a) for k, a in enumerate(policies) for b in policies[k + 1 :]]
