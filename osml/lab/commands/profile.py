"""`osml look profile`: a program's misses over the size of the last-level cache, by running it instrumented."""

from __future__ import annotations

import json as json_module
import os
import shlex
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from osml.base.failure import Failure, InputError
from osml.lab.profile import catalog_entry
from osml.lab.profile.caches import of_platform
from osml.lab.profile.document import document
from osml.lab.profile.outcome import Outcome
from osml.lab.profile.program import Work, run_program
from osml.lab.profile.server import Asked, run_server
from osml.lab.trials.live import machine
from osml.lab.trials.live.services import LOOPBACK, Service, service_named
from osml.simulator import catalogs


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _own_service(name: str, words: list[str], protocol: str, requests: Path | None, threads: int) -> Service:
    """A server of the user's own, with a port that its command names."""

    def reach(at: int) -> None:
        with socket.create_connection((LOOPBACK, at), 5.0):
            pass

    paths: tuple[str, ...] = ()
    if requests is not None:
        paths = tuple(line for line in _text(requests).splitlines() if line.strip())
    own: Callable[[Path, int], list[str]] = lambda _, at: [word.replace("{port}", str(at)) for word in words]  # noqa: E731
    if not any("{port}" in word for word in words):
        raise InputError("the command does not say {port}, expected it where the server's port stands")
    return Service(name, words[0], words[0], protocol, own, reach, threads=threads, requests=paths, user=None)


def _text(requests: Path) -> str:
    try:
        return requests.read_text("utf-8")
    except OSError as error:
        raise InputError(f"--requests-file {requests} can't be read ({error.strerror}), expected a text file") from None
    except UnicodeDecodeError:
        raise InputError(f"--requests-file {requests} is not UTF-8, expected paths or statements, one a line") from None


def profile(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="The program, after --. Without one: the lab's own command of that service."),
    ] = None,
    service: Annotated[str, typer.Option(help="Name of the entry; a service of the lab brings its load.")] = "program",
    platform: Annotated[
        str, typer.Option(help="Platform with the last-level cache: a name of the catalog, or a file.")
    ] = "e5-2697v4",
    seconds: Annotated[
        float | None, typer.Option(help="Seconds of the measurement.", show_default="30 under load, else to the end")
    ] = None,
    warm_s: Annotated[
        float | None,
        typer.Option(help="Seconds that are left out before the measurement.", show_default="10 under load, else 0"),
    ] = None,
    protocol: Annotated[
        str, typer.Option(help="Load an own server: redis, memcached, http or mysql. {port} in COMMAND is its port.")
    ] = "",
    requests_file: Annotated[Path | None, typer.Option(help="Paths or statements for --protocol, one a line.")] = None,
    load: Annotated[float, typer.Option(help="Share of the CPUs of the server's threads that it uses.")] = 0.5,
    threads: Annotated[int, typer.Option(min=1, help="Requests that an own server works on at once.")] = 1,
    requests: Annotated[
        int | None, typer.Option(help="Requests that a program without load serves until it ends.")
    ] = None,
    l2_kib: Annotated[int, typer.Option(help="Size of the private L2 in KiB.")] = 256,
    sample: Annotated[int, typer.Option(help="Simulate one of this many sets of the cache; a power of two.")] = 8,
    seed: Annotated[int, typer.Option(help="Seed of places in the cache, arrival times and request mix.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write the entry of the simulator's catalog, YAML.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Measure a program's misses with every number of ways of the last-level cache, in one run under instrumentation.

    QEMU runs the program, several to more than a hundred times slower. A server gets its load slowed down accordingly.
    The counts are of a simulated cache: LRU, without a prefetcher, and beside it with a simple one.
    """
    _check(load, seconds, warm_s, requests)
    if out is not None and not (out.parent.is_dir() and os.access(out.parent, os.W_OK)):
        raise InputError(f"--out {out}: {out.parent} is no folder that can be written to: make it first")
    try:
        model = catalogs.platform(platform)
    except catalogs.CatalogError as error:
        raise InputError(f"--platform: {error}") from None
    caches = of_platform(model, l2_kib, sample, seed)
    words = list(command or [])
    server: Service | None = None
    if protocol:
        server = _own_service(service, words, protocol, requests_file, threads)
    elif not words:
        server = service_named(service)
        machine.require_programs([server])
        machine.prepare(server)
    if server is not None:
        asked = Asked(load, seconds or 30.0, 10.0 if warm_s is None else warm_s, seed)
        outcome, threads = run_server(server, caches, asked, _say), server.threads
        words = words or [server.program]
    else:
        outcome = run_program(Work(words, warm_s or 0.0, seconds, requests), caches)
    found = document(service, model.id, caches, outcome, words)
    if json:
        sys.stdout.write(json_module.dumps(found) + "\n")
    else:
        show(found, outcome, Console())
    if out is not None and outcome.complete:  # a catalog has no place for a part of a run
        out.write_text(catalog_entry.text(found, threads))
    if not outcome.complete:
        kept = "" if out is None else f"; --out {out} was not written"
        raise _Ended(f"stopped before the end; all started processes are ended, and the curve is of what had run{kept}")


class _Ended(Failure):
    """Ctrl-C."""

    exit_code = 130


def _check(load: float, seconds: float | None, warm_s: float | None, requests: int | None) -> None:
    if not 0.0 < load < 1.0:
        raise InputError(f"--load is {load:g}, expected a share above 0 and below 1")
    if seconds is not None and not 0.0 < seconds <= 86_400.0:
        raise InputError(f"--seconds is {seconds:g}, expected above 0 and up to 86400")
    if warm_s is not None and not 0.0 <= warm_s <= 86_400.0:
        raise InputError(f"--warm-s is {warm_s:g}, expected 0 to 86400")
    if requests is not None and requests < 1:
        raise InputError(f"--requests is {requests}, expected at least 1")
    if requests is not None and (seconds is not None or warm_s):
        raise InputError("--requests counts over the whole run, expected neither --seconds nor --warm-s beside it")


def show(found: dict[str, Any], outcome: Outcome, console: Console) -> None:
    """The curve as a table, and what was measured besides."""
    ahead = found["with_stream_prefetcher"]
    title = f"Misses per 1000 instructions of {escape(found['name'])} in the cache of {found['platform']} (simulated)"
    table = Table("ways", "MiB", "MPKI", "± 95 %", "with prefetcher", "± 95 %", title=title, title_justify="left")
    for way, *cells in zip(
        found["ways"], found["mpki"], found["mpki_error"], ahead["mpki"], ahead["mpki_error"], strict=True
    ):
        table.add_row(str(way), f"{way * found['way_mib']:.4g}", *(f"{cell:.3f}" for cell in cells))
    console.print(table)
    fit = found["law"]
    said = [
        f"{found['instructions']:,} instructions in {found['seconds']:g} s, {shlex.join(found['command'])}",
        f"accesses to the last level: {found['apki']:.3f} per 1000 instructions; lines never seen before: "
        f"{found['cold_mpki']:.3f}; memory touched: {found['footprint_mib']:.4g} MiB",
        f"the node's form of the curve: rms error {fit['rms']:.3g} MPKI (a constant: {fit['constant_rms']:.3g})",
    ]
    if found["instructions_per_request"] is not None:
        said.append(f"per request: {found['instructions_per_request']:,.0f} instructions")
    if found["load"] is not None and found["load"]["slow_down"] is not None:
        said.append(
            f"{found['load']['slow_down']:.1f} times the CPU time per request; load {found['load']['rate']:.3g}/s"
        )
    for line in [*said, *found["notes"]]:
        console.print(line, highlight=False, markup=False)
