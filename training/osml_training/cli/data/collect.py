"""`osml learn data collect`: sweep the virtual node, or take over what a live machine observed."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from osml.base.config_file import config_option
from osml.base.failure import InputError
from osml_training.cli.progress import bar

PAPER_SERVICES = (
    "img-dnn",
    "masstree",
    "memcached",
    "mongodb",
    "moses",
    "nginx",
    "specjbb",
    "sphinx",
    "xapian",
    "login",
    "ads",
)
"""Services of the paper's training set (OSML table 1); silo, shore, mysql, redis and nodejs are its unseen ones."""

_WORTH_A_PROCESS = 1_000_000
"""Rows in the time that another process takes to start and to load the compiled code."""

_MUCH_MORE = 1.2
"""Times the rows that were asked for: the last run of a service may go beyond them without a word."""

_MOST_VARIANTS = 1000
_MOST_SETTLING = 1000


def _list(text: str, option: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names or len(set(names)) != len(names):
        raise InputError(f"{option} is '{text}', expected different names, separated by commas")
    return names


def _numbers(text: str, option: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option} is '{text}', expected numbers, separated by commas, such as 0.2,0.5") from None


def collect_command(
    out: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the data set.")],
    platform: Annotated[
        str, typer.Option(help="Platforms of the catalog, separated by commas; ID@8x11 is a part of one; `all`.")
    ] = "e5-2697v4",
    varied_platforms: Annotated[
        int, typer.Option(help="Replace each platform by this number of made-up variants.")
    ] = 0,
    service: Annotated[
        str, typer.Option(help="Services, separated by commas; `paper` (11 services of the training), `all` (16).")
    ] = "paper",
    varied: Annotated[int, typer.Option(help="Replace each service by this number of made-up variants.")] = 0,
    neighbour: Annotated[
        str,
        typer.Option(help="Services that may run beside the service, separated by commas; `same`: those of --service."),
    ] = "same",
    job: Annotated[str, typer.Option(help="Best-effort jobs that may run beside the service, or `none`.")] = (
        "stream,streamcluster,blackscholes,bodytrack"
    ),
    rows: Annotated[
        int,
        typer.Option(
            help="Approximate number of rows over all platforms and services; at least one whole run of each."
        ),
    ] = 1_000_000,
    load: Annotated[
        str, typer.Option(help="Loads, as shares of the maximum load.")
    ] = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1.0",
    threads: Annotated[
        str, typer.Option(help="Numbers of threads, as multiples of the service's usual number.")
    ] = "1,0.75,0.5",
    colocated: Annotated[int, typer.Option(help="Runs with neighbours for each run without neighbours.")] = 3,
    most_neighbours: Annotated[int, typer.Option(help="Maximum number of neighbours of a service.")] = 4,
    samples: Annotated[int, typer.Option(help="Intervals measured in each cell.")] = 10,
    unconfined: Annotated[
        int,
        typer.Option(help="Additional rows of each run with neighbours in which no partition confines the service."),
    ] = 0,
    interval: Annotated[float, typer.Option(help="Length of an interval in seconds.")] = 1.0,
    warmup: Annotated[float, typer.Option(help="Seconds before the first interval of each cell.")] = 20.0,
    noise: Annotated[bool, typer.Option(help="Simulate measurement noise.")] = True,
    seed: Annotated[int, typer.Option(help="Seed; the same seed gives the same rows.")] = 0,
    workers: Annotated[
        int | None, typer.Option(help="Processes.", show_default="one per million rows, at most one per CPU")
    ] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Address of a Ray cluster, `auto`, or `local`.")
    ] = None,
    live: Annotated[
        list[Path] | None,
        typer.Option(
            help="Read `osml-agent run --record` files or `osml run live` traces instead of a sweep; repeatable."
        ),
    ] = None,
    here: Annotated[
        bool, typer.Option("--here", help="With --live: the files come from this machine; add its description.")
    ] = False,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="With --live: the files come from a virtual node, not from a machine.")
    ] = False,
    settle: Annotated[
        int, typer.Option(help="With --live: intervals after each change of an allocation that are left out.")
    ] = 1,
    config: Annotated[Path | None, config_option()] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Collect allocation cases over threads, cores, ways, loads and neighbours, as Parquet files.

    The virtual node is a simulation, and every file says so. An interrupted collection continues where it stopped.
    """
    del config  # its values are those of the other parameters
    if (here or simulated) and not live:
        raise InputError(f"{'--here' if here else '--simulated'} needs --live FILE")
    if live:
        if not 0 <= settle <= _MOST_SETTLING:
            raise InputError(f"--settle is {settle}, expected 0 to {_MOST_SETTLING} intervals")
        _take_over(out, live, here, simulated, settle, json)
        return
    # Compiled code: a second to load, not for `osml --help`.
    from osml.simulator import catalogs  # noqa: PLC0415
    from osml_training.collect.collect import Done, collect, rows_of_part  # noqa: PLC0415
    from osml_training.collect.sweep import Sweep, parts_of  # noqa: PLC0415
    from osml_training.collect.variants import variants_of  # noqa: PLC0415

    for option, count in (("--varied", varied), ("--varied-platforms", varied_platforms)):
        if not 0 <= count <= _MOST_VARIANTS:
            raise InputError(f"{option} is {count}, expected 0 to {_MOST_VARIANTS}")

    services = {"paper": PAPER_SERVICES, "all": tuple(catalogs.service_names())}.get(service) or _list(
        service, "--service"
    )
    platforms = tuple(catalogs.whole_socket_names()) if platform == "all" else _list(platform, "--platform")
    sweep = Sweep(
        platforms=variants_of(platforms, varied_platforms) if varied_platforms else platforms,
        services=variants_of(services, varied) if varied else services,
        neighbours=services if neighbour == "same" else _list(neighbour, "--neighbour"),
        jobs=() if job == "none" else _list(job, "--job"),
        loads=_numbers(load, "--load"),
        threads=_numbers(threads, "--threads"),
        colocated=colocated,
        rows=rows,
        samples=samples,
        unconfined=unconfined,
        most_neighbours=most_neighbours,
        interval_s=interval,
        warmup_s=warmup,
        noise=noise,
        seed=seed,
    ).checked()
    count = workers if workers is not None else min(len(os.sched_getaffinity(0)), max(1, rows // _WORTH_A_PROCESS))
    if not 1 <= count <= 1024:
        raise InputError(f"--workers is {count}, expected 1 to 1024")
    parts = parts_of(sweep)
    started, resumed = time.monotonic(), 0
    with bar("collecting", sum(rows_of_part(part, sweep) for part in parts), "rows") as progress:

        def done(found: Done) -> None:
            nonlocal resumed
            resumed += found.rows if found.resumed else 0
            progress.advance(progress.task_ids[0], found.rows)

        total = collect(out, sweep, workers=count, ray=ray, done=done)
    _report(out, total, rows, resumed, len(parts), time.monotonic() - started, json)


def _take_over(out: Path, files: list[Path], here: bool, simulated: bool, settle: int, json: bool) -> None:
    """`--live`: what an agent observed."""
    from osml_training.collect.live import describe_live, take_over  # noqa: PLC0415
    from osml_training.collect.machine import this_machine  # noqa: PLC0415
    from osml_training.live_sweep.room import OF_ONE_CACHE  # noqa: PLC0415

    with bar("reading", len(files), "files") as progress:

        def done(file: Path, count: int) -> None:
            del file, count
            progress.advance(progress.task_ids[0])

        machine = this_machine("here") if here else None
        found = take_over(out, files, machine, done, simulated=simulated, settle=settle)
    describe_live(out, found.platforms, simulated=simulated)
    if found.caches > 1:
        Console(stderr=True).print(
            f"warning: the agent used {found.caches} cache domains, but a row has the ways of one; {OF_ONE_CACHE}",
            highlight=False,
            soft_wrap=True,
            markup=False,
        )
    platforms = [platform.id for platform in found.platforms]
    document = {
        "dataset": str(out),
        "simulated": simulated,
        "rows": found.rows,
        "platforms": platforms,
        "left_out": found.left._asdict(),
    }
    if json:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    else:
        left = found.left
        others = {
            "with services on cache domains": left.in_domains,
            "of a dry run": left.only_watched,
            "damaged lines": left.damaged,
        }
        placed = "".join(f", {count:,} {what}" for what, count in others.items() if count)
        Console().print(
            f"{found.rows:,} rows of {len(files)} live files in {out}, platform {', '.join(platforms)}\n"
            f"left out: {left.repeated:,} intervals without a new latency, {left.settling:,} just after a change"
            f"{placed}\n"
            f"next: osml learn data label {out}",
            highlight=False,
            soft_wrap=True,
        )


def _report(out: Path, rows: int, asked: int, resumed: int, files: int, seconds: float, json: bool) -> None:
    size = sum(file.stat().st_size for file in (out / "traces").rglob("*.parquet"))
    document: dict[str, Any] = {
        "dataset": str(out),
        "simulated": True,
        "rows": rows,
        "rows_asked": asked,
        "rows_resumed": resumed,
        "files": files,
        "bytes": size,
        "seconds": round(seconds, 3),
    }
    if json:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        return
    kept = f", {resumed:,} of them already existed" if resumed else ""
    more = f"more than the {asked:,} rows of --rows: each service and platform has at least one whole run\n"
    Console().print(
        f"{rows:,} simulated rows in {files} files of {out} ({size / 1e6:.1f} MB{kept}) in {seconds:.1f} s\n"
        f"{more if rows > _MUCH_MORE * asked else ''}next: osml learn data label {out}",
        highlight=False,
        soft_wrap=True,
    )
