"""`osml run demo`: the main job on the virtual node."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from osml.lab.trials.demo.run import run_demo
from osml.lab.trials.demo.settings import DemoSettings, parse_loads
from osml.lab.trials.report import print_report

DEFAULTS = DemoSettings(Path("out/demo"))


def _texts(loads: dict[str, float]) -> list[str]:
    return [f"{name}={load:g}" for name, load in loads.items()]


def demo(
    policy: Annotated[str, typer.Option(help="Policy of the managed phase: osml, arq, parties, ...")] = DEFAULTS.policy,
    platform: Annotated[str, typer.Option(help="Platform of the catalog.")] = DEFAULTS.platform,
    lc: Annotated[
        list[str] | None,
        typer.Option(
            help="SERVICE=LOAD, load as a fraction of its maximum; repeat for more.",
            show_default=", ".join(_texts(DEFAULTS.lc)),
        ),
    ] = None,
    be: Annotated[
        list[str] | None, typer.Option(help="Best-effort job; repeat for more.", show_default="stream")
    ] = None,
    step: Annotated[
        list[str] | None,
        typer.Option(
            help="Load step: SERVICE=LOAD, at half of a phase.", show_default=", ".join(_texts(DEFAULTS.step))
        ),
    ] = None,
    unmanaged_s: Annotated[int, typer.Option(help="Node seconds without management.")] = DEFAULTS.unmanaged_s,
    managed_s: Annotated[int, typer.Option(help="Node seconds under the policy.")] = DEFAULTS.managed_s,
    speed: Annotated[float, typer.Option(help="Node seconds per second of wall clock.")] = DEFAULTS.speed,
    seed: Annotated[int, typer.Option(help="Seed of arrivals and measurement noise.")] = DEFAULTS.seed,
    fuse: Annotated[
        str, typer.Option(help="Kernel files of the node through FUSE (on, auto) or as plain files (off).")
    ] = DEFAULTS.fuse,
    port: Annotated[int | None, typer.Option(help="Port of the server.", show_default="a free one")] = None,
    agent: Annotated[
        Path | None, typer.Option(help="The osml-agent binary.", show_default="the one built here")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for summary.json, timeline.png and logs.")] = DEFAULTS.out,
    json: Annotated[bool, typer.Option("--json", help="Print summary.json on standard output.")] = False,
) -> None:
    """Run server, virtual node and real agent: first unmanaged, then managed, with a load step in each phase."""
    settings = DemoSettings(
        out=out,
        platform=platform,
        lc=DEFAULTS.lc if lc is None else parse_loads(lc, "--lc"),
        be=DEFAULTS.be if be is None else tuple(be),
        step=(DEFAULTS.step if lc is None else {}) if step is None else parse_loads(step, "--step"),
        policy=policy,
        unmanaged_s=unmanaged_s,
        managed_s=managed_s,
        speed=speed,
        seed=seed,
        fuse=fuse,
        port=port,
        agent=agent,
    )
    document = run_demo(settings)
    if json:
        sys.stdout.write(json_module.dumps(document) + "\n")
        return
    console = Console()
    print_report(document, console)
    console.print(f"wrote {out}/summary.json, {out}/timeline.png, {out}/logs", highlight=False, markup=False)
