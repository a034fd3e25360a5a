"""A service that stays just above its target with BE jobs behind it: they leave its CPUs, and only those.

Such a miss is within the noise of each interval, and real in the mean of many; more cores do not end it, because what
the service lacks (clock, hyperthreads, memory) it lacks on each of its CPUs. Jobs that leave all CPUs for so little
cost more than they save; on the other services' CPUs they harm nobody.
"""

from __future__ import annotations

from msgspec.structs import replace

from osml.policies.osml.remembered.service_memory import ENDURED
from osml.policies.osml.remembered.state import WaysForCores
from osml.policies.osml.working_plan import WorkingPlan


def move_jobs_away(turn: WorkingPlan) -> list[str]:
    """Whose CPUs BE jobs leave from now on: each misses its target with all that it needs, ENDURED times more than met.

    Where that is everybody, jobs are no longer in the background at all (from the next decision on).
    """
    found: list[str] = []
    if not turn.node.background:
        return found
    for name, cell in turn.cells.items():
        known = turn.known[name]
        if name not in turn.violated or name in turn.without_jobs or known.missed_balance < ENDURED:
            continue
        if cell.cores < turn.wants[name].cores:
            continue
        turn.known[name] = replace(known, missed_balance=0)
        turn.say(f"{name} stays above its target in a cell of sufficient size: BE jobs leave its CPUs", name)
        found.append(name)
    if found:
        turn.ways_for_cores = WaysForCores()  # jobs that run elsewhere have another speed
    turn.without_jobs += found
    if set(turn.cells) <= set(turn.without_jobs):  # somewhere jobs have to be: they need a part of their own
        turn.jobs_isolated, turn.without_jobs = True, []
    turn.node = turn.node._replace(without_jobs=frozenset(turn.without_jobs))
    return found
