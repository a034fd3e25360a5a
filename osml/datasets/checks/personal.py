"""Personal data and traces of somebody's network in names and descriptions."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from osml.datasets.checks.finding import Finding, Place
from osml.datasets.description import DESCRIBED
from osml.datasets.schema import LABEL_COLUMNS, TRACE_COLUMNS

_ADDRESS = "an IP address"

# A pattern begins where no earlier start could match: so a long text takes no more than time in proportion.
_PATTERNS = {
    "an e-mail address": re.compile(r"(?<![\w.%+-])[\w.%+-]++@[\w-]+(\.[\w-]+)+"),
    _ADDRESS: re.compile(r"(?<![\d.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?!\d|\.\d)"),
    "an IPv6 address": re.compile(
        r"(?<![\w:])(?:(?:[0-9a-f]{1,4}:){3,7}[0-9a-f]{1,4}|(?:[0-9a-f]{1,4}:){1,6}(?::[0-9a-f]{1,4}){1,6})(?![\w:])",
        re.IGNORECASE,
    ),
    "a MAC address": re.compile(r"(?<![0-9a-fA-F:])(?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}(?![0-9a-fA-F:])"),
    "a home folder": re.compile(r"/(?:home|Users)/[^/\s\"']+", re.IGNORECASE),
    "a host name": re.compile(
        r"(?<![a-z0-9.-])[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:com|net|org|io|local|lan|internal|corp|edu|dev)\b",
        re.IGNORECASE,
    ),
    "a user name": re.compile(r"\b(?:user|username|owner|login_name)\s*[=:]\s*\S+", re.IGNORECASE),
}

_ANY = ("utf-8", "replace")
"""How bytes that may be no text are read."""

_LONGEST = 10_000
"""Characters of one text."""

_ORDINARY = frozenset((
    "checksums", "croissant", "data", "dataset", "debian", "docker", "host", "json", "labels", "licence", "license",
    "linux", "localhost", "machine", "node", "osml", "parquet", "part", "readme", "real", "run", "server", "sha256",
    "simulated", "sweep", "test", "traces", "ubuntu", "virtual",
    *(one.name for one in (*TRACE_COLUMNS, *LABEL_COLUMNS)),
))  # fmt: skip
"""Words that every data set has: whose machine is called so is not named by them."""


def own_names() -> frozenset[str]:
    """What this machine is called, with and without its domain."""
    node = platform.node().lower()
    return frozenset((node, node.partition(".")[0]))


def suspects(text: str, ordinary: frozenset[str] = frozenset(), *, kernel: bool = False) -> Iterator[tuple[str, str]]:
    """(what it looks like, the part of the text). `ordinary`: words that are not the name of this machine.

    `kernel`: the text is the release of a kernel, some of which have four numbers (WSL2, Oracle Linux, openEuler).
    """
    for what, pattern in _PATTERNS.items():
        match = None if kernel and what == _ADDRESS else pattern.search(text)
        if match is not None:
            yield what, match[0]
    for host in sorted(own_names() - _ORDINARY - {word.lower() for word in ordinary}):
        if len(host) > 3 and re.search(rf"\b{re.escape(host)}\b", text, re.IGNORECASE):
            yield "this machine's name", host


def check_text(
    text: str, column: str | None, place: Place, ordinary: frozenset[str] = frozenset(), *, kernel: bool = False
) -> Iterator[Finding]:
    """Findings in one piece of text: a file name, a value, a description."""
    if len(text) > _LONGEST:
        yield place.error(column, f"a text has {len(text)} characters, expected at most {_LONGEST}: shorten it")
        return
    for what, part in suspects(text, ordinary, kernel=kernel):
        yield place.error(
            column, f"'{part[:200]}' looks like {what}: replace it, contributions contain no personal data"
        )


def check_document(document: Any, place: Place, ordinary: frozenset[str] = frozenset()) -> Iterator[Finding]:
    """Findings in all texts of a description, each with its key: `user` says something of what follows."""
    left: list[tuple[str, Any]] = [("", msgspec.to_builtins(document))]
    while left:
        key, value = left.pop()
        if isinstance(value, dict):
            for name, one in cast(dict[str, Any], value).items():
                yield from check_text(name, None, place, ordinary | {name})
                left.append((name, one))
        elif isinstance(value, list):
            left += [(key, one) for one in cast(list[Any], value)]
        elif isinstance(value, str):
            yield from check_text(f"{key}: {value}", None, place, ordinary, kernel=key == "kernel")


def check_metadata(schema: Any, place: Place, ordinary: frozenset[str] = frozenset()) -> Iterator[Finding]:
    """Findings in the metadata of a Parquet file and of its columns, but for what `check_document` has of them."""
    whole: dict[bytes, bytes] = schema.metadata or {}
    parts: list[tuple[str | None, dict[bytes, bytes]]] = [(field.name, field.metadata or {}) for field in schema]
    parts.append((None, {key: value for key, value in whole.items() if key.decode(*_ANY) not in DESCRIBED}))
    for column, pairs in parts:
        for key, value in pairs.items():
            name = key.decode(*_ANY)
            yield from check_text(f"{name}: {value.decode(*_ANY)}", column, place, ordinary | {name})
