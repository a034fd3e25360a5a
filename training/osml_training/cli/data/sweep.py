"""`osml learn data sweep`: measure the allocations of one service of this machine, few of them and safely."""

from __future__ import annotations

import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import msgspec
import typer
from rich.console import Console

from osml.base.failure import Failure, InputError, MachineError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from osml.datasets.description import Fingerprint
    from osml.domain import Observation
    from osml.domain.platform import MbaRange
    from osml_training.live_sweep.journal import Condition, FinishedCell, Swept
    from osml_training.live_sweep.room import Room
    from osml_training.live_sweep.run import Setup
    from osml_training.live_sweep.walk import Walk


def sweep_command(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the data set; an existing sweep goes on.")],
    agent_config: Annotated[
        Path | None, typer.Option(help="Configuration of osml-agent on this node; its agent must be stopped.")
    ] = None,
    service: Annotated[str | None, typer.Option(help="Latency-critical service to sweep.")] = None,
    trial: Annotated[
        str | None,
        typer.Option(help="Start redis, nginx or memcached here, and sweep it beside another one and stress-ng."),
    ] = None,
    load: Annotated[
        str | None, typer.Option(help="With --trial: loads in requests/s, separated by commas, one after the other.")
    ] = None,
    mba: Annotated[
        str | None, typer.Option(help="Memory-bandwidth throttles of the service, in the unit of the platform.")
    ] = None,
    protect: Annotated[
        str, typer.Option(help="Neighbours whose missed target ends a cell at once, or `all` with a target, or `none`.")
    ] = "all",
    samples: Annotated[int, typer.Option(help="Intervals measured in each cell.")] = 5,
    settle: Annotated[int, typer.Option(help="Intervals after each change that are not measured.")] = 2,
    far: Annotated[float, typer.Option(help="Multiple of its target at which a cell of the service ends at once.")] = 5,
    limit_min: Annotated[float | None, typer.Option(help="Longest time of this run in minutes.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Measure every cell, not only those that labels need.")] = False,
    seed: Annotated[int, typer.Option(help="With --trial: seed of all arrival times.")] = 0,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="The agent drives a virtual node, not this machine.")
    ] = False,
    agent: Annotated[
        Path | None, typer.Option(help="The osml-agent binary.", show_default="the one built here")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Look at the node, show the plan, change nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Begin without asking.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Sweep one service over cores, ways and throttles of this node, or over CPU quota where the cache has no ways.

    An active design measures the cells that the labels need. The agent applies each cell and restores the node at the
    end, at Ctrl-C and when it gets no decisions. Finished cells are kept.
    """
    from osml.base.agent_binary import find_agent  # noqa: PLC0415
    from osml_training.live_sweep.agent_file import read_agent_file, service_entry  # noqa: PLC0415
    from osml_training.live_sweep.design import every_cell, next_cell  # noqa: PLC0415
    from osml_training.live_sweep.journal import Condition  # noqa: PLC0415
    from osml_training.live_sweep.run import Setup  # noqa: PLC0415
    from osml_training.live_sweep.walk import Rails  # noqa: PLC0415

    if (trial is None) == (agent_config is None):
        raise InputError("give either --agent-config FILE with --service NAME, or --trial SERVICE")
    if agent_config is not None and (service is None or load is not None):
        raise InputError("--agent-config needs --service NAME; --load belongs to --trial")
    for option, value, low, high in (
        ("--samples", samples, 1, 1000),
        ("--settle", settle, 0, 1000),
        ("--far", far, 1, 1e6),
    ):
        if not low <= value <= high:
            raise InputError(f"{option} is {value:g}, expected {low} to {high:g}")
    loads: list[float | None] = [*_numbers(load, "--load")] or [None]
    throttles: list[int | None] = [*_whole_numbers(mba, "--mba")] or [None]
    conditions = [Condition(one, other) for one in loads for other in throttles]
    rails = Rails(settle=settle, samples=samples, far=far)
    binary = find_agent(agent)
    limit_s = None if limit_min is None else 60 * limit_min
    with ExitStack() as stack:
        if trial is not None:
            from osml_training.live_sweep import trial as own  # noqa: PLC0415

            # Absolute, for the configuration of the agent, which names files in here, is elsewhere.
            logs = out.resolve().parent / f"{out.name}.trial"
            document, generate = stack.enter_context(own.running(trial, logs, seed))
            name = trial
            if load is None:
                conditions = [Condition(own.loads_of(trial)[0].rate, one) for one in throttles]
        else:
            document, name = read_agent_file(agent_config or Path()), service or ""
            generate = _none

        service_entry(document, name)
        setup = Setup(
            binary, document, name, _protected(document, name, protect), rails, conditions, limit_s,
            every_cell if full else next_cell, generate,
        )  # fmt: skip
        _run(setup, out, simulated=simulated, dry_run=dry_run, yes=yes, json=json)


def _none(rate: float, /) -> None:
    """The load of a node that is in use is what comes."""
    del rate


def _numbers(text: str | None, option: str) -> list[float]:
    if text is None:
        return []
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < value < 1e9 for value in found):
        raise InputError(f"{option} is '{text}', expected positive numbers, separated by commas")
    return found


def _whole_numbers(text: str | None, option: str) -> list[int]:
    found = _numbers(text, option)
    if any(value != int(value) for value in found):
        raise InputError(f"{option} is '{text}', expected whole numbers, separated by commas")
    return [int(value) for value in found]


def _check_throttles(conditions: Sequence[Condition], possible: MbaRange | None) -> None:
    """MachineError where the node can't throttle, InputError for a throttle that it does not have."""
    for throttle in [one.mba for one in conditions if one.mba is not None]:
        if possible is None:
            raise MachineError("--mba is given, but this node cannot throttle memory bandwidth: see `osml look doctor`")
        if not possible.min <= throttle <= possible.max:
            raise InputError(f"--mba has {throttle}, expected {possible.min} to {possible.max} ({possible.unit})")


def _protected(document: dict[str, Any], service: str, protect: str) -> frozenset[str]:
    known = {entry["name"] for entry in document["services"] if entry.get("class") == "lc"} - {service}
    if protect in ("all", "none"):
        return frozenset(known if protect == "all" else ())
    names = frozenset(name.strip() for name in protect.split(","))
    if names - known:
        raise InputError(
            f"--protect names '{min(names - known)}', expected latency-critical neighbours: {', '.join(sorted(known))}"
        )
    return names


def _run(setup: Setup, out: Path, *, simulated: bool, dry_run: bool, yes: bool, json: bool) -> None:
    from osml.lab.trials.children import interrupt_on_signals  # noqa: PLC0415
    from osml_training.collect.live import check_before  # noqa: PLC0415
    from osml_training.collect.machine import this_machine  # noqa: PLC0415
    from osml_training.live_sweep.journal import CellState, of_this_sweep  # noqa: PLC0415
    from osml_training.live_sweep.room import check_room, room_of  # noqa: PLC0415
    from osml_training.live_sweep.run import RUNNING, look, restore_before, swept  # noqa: PLC0415

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    logs = out.parent / f"{out.name}.logs"
    interrupt_on_signals()
    if not dry_run and (out / RUNNING).exists():
        restore_before(setup)  # whatever ends this command before it sweeps
    seen = look(setup, logs)
    machine = None if simulated else this_machine("here")
    check_before(out, seen[-1], machine, simulated=simulated)
    room, about = room_of(seen, setup.service), swept(seen[-1], setup.service)
    of_this_sweep(out, about)
    check_room(room, seen[-1].platform)
    _check_throttles(setup.conditions, seen[-1].platform.mba)
    plan = _plan(setup, seen[-1], room)
    for line in plan["words"]:
        console.print(line, markup=False)
    if dry_run:
        if json:
            sys.stdout.write(msgspec.json.encode({"dry_run": True, "plan": plan}).decode() + "\n")
        return
    if not yes:
        if not sys.stdin.isatty():
            raise InputError("nobody can be asked here: say --yes to begin, or --dry-run to see the plan")
        typer.confirm("Begin?", abort=True, err=True)

    def told(cell: FinishedCell, walk: Walk) -> None:
        done, total = walk.progress()
        what = "" if cell.latency_ms is None else f" {cell.latency_ms:.4g} ms"
        units = f"{cell.cell[0] * about.core_quantum:g} CPUs" + (f", {cell.cell[1]} ways" if about.ways else "")
        rate = "" if cell.offered_per_s is None else f" at {cell.offered_per_s:g}/s"
        why = f" ({cell.why})" if cell.why else ""
        console.print(f"cell {done} of about {total}: {units}{rate}: {cell.state}{what}{why}", markup=False)

    walk, cells, kept = _swept(setup, out, about, told, machine, simulated=simulated)
    states = {state: sum(cell.state == state for cell in cells) for state in get_args(CellState)}
    document: dict[str, Any] = {
        "dataset": str(out),
        "simulated": simulated,
        "complete": walk.complete,
        "ended": walk.ended,
        "cells": states,
        "cells_of_the_grid": len(setup.conditions) * int(room.allowed().sum()),
        "rows": kept,
    }
    if json:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    if not cells:
        raise Failure(f"no cell was measured: {walk.ended}; the node is as before")
    if json:
        return
    counts = ", ".join(f"{count} {state}" for state, count in states.items() if count)
    Console(highlight=False, soft_wrap=True).print(
        f"{walk.ended}\n{len(cells)} cells ({counts}) of {document['cells_of_the_grid']}, {kept:,} rows in "
        f"{out}; the node is as before\nnext: osml learn data label {out}",
        markup=False,
    )


def _swept(
    setup: Setup,
    out: Path,
    about: Swept,
    told: Callable[[FinishedCell, Walk], None],
    machine: Fingerprint | None,
    *,
    simulated: bool,
) -> tuple[Walk, list[FinishedCell], int]:
    """Sweep, and write the traces also where the sweep was ended; how many rows they have."""
    from osml_training.live_sweep.journal import of_this_sweep  # noqa: PLC0415
    from osml_training.live_sweep.run import sweep  # noqa: PLC0415

    try:
        walk, cells = sweep(setup, out, about, told)
    except BaseException:
        # What ended the sweep is what must be read: the node may not be as it was.
        with suppress(Failure, OSError):
            of_this_sweep(out, about)
            _write(out, machine, simulated=simulated)
        raise
    return walk, cells, _write(out, machine, simulated=simulated)


def _write(out: Path, machine: Fingerprint | None, *, simulated: bool) -> int:
    """The measured intervals as traces of the data set; how many rows there are."""
    from osml.datasets.store import SWEEP  # noqa: PLC0415
    from osml_training.collect.live import describe_live, take_over  # noqa: PLC0415
    from osml_training.collect.live_files import NothingMeasuredError  # noqa: PLC0415

    if not (out / SWEEP).exists():
        return 0  # the sweep did not come to its journal, and says why
    try:
        taken = take_over(out, [out / SWEEP], machine, simulated=simulated)
    except NothingMeasuredError:
        return 0
    describe_live(out, taken.platforms, simulated=simulated)
    return taken.rows


def _plan(setup: Setup, seen: Observation, room: Room) -> dict[str, Any]:
    from osml_training.live_sweep.design import every_cell, expected_cells  # noqa: PLC0415

    allowed = room.allowed()
    grid = int(allowed.sum()) * len(setup.conditions)
    cells = grid if setup.design is every_cell else min(grid, len(setup.conditions) * expected_cells(*room.shape))
    seconds = cells * setup.rails.cell_intervals() * seen.interval_s
    quantum = seen.platform.core_quantum
    most = quantum * (allowed.nonzero()[0].max() + 1)
    least = quantum * (allowed.nonzero()[0].min() + 1)
    minutes = max(1, round(seconds / 60))
    kept = ", ".join(f"{name} {quantum * units:g}" for name, units in room.least_cores.items())
    words = [
        f"sweep of {setup.service} on {seen.platform.id}: {least:g} to {most:g} CPUs in steps of {quantum:g}"
        + (f", up to {int(allowed.nonzero()[1].max()) + 1} ways" if room.ways else "; the cache has no ways to divide"),
        f"about {cells} of {grid} cells, about {minutes} minutes",
        f"neighbours keep at least (CPUs): {kept or 'there are none'}",
        f"risk: {setup.service} misses its target in about half of the cells, and jobs slow down",
        f"a cell ends at once when {setup.service} is above {setup.rails.far:g} times its target",
        "and when one of these misses its target: " + (", ".join(sorted(setup.protected)) or "none is protected"),
    ]
    return {"cells": cells, "seconds": round(seconds), "grid": list(room.shape), "words": words}
