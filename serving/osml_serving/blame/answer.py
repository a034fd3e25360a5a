"""What the process of the twins says: one line of JSON."""

from __future__ import annotations

from msgspec import Struct

from osml.decide.outlook import BlameNow


class Answer(Struct):
    """The blame, or why there is none."""

    blame: BlameNow | None = None
    fault: str | None = None
