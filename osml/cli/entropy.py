"""`osml look entropy FILE`: E_S of measured services, from a JSON file or standard input."""

from __future__ import annotations

import math
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from osml.base.failure import InputError
from osml.base.json_file import from_json
from osml.domain import Counters, Entropy, Latency, Service
from osml.entropy import RELATIVE_IMPORTANCE, system_entropy

MAX_BYTES = 16 * 1024 * 1024


class LcEntry(msgspec.Struct, forbid_unknown_fields=True):
    """A latency-critical service: tail latencies in ms at the target's percentile."""

    name: str
    real_ms: float
    target_ms: float
    ideal_ms: float | None = None


class BeEntry(msgspec.Struct, forbid_unknown_fields=True):
    """A best-effort job: instructions per cycle alone on the node, and now."""

    name: str
    ipc_solo: float
    ipc_real: float


class Measured(msgspec.Struct, forbid_unknown_fields=True):
    """The file: what was measured of a node in one interval."""

    lc: list[LcEntry] = []
    be: list[BeEntry] = []
    relative_importance: float = RELATIVE_IMPORTANCE


def _positive(where: str, value: float, allow_zero: bool = False) -> float:
    if not math.isfinite(value) or value < 0 or (value == 0 and not allow_zero):
        bound = "a finite number of at least 0" if allow_zero else "a finite number above 0"
        raise InputError(f"{where} is {value}, expected {bound}")
    return value


def parse(text: bytes, source: str) -> Measured:
    """Decode and check the file. Raises InputError, naming the field, for anything that has no meaning."""
    if not text.strip():
        raise InputError(f"{source} is empty, expected a JSON document with `lc` or `be`: `osml look entropy --help`")
    measured = from_json(text, Measured, source)
    if not measured.lc and not measured.be:
        raise InputError(f"{source}: neither `lc` nor `be` has an entry, expected at least one service")
    if not 0 <= measured.relative_importance <= 1:
        raise InputError(f"{source}: relative_importance is {measured.relative_importance}, expected 0 to 1")
    names = [entry.name for entry in [*measured.lc, *measured.be]]
    for name, count in Counter(names).items():
        if count > 1:
            raise InputError(f"{source}: two services are called '{name}', expected unique names")
    for entry in measured.lc:
        _positive(f"{source}: real_ms of '{entry.name}'", entry.real_ms)
        _positive(f"{source}: target_ms of '{entry.name}'", entry.target_ms)
        if entry.ideal_ms is not None:
            _positive(f"{source}: ideal_ms of '{entry.name}'", entry.ideal_ms)
    for entry in measured.be:
        _positive(f"{source}: ipc_solo of '{entry.name}'", entry.ipc_solo)
        _positive(f"{source}: ipc_real of '{entry.name}'", entry.ipc_real, allow_zero=True)
    return measured


def compute(measured: Measured) -> Entropy:
    """E_LC, E_BE, E_S and the figures of each LC service."""
    services = [
        Service(
            name=entry.name,
            kind="lc",
            target_ms=entry.target_ms,
            ideal_ms=entry.ideal_ms,
            latency=Latency(p99_ms=entry.real_ms),
        )
        for entry in measured.lc
    ]
    services += [
        Service(name=entry.name, kind="be", ipc_solo=entry.ipc_solo, counters=Counters(ipc=entry.ipc_real))
        for entry in measured.be
    ]
    return system_entropy(services, measured.relative_importance)


def _show(entropy: Entropy) -> None:
    table = Table(title="System entropy (0 is best)", title_justify="left")
    table.add_column("service")
    for heading in ("tolerance A", "interference R", "remaining ReT", "intolerable Q"):
        table.add_column(heading, justify="right")
    for entry in entropy.services:
        figures = (entry.tolerance, entry.interference, entry.remaining_tolerance, entry.intolerable)
        table.add_row(escape(entry.name), *("-" if figure is None else f"{figure:.3f}" for figure in figures))
    console = Console()
    if entropy.services:
        console.print(table)
    for name, value in (("E_LC", entropy.e_lc), ("E_BE", entropy.e_be), ("E_S", entropy.e_s)):
        console.print(f"{name:5} {'-' if value is None else f'{value:.3f}'}")


def entropy(
    file: Annotated[Path, typer.Argument(help="JSON file with `lc` and `be` measurements; - reads standard input.")],
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Compute E_LC, E_BE and E_S (Ah-Q, equations 11 to 17) of measured services.

    The file: {"relative_importance": 0.8, "lc": [{"name", "ideal_ms", "real_ms", "target_ms"}],
    "be": [{"name", "ipc_solo", "ipc_real"}]}.
    """
    source = "standard input" if str(file) == "-" else str(file)
    if str(file) == "-" and sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - a closed one is None
        raise InputError("standard input is closed, expected the measurements there: name a file, or use a pipe")
    try:
        with sys.stdin.buffer if str(file) == "-" else file.open("rb") as stream:
            text = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{source} can't be read: {error.strerror}") from None
    if len(text) > MAX_BYTES:
        raise InputError(f"{source} is longer than 16 MiB, expected one node's measurements")
    result = compute(parse(text, source))
    if json:
        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    else:
        _show(result)
