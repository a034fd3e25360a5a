"""Rules that take back what is more than a service needs (OSML, algorithm 3)."""

from __future__ import annotations

from msgspec.structs import replace

from osml.allocation.policy import latency_text
from osml.domain import Reason
from osml.policies.osml.answers.correct import downsize_value
from osml.policies.osml.divide import spread_out
from osml.policies.osml.facts import Facts, units
from osml.policies.osml.guard import least_for_use, may_have
from osml.policies.osml.node import Cell, amount, changed, left_over
from osml.policies.osml.rule import Proposal, changes

FALL = 0.25
"""A step down that Model-C values so much less than doing nothing leads over the cliff, as it thinks: a fall costs 1,
the resources of a whole node 0.2 (docs/reference/model-c.md)."""


def calm(facts: Facts) -> bool:
    """Whether all is calm, and predictions are of the present cells."""
    served = [name for name in facts.cells if name not in facts.set_aside]
    ready = all(facts.tracks[name].settled >= 1 and facts.tracks[name].confined for name in served)
    return bool(served) and ready and facts.calm >= facts.settings.calm


def take_surplus(facts: Facts) -> Proposal | None:
    """What is more than the need goes to BE jobs or stays idle, in few large steps; where all is calm."""
    if not calm(facts):
        return None
    return _smaller(facts, {name: _surplus(facts, name, cell) for name, cell in _served(facts).items()})


def probe_below(facts: Facts) -> Proposal | None:
    """A core less than needed, as it was predicted, for services whose latency is well below the target."""
    if not calm(facts):
        return None
    found = _smaller(facts, {name: _probe(facts, name, cell) for name, cell in _served(facts).items()})
    return None if found is None else found._replace(past_cliff=True)


def hold(facts: Facts) -> Proposal:
    """Nothing to do; what is idle goes to those who are set aside."""
    cells = dict(facts.cells)
    sharing = [name for name in facts.services if name not in cells]
    if sharing:
        text = f"no change: {', '.join(sharing)} share what no cell has"
        return Proposal(cells, [Reason(text=text)], facts.set_aside)
    if facts.set_aside:
        cells = spread_out(facts.node, cells, facts.set_aside, list(cells))
        if cells != facts.cells:
            return Proposal(cells, changes(facts, cells), facts.set_aside)
    divided = facts.node.has_ways
    names = ", ".join([f"{name} {amount(*cell, divided, between=', ')}" for name, cell in cells.items()])
    idle = left_over(facts.node, cells)
    are = "are for the jobs" if facts.node.be else "are idle"
    text = f"no change: {names}; {amount(*idle, divided)} {are}"
    return Proposal(cells, [Reason(text=text)], facts.set_aside)


def _served(facts: Facts) -> dict[str, Cell]:
    """Cells of which something may be taken."""
    found = {name: cell for name, cell in facts.cells.items() if name not in facts.set_aside and facts.meets(name)}
    return {name: cell for name, cell in found.items() if not facts.in_window(name)}


def _surplus(facts: Facts, name: str, cell: Cell) -> Cell:
    """The cell without what is not needed: at first all of it, later only what is clearly too much."""
    track, want, settings = facts.tracks[name], facts.wants[name], facts.settings
    again = track.before is not None and not facts.before.halvings  # parts of a refused step are one step
    if again and ((track.level or 0.0) > settings.close or track.settled < settings.settle):
        return cell
    if facts.unpredicted(name) and track.settled < settings.later:
        return cell
    cores, ways = min(cell.cores, want.cores), min(cell.ways, want.ways)
    if facts.set_aside or facts.node.be:
        ways = cell.ways  # more cache makes cores go further, and cores are what the others lack
    cores = max(cores, min(cell.cores, least_for_use(facts, name)))
    goal = Cell(cores, ways)
    if again:
        goal = Cell(cores if cell.cores - cores >= settings.little * cell.cores else cell.cores, ways)
    if goal == cell or not may_have(facts, name, goal):
        return cell
    trusted = facts.answers[name].seen and not again and not facts.node.be
    return goal if trusted else _halfway(cell, goal)


def _halfway(cell: Cell, less: Cell) -> Cell:
    """Half of the way, and all of it where a unit is left.

    The models see the neighbours as they are. BE jobs that get these CPUs make clock, hyperthreads and memory traffic
    worse for all; half of the way down that shows, and the next prediction knows it. The same goes for a service or a
    machine that the model did not see in its training.
    """
    return Cell(cell.cores - (cell.cores - less.cores + 1) // 2, cell.ways - (cell.ways - less.ways + 1) // 2)


def _probe(facts: Facts, name: str, cell: Cell) -> Cell:
    """A core less, down to the bound of RCliff, where the mean latency is well below the target."""
    track, settings, node = facts.tracks[name], facts.settings, facts.node
    if min(track.settled, track.met) < settings.later or facts.observation.time_s < track.correction.until_s:
        return cell
    if track.level is None or track.level > settings.close:
        return cell
    fewer_cores = node.bounded(name, cell.cores - 1, cell.ways)
    least = units(track.cliff_upper[0], facts.quantum, settings.round_bound)
    return fewer_cores if fewer_cores.cores >= max(least, least_for_use(facts, name)) else cell


def _smaller(facts: Facts, goals: dict[str, Cell]) -> Proposal | None:
    cells, tracks, reasons = dict(facts.cells), dict(facts.tracks), list[Reason]()
    goals = {name: less for name, less in goals.items() if less != facts.cells[name]}
    predicted = [name for name in goals if name in facts.expected and not facts.unpredicted(name)]
    bounds = facts.outlook({name: [goals[name]] for name in predicted})
    for name, less in goals.items():
        cell, track = facts.cells[name], facts.tracks[name]
        if not _agreed(facts, name, less, bounds.get(name)):
            continue
        want, old = facts.wants[name], track.correction
        correction = replace(
            old, cores=old.cores - max(0, want.cores - less.cores), ways=old.ways - max(0, want.ways - less.ways)
        )
        cells[name] = less
        tracks[name] = replace(track, before=cell, count=1, correction=correction)
        divided = facts.node.has_ways
        oaa, cliff = (amount(*need, divided, ".1f", ", ") for need in (track.oaa, track.cliff_upper))
        why = (
            f"OAA {oaa} (at most {track.oaa_upper[0]:.1f} cores), RCliff at most {cliff}; "
            f"{latency_text(facts.services[name])}"
        )
        reasons.append(changed(name, cell, less, why))
    return Proposal(cells, reasons, facts.set_aside, tracks) if reasons else None


def _agreed(facts: Facts, name: str, less: Cell, bounds: list[float] | None) -> bool:
    """Whether Model-C' does not expect a miss (its `bounds`), or where it can't say, Model-C no fall.

    Neither is asked of services that nobody predicts, nor Model-C about the first step.
    """
    if facts.unpredicted(name):
        return True
    if name in facts.expected:
        return bounds is None or bounds[0] <= facts.settings.ahead
    if facts.tracks[name].before is None:
        return True
    cell = facts.cells[name]
    change = Cell(less.cores - cell.cores, less.ways - cell.ways)
    values = downsize_value(facts.observation, name, facts.models, change)
    return values is None or values[0] >= values[1] - FALL
