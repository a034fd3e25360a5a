"""Personal data and traces of somebody's network in names and descriptions."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator

from osml.datasets.checks.finding import Finding, Place

_PATTERNS = {
    "an e-mail address": re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+"),
    "an IP address": re.compile(
        r"(?<![\d.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?!\d|\.\d)"
    ),
    "an IPv6 address": re.compile(r"(?<![0-9a-fA-F:])(?:[0-9a-fA-F]{1,4}:){3,7}[0-9a-fA-F]{1,4}(?![0-9a-fA-F:])"),
    "a MAC address": re.compile(r"(?<![0-9a-fA-F:])(?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}(?![0-9a-fA-F:])"),
    "a home folder": re.compile(r"/(?:home|Users)/[^/\s\"']+"),
    "a host name": re.compile(r"\b[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:com|net|org|io|local|lan|internal|corp|edu|dev)\b"),
    "a user name": re.compile(r"\b(?:user|username|owner|login_name)\s*[=:]\s*\S+", re.IGNORECASE),
}


def suspects(text: str) -> Iterator[tuple[str, str]]:
    """(what it looks like, the part of the text)."""
    for what, pattern in _PATTERNS.items():
        match = pattern.search(text)
        if match is not None:
            yield what, match[0]
    host = platform.node()
    if len(host) > 3 and host not in ("localhost",) and re.search(rf"\b{re.escape(host)}\b", text):
        yield "this machine's name", host


def check_text(text: str, column: str | None, place: Place) -> Iterator[Finding]:
    """Findings in one piece of text: a file name, a value, a description."""
    for what, part in suspects(text):
        yield place.error(column, f"'{part}' looks like {what}: replace it, contributions contain no personal data")
