"""When a promotion was taken back: what was learned from until then is not learned from again."""

from __future__ import annotations

from pathlib import Path

import msgspec

from osml.base.failure import InputError
from osml_training.learning.exchange import HISTORY, write_through

FILE = "rollbacks.json"
"""In the history of promotions: kind and platform ("c e5-2697v4") -> seconds since 1970."""


def taken_back_at(models: Path, kind: str, platform: str) -> float:
    """Time of the last rollback of a kind and platform, seconds since 1970; 0 where there was none. InputError."""
    return _read(models).get(f"{kind} {platform}", 0.0)


def note_rollback(models: Path, kind: str, platform: str, now_s: float) -> None:
    """Remember a rollback. Raises Failure where it can't be written, InputError where what is there can't be read."""
    noted = _read(models) | {f"{kind} {platform}": now_s}
    write_through(models / HISTORY / FILE, msgspec.json.format(msgspec.json.encode(noted), indent=1) + b"\n")


def _read(models: Path) -> dict[str, float]:
    file = models / HISTORY / FILE
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, float])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise InputError(
            f"{file} can't be read ({error}); without it, training would use the whole store again"
        ) from None
