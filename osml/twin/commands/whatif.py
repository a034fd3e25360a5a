"""`osml look twin whatif`: what would change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from osml.base.brief_number import brief
from osml.base.failure import InputError
from osml.decide.registry import policy_names
from osml.twin import edits
from osml.twin.closed import CONVERGED_S, JUDGED_S, MEMBERS, outcomes_under
from osml.twin.commands.changes import Names, asked_of, missing, mover
from osml.twin.commands.options import Json, out, print_json, refused, working
from osml.twin.document import Twin, load
from osml.twin.ensemble import Ensemble
from osml.twin.scenes import Scene
from osml.twin.whatif import Change, changes, chosen_scenes, compared, outcomes_of, rows_of
from osml.twin.world import World, world_of


def whatif(
    twin: Annotated[Path, typer.Argument(metavar="TWIN", help="File of `osml look twin fit`.")],
    remove: Annotated[Names, typer.Option(metavar="NAME", help="Remove a service or job.")] = None,
    add_service: Annotated[
        Names,
        typer.Option(metavar="NAME=LOAD", help="NAME=LOAD: add a service of the catalog at a share of its max load."),
    ] = None,
    add_job: Annotated[Names, typer.Option(metavar="NAME", help="Add a job of the catalog.")] = None,
    move: Annotated[
        Names, typer.Option(metavar="NAME=TWIN", help="NAME=TWIN: move a service or job to the node of another twin.")
    ] = None,
    load_: Annotated[
        Names, typer.Option("--load", metavar="NAME=FACTOR", help="NAME=FACTOR: multiply the requests of a service.")
    ] = None,
    cpus: Annotated[
        Names, typer.Option(metavar="NAME=COUNT", help="NAME=COUNT: number of CPUs; others may use them, too.")
    ] = None,
    quota: Annotated[Names, typer.Option(metavar="NAME=CPUS", help="NAME=CPUS: CPU quota; `none` removes it.")] = None,
    weight: Annotated[Names, typer.Option(metavar="NAME=WEIGHT", help="NAME=WEIGHT: cpu.weight, 1 to 10000.")] = None,
    ways: Annotated[
        Names, typer.Option(metavar="NAME=COUNT", help="NAME=COUNT: number of cache ways; others may use them, too.")
    ] = None,
    bandwidth: Annotated[
        Names,
        typer.Option(metavar="NAME=PERCENT", help="NAME=PERCENT: throttle the memory bandwidth to this share (MBA)."),
    ] = None,
    own_cpus: Annotated[bool, typer.Option("--own-cpus", help="Give each service CPUs of its own.")] = False,
    cat: Annotated[
        bool, typer.Option("--cat", help="Give each service cache ways of its own, and all jobs together.")
    ] = False,
    mba: Annotated[
        float | None, typer.Option(help="Throttle the memory bandwidth of all jobs to this percentage.", min=1, max=100)
    ] = None,
    newer_cpu: Annotated[
        bool, typer.Option("--newer-cpu", help="Replace the CPU by one of the next generation.")
    ] = False,
    policy: Annotated[str, typer.Option(help="Let this policy decide; the twin shows what its decisions cause.")] = "",
    json: Json = False,
) -> None:
    """Predict what a change would do to latencies and to the speed of jobs, with 90 % bounds.

    Several changes in one call are made together.
    """
    if policy and policy not in policy_names():
        raise InputError(f"policy '{policy}' is unknown; known are {', '.join(policy_names())}")
    known = load(twin)
    no_ways, no_mba = missing(known)
    asked = asked_of(known, {
        "remove": remove, "add-service": add_service, "add-job": add_job, "move": move, "load": load_, "cpus": cpus,
        "quota": quota, "weight": weight, "ways": ways, "bandwidth": bandwidth,
    })  # fmt: skip
    ensemble, scenes = known.ensemble, chosen_scenes(known.scenes, asked.names)
    todo = list(asked.changes)
    world = world_of(ensemble, 0, scenes[0])
    for _, edit in todo:
        world = edit(world, 0)
    throttled = [name for name in (text.partition("=")[0] for text in bandwidth or []) if name in world.jobs]
    _check_undone("--cpus", cpus, "--own-cpus", "the CPUs of all", given=own_cpus)
    _check_undone("--ways", ways, "--cat", "the ways of all", given=cat)
    _check_undone("--bandwidth", throttled, "--mba", "the memory bandwidth of all jobs", given=mba is not None)
    if own_cpus:
        own = edits.own_cpus(world)
        todo.append(("own CPUs", own))
        world = own(world, 0)
    if cat:
        targets = {one.name: one.target_ms for one in known.tenants if one.target_ms is not None}
        todo.append((f"own cache ways{no_ways}", edits.own_ways(world, targets)))
    if mba is not None:
        _check_jobs(world)
        todo.append((f"memory bandwidth of jobs {mba:g} %{no_mba}", edits.jobs_bandwidth(mba)))
    if newer_cpu:
        todo.append(("one CPU generation newer", edits.newer_cpu()))
    if not todo and not policy:
        raise InputError("nothing was asked; give a change such as --remove NAME, --cat or --policy osml")
    if policy and todo:
        raise InputError("--policy was given with other changes; ask for it alone")
    called = [f"policy {policy}"] if policy else [name for name, _ in todo]
    with working("predicting, some seconds"), refused():
        if policy:
            found = under_policy(ensemble, scenes[:2], policy)
        else:
            found = changes(ensemble, scenes, [edit for _, edit in todo])
        elsewhere = [_comes(ensemble, scenes, there, names) for there, names in asked.moves]
    if json:
        print_json(_document(known, called, found, elsewhere))
        return
    console = out()
    _table(console, f"{known.node}: {', '.join(called)}", found)
    for name, rows in elsewhere:
        _table(console, name, rows)


def _check_undone(one: str, names: Names, every: str, sets: str, *, given: bool) -> None:
    """Raise InputError where an option would undo what another one asks for somebody."""
    if given and names:
        raise InputError(f"{one} was given with {every}, which sets {sets}; give one of them")


def _check_jobs(world: World) -> None:
    """Raise InputError where --mba would change nothing."""
    if not world.jobs:
        raise InputError("--mba was given, but there is no job whose memory bandwidth it throttles; leave it out")


def under_policy(ensemble: Ensemble, scenes: list[Scene], policy: str, members: int = MEMBERS) -> list[Change]:
    """What a policy changes, at the same time after the loads began: the queue of who gets too much grows on."""
    after = outcomes_under(ensemble, scenes, policy, members=members)
    before = outcomes_of(ensemble, scenes, members=members, seconds=CONVERGED_S + JUDGED_S / 2)
    return compared(ensemble, scenes, before, after)


def _comes(ensemble: Ensemble, scenes: list[Scene], there: Twin, names: list[str]) -> tuple[str, list[Change]]:
    """What it is called that these come to the machine of another twin together, and what it changes there."""
    comes = f"{there.node}: {', '.join(names)} {'comes' if len(names) == 1 else 'come'}"
    coming = [edits.added(mover(ensemble, scenes, name)) for name in names]
    return comes, changes(there.ensemble, chosen_scenes(there.scenes), coming)


def _document(
    twin: Twin, called: list[str], found: list[Change], elsewhere: list[tuple[str, list[Change]]]
) -> dict[str, Any]:
    return {
        "node": twin.node, "simulated": True, "changes": called, "bounds": 0.9, "tenants": rows_of(found),
        "elsewhere": [{"node": name, "tenants": rows_of(rows)} for name, rows in elsewhere],
    }  # fmt: skip


def _table(console: Console, title: str, found: list[Change]) -> None:
    table = Table("", "now", "then (simulated)", "90 % bounds", "change", "target", title=title, title_justify="left")
    for one in found:
        gone = "no load counted" if one.before is None and one.after is None else "not there"
        table.add_row(
            one.name,
            gone if one.before is None else _number(one.kind, one.before),
            gone if one.after is None else _number(one.kind, one.after),
            ""
            if one.low is None or one.high is None
            else f"{_number(one.kind, one.low)} to {_number(one.kind, one.high)}",
            "" if one.ratio is None else f"{one.ratio - 1.0:+.0%}",
            "" if one.target_ms is None else f"{one.target_ms:g} ms",
        )
    console.print(table)


def _number(kind: str, value: float) -> str:
    """A latency, or a speed as a share of that alone."""
    return f"{brief(value)} ms" if kind == "lc" else f"{value:.0%} speed"
