"""What happened in a trial, interval by interval: the agent's own record (`osml-agent run --record FILE`)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from osml.base.failure import Failure
from osml.domain import Decision, Observation

POLL_S = 0.02


class Record(msgspec.Struct, frozen=True):
    """One interval: what the agent observed, and what was decided on it."""

    observation: Observation
    decision: Decision


class _Line(msgspec.Struct, frozen=True):
    observation: Observation
    decision: Decision | None  # null: the server did not answer in this interval


def decode_record(line: bytes) -> Record | None:
    """One line of the file; None for an interval that the server did not answer.

    Raises Failure where agent and package do not speak the same wire format.
    """
    try:
        parsed = msgspec.json.decode(line, type=_Line)
        return None if parsed.decision is None else Record(parsed.observation, parsed.decision)
    except msgspec.MsgspecError as error:
        raise Failure(f"the agent's record can't be read ({error}): agent and osml have different versions") from None


class RecordReader:
    """Follows a record file while the agent appends to it. `unanswered` counts intervals without a decision."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.unanswered = 0

    def new(self) -> list[Record]:
        """Records that were completed since the last call; a half-written last line waits."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as stream:
            stream.seek(self._offset)
            text = stream.read()
        complete = text[: text.rfind(b"\n") + 1]
        self._offset += len(complete)
        records = [decode_record(line) for line in complete.splitlines()]
        self.unanswered += records.count(None)
        return [record for record in records if record is not None]

    def follow(self, timeout_s: float) -> Iterator[Record]:
        """Records that arrive within `timeout_s` from now."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            records = self.new()
            yield from records
            if not records:
                time.sleep(POLL_S)
