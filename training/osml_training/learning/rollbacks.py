"""When a promotion was taken back: what was learned from until then is not learned from again."""

from __future__ import annotations

from pathlib import Path

import msgspec

from osml.base.failure import InputError
from osml.base.json_file import MissingFileError, read_json
from osml.experiences.store import Stored
from osml_training.export.model_folder import HISTORY, write_through

FILE = "rollbacks.json"
"""In the history of promotions: kind and platform ("c e5-2697v4") -> the last rollback."""


class Rollback(msgspec.Struct, frozen=True):
    """What was there at a rollback: the newest experience of `store`; where that could not be asked, the time.

    `at_s` is of this machine's clock, and the server's can be another one; ids are the store's own.
    """

    at_s: float = 0.0
    store: str | None = None
    newest: int = 0

    def is_before(self, stored: Stored, store: str, newest: int) -> bool:
        """Whether an experience of a store was there then already. `newest` is the store's newest id now.

        A store whose newest id is lower than it was then was made anew: its ids say nothing.
        """
        same = store == self.store and newest >= self.newest
        return stored.id <= self.newest if same else stored.received_s <= self.at_s


def taken_back_at(models: Path, kind: str, platform: str) -> Rollback:
    """The last rollback of a kind and platform; one of nothing where there was none. InputError."""
    return _read(models).get(f"{kind} {platform}", Rollback())


def note_rollback(models: Path, kind: str, platform: str, rollback: Rollback) -> None:
    """Remember a rollback. Raises Failure where it can't be written, InputError where what is there can't be read."""
    noted = _read(models) | {f"{kind} {platform}": rollback}
    write_through(models / HISTORY / FILE, msgspec.json.format(msgspec.json.encode(noted), indent=1) + b"\n")


def _read(models: Path) -> dict[str, Rollback]:
    file = models / HISTORY / FILE
    try:
        found = read_json(file, dict[str, Rollback | float])  # older ones are a time
    except MissingFileError:
        return {}
    except InputError as error:
        raise InputError(f"{error}; without it, training would use the whole store again") from None
    return {key: one if isinstance(one, Rollback) else Rollback(one) for key, one in found.items()}
