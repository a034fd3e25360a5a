"""`osml lab simulator mount`: the node behind the files of a real kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from osml.base.failure import InputError
from osml.simulator.mount.node_process import MountOptions, parse_load, run_until_signal


def mount(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the node's files; osml creates it.")],
    platform: Annotated[str, typer.Option(help="Platform of the catalog.")] = "e5-2697v4",
    lc: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=LOAD", help="LC service and its load, as a fraction of max load; repeatable."),
    ] = None,
    be: Annotated[list[str] | None, typer.Option(metavar="NAME", help="BE job; repeatable.")] = None,
    speed: Annotated[float, typer.Option(help="Node seconds per second of the wall clock.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of all measurement noise.")] = 0,
    interval: Annotated[float, typer.Option(help="Telemetry interval in node seconds.")] = 1.0,
    fuse: Annotated[
        Literal["auto", "on", "off"],
        typer.Option(help="on, auto: FUSE with the kernel's errors; off: plain files that osml watches."),
    ] = "auto",
    duration: Annotated[float | None, typer.Option(help="Wall-clock seconds until the node stops.")] = None,
    server_url: Annotated[str, typer.Option(help="Server in the agent's configuration.")] = ("http://127.0.0.1:8080"),
    policy: Annotated[str | None, typer.Option(help="Policy in the agent's configuration.")] = None,
    sockets: Annotated[int, typer.Option(help="Sockets: each has a cache of its own, or several (AMD).")] = 1,
) -> None:
    """Run a virtual node in DIR until SIGTERM or Ctrl-C.

    DIR gets resctrl/, cgroup/, sys/ and proc/ as on a real machine, telemetry/, agent.yaml for osml-agent, loads.json
    (edit it to change loads) and, when the node is ready, node.json. All measurements are simulated.
    """
    if not lc and not be:
        raise InputError("expected at least one --lc NAME=LOAD or --be NAME")
    pairs = [parse_load(text) for text in lc or []]
    loads = dict(pairs)
    if len(loads) != len(pairs):
        raise InputError("--lc has a service twice, expected each service once")
    options = MountOptions(
        folder, platform, loads, tuple(be or []), speed, seed, interval, fuse, duration, server_url, policy, sockets
    )
    run_until_signal(options, lambda text: typer.echo(text, err=True))
