"""One core less than the OAA, where what is measured says so, too.

The OAA bears the loss of a core by definition; which services never come near that edge no prediction says with enough
certainty, but a calm cell shows it. Of no paper; docs/explanation/osml-policy.md has what each witness was worth.
"""

from __future__ import annotations

from osml.policies.osml.cliff_shield import units
from osml.policies.osml.node import Cell
from osml.policies.osml.working_plan import WorkingPlan

QUIET = 8
"""Intervals: in the cell, of predictions, and with all targets met by everybody, before a core is asked for."""

FAR_BELOW = 0.6
"""Latency over target, in the mean, below which the tail is far from its cliff."""

BUSY = 0.4
"""Share of its CPUs that a service uses at most after the step. The CPUs that are left idle are what a jump of the load
takes, or a neighbour who claims the cache that the service has beyond its ways."""

BESIDE_JOBS = 0.7
"""Latency over target that nobody may be beyond where BE jobs get the core: they make all others slower with it."""


def one_core_below(turn: WorkingPlan, name: str, cell: Cell) -> tuple[Cell, str]:
    """The cell less one core unit, and why, where every witness agrees; else the cell, and nothing.

    The witnesses: the conformal bound of RCliff, CPU time, latency, time, no missed target in such a cell at this load,
    and a cell that is not below the OAA already. Not beside BE jobs in the background, to which no core is worth
    anything, and not while somebody is set aside.
    """
    known, want = turn.known[name], turn.wants[name]
    if cell.cores < want.cores or turn.node.background or turn.on_leftovers or turn.pairs:
        return cell, ""
    if (
        known.settled < QUIET
        or known.count < QUIET
        or known.missed_balance
        or known.used is None
        or known.level is None
    ):
        return cell, ""
    found = turn.node.bounded(name, cell.cores - 1, cell.ways)
    most = BUSY * found.cores * turn.quantum
    if found.cores >= cell.cores or known.level >= FAR_BELOW or not 0.0 <= known.used <= most:
        return cell, ""
    met = min(one.met for one in turn.known.values()) if all(map(turn.meets, turn.services)) else 0
    if met < QUIET:
        return cell, ""
    if turn.node.be and any(one.level is None or one.level > BESIDE_JOBS for one in turn.known.values()):
        return cell, ""
    if found.cores < units(known.upper[0], turn.quantum) or cell.ways < want.ways or turn.banned(name, found):
        return cell, ""
    text = f"{known.used:.1f} CPUs are used, and all targets have been met for {met} intervals"
    return found, f"; one core below the OAA is enough: {text}"
