"""Shows what somebody else wrote."""

from __future__ import annotations

from rich.text import Text


def plain_text(told: object) -> Text:
    """A text without markup and without what moves a terminal."""
    return Text("".join(char if char.isprintable() else "?" for char in str(told)))
