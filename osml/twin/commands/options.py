"""What the commands of the twin have in common: pairs NAME=VALUE, files of twins and records, JSON."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar

import msgspec
import typer
from rich.console import Console

from osml.base.failure import InputError
from osml.decide.decide import PolicyError, RequestError
from osml.records import Record

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Seed = Annotated[int, typer.Option(help="Seed of all draws: the same seed, the same result.", min=0)]
Limits = Annotated[
    list[str] | None,
    typer.Option(
        "--limit", metavar="NAME=CPUS", help="NAME=CPUS: CPU limit that the record does not contain; repeatable."
    ),
]

_Value = TypeVar("_Value")


def print_json(document: Any) -> None:
    """One document on standard output."""
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")


def out() -> Console:
    """Where tables go."""
    return Console(highlight=False, soft_wrap=True)


@contextmanager
def working(text: str) -> Generator[None, None, None]:
    """Say on standard error what takes some seconds; an animation on a terminal only."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(text):
            yield
    else:
        yield


@contextmanager
def refused() -> Generator[None, None, None]:
    """What a policy, or the check of its input, refuses is wrong input."""
    try:
        yield
    except (RequestError, PolicyError) as error:
        raise InputError(str(error)) from None


def positive(text: str, where: str) -> float:
    """A number above 0; InputError names `where` it was given."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{where} is '{text}', expected a number above 0")
    return value


def whole(text: str, where: str) -> int:
    """A whole number above 0; InputError names `where` it was given."""
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise InputError(f"{where} is '{text}', expected a whole number above 0")
    return int(text)


def pairs(given: Sequence[str] | None, option: str, value: Callable[[str, str], _Value]) -> list[tuple[str, _Value]]:
    """NAME=VALUE of an option that may be repeated; InputError names what is wrong."""
    found: list[tuple[str, _Value]] = []
    for text in given or []:
        name, equals, after = text.partition("=")
        if not equals or not name or not after:
            raise InputError(f"{option} is '{text}', expected NAME=VALUE, such as {option} redis=2")
        found.append((name, value(after, f"{option} of '{name}'")))
    return found


def limits_of(record: Record, given: Sequence[str] | None) -> dict[str, float]:
    """The CPU limits of --limit; InputError where one names nobody of the record."""
    quotas = dict(pairs(given, "--limit", positive))
    there = {service.name for line in record.lines for service in line.observation.services}
    for name in quotas:
        if name not in there:
            raise InputError(
                f"--limit names '{name}', which the record does not have; it has {', '.join(sorted(there))}"
            )
    return quotas
