"""`osml lab dispatch`: when a server under interference is still worth using."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from osml.base.extras import how_to_install
from osml.base.failure import Failure, InputError, MachineError
from osml.dispatch.haproxy.command import run_command
from osml.dispatch.mdp.parameters import Epochs, FarmParameters
from osml.lab.commands.dispatch_testbed import testbed_command

if TYPE_CHECKING:  # the solver is compiled code, which takes a second to import: not for `osml --help`
    from osml.dispatch.mdp.thresholds import FarmSolution
    from osml.lab.dispatch.claims import Claim
    from osml.lab.dispatch.study import Row

app = typer.Typer(help="Interference-aware dispatch: thresholds from a Markov decision process.", no_args_is_help=True)

app.command("run", hidden=True)(run_command)
app.command("testbed")(testbed_command)

_SHOWN_THRESHOLDS = 40
_QUICK_SERVERS = 14

EpochsOption = Annotated[
    Literal["literal", "anytime"],
    typer.Option(help="literal: decide at arrivals and completions; anytime: also when interference begins or ends."),
]


def _document(solved: FarmSolution) -> dict[str, object]:
    found = solved.solution
    return {
        "thresholds": solved.table.named(),
        "queue_thresholds": solved.table.named_queues(),
        "mean_optimal": found.mean_optimal,
        "mean_non_idling": found.mean_non_idling,
        "improvement_pct": found.improvement_pct,
        "load": solved.parameters.load,
        "largest_stable_arrival": solved.parameters.capacity,
        "truncation": found.truncation,
        "error_bound": found.error_bound,
        "rounds": found.rounds,
        "seconds": found.seconds,
    }


def _show(solved: FarmSolution) -> None:
    console, found = Console(), solved.solution
    table = Table(title="Lowest number at which an idle server under interference gets a job", title_justify="left")
    for heading in ("under interference", "of them busy", "jobs in system N", "jobs waiting Q"):
        table.add_column(heading, justify="right")
    states = sorted(solved.table.sizes)
    for i, b in states[:_SHOWN_THRESHOLDS]:
        table.add_row(str(i), str(b), str(solved.table.size(i, b)), str(solved.table.queue(i, b)))
    console.print(table)
    if len(states) > _SHOWN_THRESHOLDS:
        console.print(f"{len(states) - _SHOWN_THRESHOLDS} more with --json")
    console.print(f"mean number in system  optimal {found.mean_optimal:.6g}, non-idling {found.mean_non_idling:.6g}")
    console.print(f"improvement            {found.improvement_pct:.4g} %")
    console.print(
        f"load                   {solved.parameters.load:.4g} (stable below {solved.parameters.capacity:.6g})"
    )
    console.print(
        f"exact tail from level {found.truncation} on, error at most {found.error_bound:.1e}, "
        f"{found.rounds} rounds, {found.seconds:.3f} s"
    )


@app.command("solve")
def solve_command(
    servers: Annotated[int, typer.Option(help="Number of servers k behind one queue.")],
    arrival: Annotated[float, typer.Option(help="Arrival rate lambda of the whole farm, jobs per unit of time.")],
    mu_high: Annotated[float, typer.Option(help="Service rate of a server without interference.")],
    mu_low: Annotated[float, typer.Option(help="Service rate of a server under interference.")],
    alpha_high: Annotated[float, typer.Option(help="Rate at which interference begins on a server.")],
    alpha_low: Annotated[float, typer.Option(help="Rate at which interference ends on a server.")],
    epochs: EpochsOption = "literal",
    limit_s: Annotated[float, typer.Option(help="Seconds after which the solver gives up.")] = 300.0,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Compute the optimal thresholds, and the mean number of jobs under them and under non-idling."""
    from osml.dispatch.mdp.thresholds import solve  # noqa: PLC0415

    if not limit_s > 0:
        raise InputError(f"--limit-s is {limit_s:g}, expected a number above 0")
    if servers > _QUICK_SERVERS and sys.stderr.isatty():
        Console(stderr=True).print(f"{servers} servers: the solution can take minutes")
    solved = solve(FarmParameters(servers, arrival, mu_high, mu_low, alpha_high, alpha_low, epochs), limit_s)
    if json:
        sys.stdout.write(msgspec.json.encode(_document(solved)).decode() + "\n")
    else:
        _show(solved)


def _markdown(found: list[Claim], rows: list[Row], epochs: Epochs) -> str:
    lines = [f"# Figures 3 to 10, epochs {epochs}", "", "| figure | paper | computed | holds |", "|---|---|---|---|"]
    lines += [f"| {c.figure} | {c.paper} | {c.ours} | {'yes' if c.holds else 'no'} |" for c in found]
    lines += ["", "# Other farms than in the paper: loss of two-level thresholds against the optimum (percent)", ""]
    lines += ["| farm | settings | median | worst | worst at | non-idling, median | worse than non-idling |"]
    lines += ["|---|---|---|---|---|---|---|"]
    lines += [
        f"| {r.name} | {r.settings} | {r.median_loss_pct:.3f} | {r.worst_loss_pct:.3f} | {r.worst_at} | "
        f"{r.median_non_idling_pct:.3f} | {r.worse_than_non_idling} |"
        for r in rows
    ]
    return "\n".join(lines) + "\n"


@app.command("figures")
def figures_command(
    out: Annotated[Path, typer.Option(help="Folder for figure-3.png to figure-10.png and claims.md.")] = Path(
        "out/dispatch"
    ),
    epochs: EpochsOption = "literal",
    json: Annotated[bool, typer.Option("--json", help="The tables as one JSON document on standard output.")] = False,
) -> None:
    """Compute the paper's figures 3 to 10, check its claims, and study other farms (about a minute)."""
    start, progress = time.perf_counter(), Console(stderr=True)
    from osml.lab.dispatch.claims import claims  # noqa: PLC0415
    from osml.lab.dispatch.study import EXTENSIONS, summarise  # noqa: PLC0415

    try:
        from osml.lab.dispatch.plots import draw_all  # noqa: PLC0415 - matplotlib may be missing
    except ImportError:
        raise MachineError(f"matplotlib is missing: {how_to_install('lab')}") from None
    progress.print("figures 3 to 10: about 2000 farms")
    found = claims(epochs)
    try:
        out.mkdir(parents=True, exist_ok=True)
        paths = draw_all(out, epochs)
        rows: list[Row] = []
        for name in EXTENSIONS:
            progress.print(f"other farms: {name}")
            rows.append(summarise(name, epochs))
        (out / "claims.md").write_text(_markdown(found, rows, epochs), "utf-8")
    except OSError as error:
        raise Failure(f"{out} can't be written: {error.strerror}; choose another folder with --out") from None
    if json:
        document = {
            "epochs": epochs,
            "claims": found,
            "beyond": rows,
            "figures": [str(path) for path in paths],
            "seconds": time.perf_counter() - start,
        }
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        return
    table = Table(title="Claims of the paper, section V", title_justify="left")
    for heading in ("figure", "paper", "computed", "holds"):
        table.add_column(heading)
    for claim in found:
        table.add_row(claim.figure, claim.paper, claim.ours, "yes" if claim.holds else "no")
    console = Console()
    console.print(table)
    console.print(f"{len(paths)} figures and claims.md in {out}, {time.perf_counter() - start:.1f} s", markup=False)
