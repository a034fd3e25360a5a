"""One thing that a machine can do, or can't."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Area = Literal["act", "sense", "decide", "simulate", "train"]


class Finding(Struct, frozen=True, forbid_unknown_fields=True):
    """A mechanism in its area. `reason` says what was found, `how_to_enable` what to do where it is not available."""

    mechanism: str
    area: Area
    available: bool
    reason: str
    how_to_enable: str = ""
