"""Command blocks of the documentation, and what the comment above each says about who runs it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("sh", "console")
"""Languages of blocks that a reader types in. Configurations and output have others, `text` for one."""

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\S*)[^\n]*\n(?P<text>.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL
)
_MARK = re.compile(r"<!-- (?P<kind>run by|not run:) (?P<what>[^>]+?) -->\n\Z")
_BESIDE = re.compile(r"(?P<test>\S+): beside the rest, until (?P<url>http\S+)")


class Block(NamedTuple):
    """A fenced block of a page. `test` runs it, or `reason` says why nothing does; both are None without a comment.

    `until` is an address that answers when the commands, which go on beside the rest, are ready.
    """

    page: str
    line: int
    language: str
    text: str
    test: str | None
    reason: str | None
    until: str | None

    @property
    def commands(self) -> list[str]:
        """The lines that are typed in: of `console` those after `$` or `#`, joined where a line goes on."""
        text = re.sub(r"\\\n\s*", " ", self.text)
        lines = [line for line in text.splitlines() if line.strip()]
        if self.language == "console":
            return [line[2:] for line in lines if line.startswith(("$ ", "# "))]
        return [line for line in lines if not line.startswith("#")]


def blocks_of(page: Path) -> Iterator[Block]:
    """All fenced blocks of a page, in their order."""
    text = page.read_text("utf-8")
    for found in _FENCE.finditer(text):
        mark = _MARK.search(text[: found.start()])
        test, reason, until = None, None, None
        if mark is not None and mark["kind"] == "not run:":
            reason = mark["what"]
        elif mark is not None:
            beside = _BESIDE.fullmatch(mark["what"])
            test, until = (beside["test"], beside["url"]) if beside else (mark["what"], None)
        name = str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else page.name
        line = text.count("\n", 0, found.start()) + 1
        yield Block(name, line, found["language"], found["text"], test, reason, until)


def commands_of(page: Path, test: str) -> list[Block]:
    """The command blocks of a page that a test runs."""
    return [block for block in blocks_of(page) if block.language in COMMANDS and block.test == test]
