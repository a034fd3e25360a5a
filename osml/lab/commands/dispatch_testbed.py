"""`osml lab dispatch testbed`: figure 11 on this machine."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from osml.base.failure import InputError


def testbed_command(
    out: Annotated[Path, typer.Option(help="Folder for figure-11.png, summary.json and testbed.md.")] = Path(
        "out/dispatch"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Three settings and one trace, one run: two minutes.")] = False,
    runs: Annotated[int | None, typer.Option(help="Runs of each setting.", show_default="2")] = None,
    run_s: Annotated[float | None, typer.Option(help="Seconds of a run at constant load.", show_default="6")] = None,
    trace_s: Annotated[float | None, typer.Option(help="Seconds of a trace.", show_default="9")] = None,
    compress: Annotated[
        float, typer.Option(help="Factor on the paper's rates at which interference begins and ends (1/30 per second).")
    ] = 20.0,
    load: Annotated[
        list[float] | None, typer.Option(help="Utilisations to run.", show_default="0.4, 0.5, 0.6, 0.7")
    ] = None,
    intensity: Annotated[list[str] | None, typer.Option(help="low, medium, high.", show_default="all three")] = None,
    trace: Annotated[list[str] | None, typer.Option(help="app, etc, none.", show_default="both")] = None,
    policy: Annotated[list[str] | None, typer.Option(help="Policies to compare.", show_default="all four")] = None,
    seed: Annotated[int, typer.Option(help="Seed of arrivals, interference and traces.")] = 0,
    loadgen: Annotated[
        Path | None, typer.Option(help="The osml-loadgen binary.", show_default="the one built here")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print summary.json on standard output.")] = False,
) -> None:
    """Compare response times by policy: HAProxy, two web servers, a CPU burner on one of them (15 minutes, root).

    The command stops every process that it starts, also on Ctrl-C.
    """
    from osml.lab.testbed.run import run_testbed  # noqa: PLC0415
    from osml.lab.testbed.settings import INTENSITIES, LOADS, POLICIES, TRACES, DispatchTrialSettings  # noqa: PLC0415

    settings = DispatchTrialSettings(
        out=out,
        runs=runs if runs is not None else 1 if quick else 2,
        run_s=6.0 if run_s is None else run_s,
        trace_s=9.0 if trace_s is None else trace_s,
        compress=compress,
        loads=tuple(load or ((0.5,) if quick else LOADS)),
        intensities=_chosen("--intensity", intensity, tuple(INTENSITIES)),
        traces=() if trace == ["none"] else _chosen("--trace", trace, ("etc",) if quick else TRACES, TRACES),
        policies=_chosen("--policy", policy, POLICIES),
        seed=seed,
        loadgen=loadgen,
    )
    if "threshold" not in settings.policies:
        raise InputError("--policy has no 'threshold', the reference of the comparison: add it")
    console = Console(stderr=True)
    console.print(f"about {settings.expected_s / 60:.0f} minutes")
    summary = run_testbed(settings, lambda text: console.print(text, highlight=False, markup=False))
    if json:
        sys.stdout.write(json_module.dumps(summary) + "\n")
        return
    _show(summary, settings.policies, out)


def _chosen(
    option: str, given: list[str] | None, default: tuple[str, ...], known: tuple[str, ...] | None = None
) -> tuple[str, ...]:
    unknown = sorted(set(given or ()) - set(known or default))
    if unknown:
        raise InputError(f"{option} is {', '.join(unknown)}, expected one of {', '.join(known or default)}")
    return tuple(given) if given else default


def _show(summary: dict[str, object], policies: tuple[str, ...], out: Path) -> None:
    comparison: dict[str, list[dict[str, dict[str, dict[str, dict[str, float]]]]]] = summary["comparison"]  # pyright: ignore[reportAssignmentType]
    console = Console()
    table = Table(title="mean / p95 response, ms", title_justify="left")
    for heading in ("setting", *policies):
        table.add_column(heading)
    for row in comparison["settings"]:
        cells = (
            f"{row['policies'][p]['mean_ms']['mean']:.1f} / {row['policies'][p]['p95_ms']['mean']:.1f}"
            for p in policies
        )
        table.add_row(str(row["setting"]), *cells)
    console.print(table)
    claims = Table(title="reduction by the threshold policy", title_justify="left")
    for heading in ("claim", "paper", "ours"):
        claims.add_column(heading)
    for claim in comparison["claims"]:
        claims.add_row(str(claim["claim"]), str(claim["paper"]), str(claim["ours"]))
    console.print(claims)
    console.print(
        f"{summary['seconds']:.0f} s; wrote {out}/figure-11.png, summary.json, testbed.md",
        highlight=False,
        markup=False,
    )
