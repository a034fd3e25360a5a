"""`osml look twin whatif`: what would change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from osml.base.failure import InputError
from osml.decide.registry import policy_names
from osml.twin import edits
from osml.twin.closed import outcomes_under
from osml.twin.commands.options import Json, out, pairs, positive, print_json, refused, whole, working
from osml.twin.document import Twin, load
from osml.twin.edits import Edit, Newcomer
from osml.twin.ensemble import Ensemble, job_of, service_of
from osml.twin.scenes import Scene
from osml.twin.whatif import Change, changes, chosen_scenes, compared, outcomes_of, rows_of
from osml.twin.world import world_of

Names = list[str] | None
NOT_HERE = " (not on this machine)"


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
    no_ways, no_mba = _missing(known)
    ensemble, scenes = known.ensemble, chosen_scenes(known.scenes)
    asked, others = _edits(known, ensemble, scenes[0], {
        "remove": remove, "add-service": add_service, "add-job": add_job, "move": move, "load": load_, "cpus": cpus,
        "quota": quota, "weight": weight, "ways": ways, "bandwidth": bandwidth,
    })  # fmt: skip
    world = world_of(ensemble, 0, scenes[0])
    for edit in asked.values():
        world = edit(world, 0)
    if own_cpus:
        asked["own CPUs"] = edits.own_cpus(world)
        world = asked["own CPUs"](world, 0)
    if cat:
        targets = {one.name: one.target_ms for one in known.tenants if one.target_ms is not None}
        asked[f"own cache ways{no_ways}"] = edits.own_ways(world, targets)
    if mba is not None:
        asked[f"memory bandwidth of jobs {mba:g} %{no_mba}"] = edits.jobs_bandwidth(mba)
    if newer_cpu:
        asked["one CPU generation newer"] = edits.newer_cpu()
    if not asked and not policy:
        raise InputError("nothing was asked; give a change such as --remove NAME, --cat or --policy osml")
    if policy and asked:
        raise InputError("--policy was given with other changes; ask for it alone")
    with working("predicting, some seconds"), refused():
        found = _under(ensemble, scenes, policy) if policy else changes(ensemble, scenes, list(asked.values()))
        elsewhere = {
            name: changes(there.ensemble, chosen_scenes(there.scenes), [edit]) for name, (there, edit) in others.items()
        }
    if json:
        print_json(_document(known, [*asked, *([f"policy {policy}"] if policy else [])], found, elsewhere))
        return
    console = out()
    _table(console, f"{known.node}: {', '.join([*asked, *([f'policy {policy}'] if policy else [])])}", found)
    for name, rows in elsewhere.items():
        _table(console, name, rows)


def _under(ensemble: Ensemble, scenes: list[Scene], policy: str) -> list[Change]:
    after = outcomes_under(ensemble, scenes[:2], policy)
    before = outcomes_of(ensemble, scenes[:2], members=len(after))
    return compared(ensemble, scenes[:2], before, after)


def _edits(
    twin: Twin, ensemble: Ensemble, scene: Scene, given: dict[str, Names]
) -> tuple[dict[str, Edit], dict[str, tuple[Twin, Edit]]]:
    """Changes by what they are called, here and on other nodes."""
    found: dict[str, Edit] = {}
    others: dict[str, tuple[Twin, Edit]] = {}
    no_ways, no_mba = _missing(twin)
    for name in given["remove"] or []:
        found[f"without {name}"] = edits.removed(name)
    for name, share in pairs(given["add-service"], "--add-service", positive):
        found[f"with {name} at {share:g} of its max load"] = edits.added(edits.catalog_newcomer(name, share))
    for name in given["add-job"] or []:
        found[f"with {name}"] = edits.added(edits.catalog_newcomer(name, None))
    for name, file in pairs(given["move"], "--move", lambda text, _where: Path(text)):
        other = load(file)
        found[f"{name} moved to {other.node}"] = edits.removed(name)
        others[f"{other.node}: {name} comes"] = (other, edits.added(_mover(ensemble, scene, name)))
    for name, factor in pairs(given["load"], "--load", positive):
        found[f"{name} with {factor:g} times the load"] = edits.load(name, factor)
    for name, count in pairs(given["cpus"], "--cpus", whole):
        found[f"{name} on {count} CPUs"] = edits.cpu_count(name, count)
    for name, limit in pairs(given["quota"], "--quota", lambda x, at: None if x == "none" else positive(x, at)):
        found[f"{name} with a quota of {limit or 'none'}"] = edits.quota(name, limit)
    for name, value in pairs(given["weight"], "--weight", positive):
        if not 1 <= value <= 10_000:
            raise InputError(f"--weight of '{name}' is {value:g}, expected 1 to 10000")
        found[f"{name} with weight {value:g}"] = edits.weight(name, value)
    for name, count in pairs(given["ways"], "--ways", whole):
        found[f"{name} with {count} ways{no_ways}"] = edits.first_ways(name, count)
    for name, percent in pairs(given["bandwidth"], "--bandwidth", positive):
        if percent > 100:
            raise InputError(f"--bandwidth of '{name}' is {percent:g}, expected a share of at most 100 percent")
        found[f"{name} with {percent:g} % of the memory bandwidth{no_mba}"] = edits.bandwidth(name, percent)
    return found, others


def _missing(twin: Twin) -> tuple[str, str]:
    """What is said of changes of ways, and of memory bandwidth, where the machine has no such levers."""
    return "" if twin.platform.ways is not None else NOT_HERE, "" if twin.platform.mba is not None else NOT_HERE


def _mover(ensemble: Ensemble, scene: Scene, name: str) -> Newcomer:
    """A tenant of this twin as it comes to another node, member by member."""
    tenant = next((one for one in ensemble.tenants if one.name == name), None)
    if tenant is None:
        raise InputError(f"--move names '{name}'; on the machine are {', '.join(one.name for one in ensemble.tenants)}")
    rate = scene.rates.get(name)

    def model(member: int, _platform: Any) -> Any:
        values = ensemble.values(member % ensemble.size)
        if tenant.kind == "be":
            return job_of(tenant, values)
        return service_of(tenant, values, ensemble.rates.get(name, 1.0), ensemble.machine.id)

    return Newcomer(model, rate, tenant.percentile)


def _document(twin: Twin, asked: list[str], found: list[Change], elsewhere: dict[str, list[Change]]) -> dict[str, Any]:
    return {
        "node": twin.node, "simulated": True, "changes": asked, "bounds": 0.9, "tenants": rows_of(found),
        "elsewhere": [{"node": name, "tenants": rows_of(rows)} for name, rows in elsewhere.items()],
    }  # fmt: skip


def _table(console: Console, title: str, found: list[Change]) -> None:
    table = Table("", "now", "then (simulated)", "90 % bounds", "change", "target", title=title, title_justify="left")
    for one in found:
        gone = "no load" if one.before is None and one.after is None else "not there"
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
    return f"{value:.3g} ms" if kind == "lc" else f"{value:.0%} speed"
