"""`osml run live`: the main job on real services of this machine."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from osml.lab.commands.live_lab import validate_command
from osml.lab.trials.live.run import run_live
from osml.lab.trials.live.settings import LiveSettings
from osml.lab.trials.report import print_report

DEFAULTS = LiveSettings(Path("out/live"))

app = typer.Typer(invoke_without_command=True)
app.command("validate", hidden=True)(validate_command)  # its place is `osml lab live`


@app.callback()
def live(
    ctx: typer.Context,
    unmanaged_s: Annotated[int, typer.Option(help="Seconds without management.")] = DEFAULTS.unmanaged_s,
    managed_s: Annotated[int, typer.Option(help="Seconds under the policy.")] = DEFAULTS.managed_s,
    policy: Annotated[str, typer.Option(help="Policy of the managed phase: osml, arq, parties, ...")] = DEFAULTS.policy,
    out: Annotated[
        Path, typer.Option(help="Folder for summary.json, traces.parquet, timeline.png and logs.")
    ] = DEFAULTS.out,
    seed: Annotated[int, typer.Option(help="Seed of all arrival times and request mixes.")] = DEFAULTS.seed,
    baseline_s: Annotated[
        int, typer.Option(help="Seconds for measuring the services alone, and the job alone.")
    ] = DEFAULTS.baseline_s,
    workers: Annotated[
        int | None, typer.Option(help="Computing workers of stress-ng.", show_default="6 for each CPU")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port of the server.", show_default="a free one")] = None,
    agent: Annotated[
        Path | None, typer.Option(help="The osml-agent binary.", show_default="the one built here")
    ] = None,
    loadgen: Annotated[
        Path | None, typer.Option(help="The osml-loadgen binary.", show_default="the one built here")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print summary.json on standard output.")] = False,
) -> None:
    """Run real redis, nginx and memcached with stress-ng, server and agent: first unmanaged, then managed.

    Needs root. The command stops every process that it starts, also on Ctrl-C.
    """
    if ctx.invoked_subcommand is not None:
        return
    settings = LiveSettings(
        out=out,
        policy=policy,
        unmanaged_s=unmanaged_s,
        managed_s=managed_s,
        baseline_s=baseline_s,
        seed=seed,
        workers=workers,
        port=port,
        agent=agent,
        loadgen=loadgen,
    )
    document = run_live(settings)
    if json:
        sys.stdout.write(json_module.dumps(document) + "\n")
        return
    console = Console()
    print_report(document, console)
    table = Table("", "unmanaged", "managed", title="lateness of the load generator, p99 ms", title_justify="left")
    before, after = (document["phases"][phase]["services"] for phase in ("unmanaged", "managed"))
    for one, other in zip(before, after, strict=True):
        if one["class"] == "lc":
            late = (
                "-" if each["lateness_p99_ms"] is None else f"{each['lateness_p99_ms']:.3f}" for each in (one, other)
            )
            table.add_row(one["name"], *late)
    console.print(table)
    late = document["baseline"]["missed_alone"]
    if late:
        console.print(
            f"[bold red]{', '.join(late)} missed the target before the best-effort job started: other processes "
            "disturb the trial. Stop them and repeat it[/]"
        )
    missing = "; ".join(f"{lack['mechanism']} ({lack['reason']})" for lack in document["missing"])
    mechanisms = ", ".join(document["mechanisms"]) or "none"
    for text in (
        f"mechanisms: {mechanisms}; not on this machine: {missing}",
        f"wrote {out}/summary.json, {out}/traces.parquet, {out}/timeline.png, {out}/logs",
    ):
        console.print(text, highlight=False, markup=False)
