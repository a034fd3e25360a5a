"""What Ah-Q prints about E_S over resources, beside what a grid shows (sections VII-B and VII-C)."""

from __future__ import annotations

from dataclasses import dataclass

from osml.lab.theory.equivalence import EntropyCurve, cores_needed, equivalence
from osml.lab.theory.experiments.entropy_grid import AHQ_MIX, Grid

TABLE_2 = EntropyCurve((6, 7, 8), (0.55, 0.19, 0.0))
"""E_S of Unmanaged with all ways. At E_S 0.25 it needs 6.83 cores, not figure 12(a)'s 7.61: that figure must be of
another load or fewer ways, and does not say which."""


@dataclass(frozen=True)
class Published:
    """A number of the paper, and ours where the grid reaches it (else `why` it does not)."""

    figure: str
    text: str
    published: float
    ours: float | None
    why: str = ""

    @property
    def shown(self) -> str:
        """Ours, for a table."""
        return self.why or "not in the measured range" if self.ours is None else f"{self.ours:.3g}"


def _entropies(grid: Grid) -> list[Published]:
    rows: list[Published] = []
    setup = grid.setup
    for policy, cores, published in (
        ("unmanaged", 6, 0.53),
        ("unmanaged", 10, 0.006),
        ("arq", 6, 0.15),
        ("arq", 10, 0.008),
    ):
        if policy in grid.policies_that_ran and cores in setup.cores and 20 in setup.ways:
            found = grid.curve(policy, 20).at(cores)
            rows.append(Published("11", f"E_S of {policy}, {cores} cores, 20 ways", published, found))
    return rows


def _cores(grid: Grid) -> list[Published]:
    if not {"unmanaged", "arq"} <= set(grid.policies_that_ran) or grid.setup.ways[-1] != 20:
        return []  # the published numbers are of 20 ways
    unmanaged, arq = grid.curve("unmanaged"), grid.curve("arq")
    rows = [
        Published("12(a)", "cores of unmanaged at E_S 0.25", 7.61, cores_needed(unmanaged, 0.25).cores),
        Published("12(a)", "cores of arq at E_S 0.25", 5.61, cores_needed(arq, 0.25).cores),
        Published("12(a)", "cores that arq saves at E_S 0.25", 2.0, equivalence(arq, unmanaged, 0.25)),
        Published("12(a)", "cores that arq saves at E_S 0.4", 1.83, equivalence(arq, unmanaged, 0.4)),
    ]
    table = round(cores_needed(TABLE_2, 0.25).cores or 0.0, 2)
    text = "cores of unmanaged at E_S 0.25, between the rows"
    rows.append(Published("table II", text, table, cores_needed(unmanaged, 0.25).cores))
    return rows


def _lines(grid: Grid) -> list[Published]:
    rows: list[Published] = []
    ran = grid.policies_that_ran
    for other, saved in (("parties", 1.0), ("clite", 1.0), ("unmanaged", 2.0)):
        if "arq" in ran and other in ran and 8 in grid.setup.ways:
            found = equivalence(grid.curve("arq", 8), grid.curve(other, 8), 0.3)
            rows.append(Published("12(b)", f"cores that arq saves against {other}, 8 ways, E_S 0.3", saved, found))
    return rows


def published_beside(grid: Grid) -> list[Published]:
    """The paper's numbers, where the grid is of the paper's mix, platform and measure of jobs; else none."""
    setup = grid.setup
    papers = (AHQ_MIX, "e5-2630v4", 4, "ipc")
    if (setup.mix, setup.platform, setup.be_threads, setup.be_measure) != papers:
        return []
    return _entropies(grid) + _cores(grid) + _lines(grid)
