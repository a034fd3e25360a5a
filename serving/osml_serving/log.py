"""Structured log: one line an event on standard error, as JSON for machines or as text for people."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from io import FileIO
from typing import BinaryIO, Literal

import msgspec

from osml.base.masking import masked
from osml_serving.log_outlet import Outlet

Level = Literal["debug", "info", "warning", "error"]
SEVERITY: dict[Level, int] = {"debug": 10, "info": 20, "warning": 30, "error": 40}
CONTROL = {code: f"\\x{code:02x}" for code in [*range(32), *range(127, 160)]}  # no terminal escapes out of free text


class DecisionLine(msgspec.Struct):
    """What the log says about one decision."""

    time: str
    node: str
    seq: int
    policy: str
    e_s: float | None
    changes: int
    reasons: list[str]
    duration_ms: float
    level: str = "info"
    event: str = "decision"


class EventLine(msgspec.Struct, omit_defaults=True):
    """Anything else: start, stop, refused requests, faults."""

    time: str
    level: str
    event: str
    message: str
    node: str | None = None
    traceback: str | None = None


class Log:
    """Writes lines itself: encoding with msgspec costs a tenth of the standard library's formatters.

    Lines that can't be written (a full disk, a closed pipe) are counted in `lost`, and the server carries on.
    """

    def __init__(self, form: Literal["json", "text"], level: Level, stream: BinaryIO | None = None) -> None:
        self.form = form
        self.lost = 0
        self._threshold = SEVERITY[level]
        self._stream = _standard_error() if stream is None else stream
        self._encoder = msgspec.json.Encoder()
        self._outlet: Outlet | None = None

    def decision(
        self, node: str, seq: int, policy: str, e_s: float | None, changes: int, reasons: list[str], duration_ms: float
    ) -> None:
        """One line a decision, at level info."""
        if SEVERITY["info"] >= self._threshold:
            line = DecisionLine(_now(), node, seq, policy, e_s, changes, reasons, round(duration_ms, 3))
            self._write(line if self.form == "json" else _decision_text(line))

    def event(self, level: Level, event: str, message: str, *, node: str | None = None) -> None:
        """One line about something other than a decision."""
        if SEVERITY[level] >= self._threshold:
            line = EventLine(_now(), level, event, masked(message), node)
            self._write(line if self.form == "json" else _event_text(line))

    def fault(self, event: str, message: str, traceback: str, *, node: str | None = None) -> None:
        """An error with its traceback, for the developer: the client gets a sentence."""
        line = EventLine(_now(), "error", event, masked(message), node, masked(traceback))
        self._write(line if self.form == "json" else _event_text(line))

    def _write(self, line: DecisionLine | EventLine | str) -> None:
        encoded = line.encode("utf-8", "backslashreplace") if isinstance(line, str) else self._encoder.encode(line)
        if self._outlet is None:
            self._put_out(encoded + b"\n")
        elif not self._outlet.put(encoded + b"\n"):
            self.lost += 1

    def _put_out(self, lines: bytes) -> None:
        rest = memoryview(lines)
        try:
            while rest:
                taken = self._stream.write(rest)
                if not taken:  # a terminal that another program made non-blocking
                    break
                rest = rest[taken:]
        except (OSError, ValueError):
            pass
        self.lost += bytes(rest).count(b"\n")

    def begin_background(self) -> None:
        """Write in a thread from now on, so that a blocked stream (such as a full pipe) blocks no request."""
        self._outlet = Outlet(self._put_out)

    def end_background(self) -> None:
        """Write the queued lines, and write at once from now on; if the stream stays blocked, the thread keeps them."""
        if self._outlet is not None and self._outlet.close():
            self._outlet = None


def _standard_error() -> FileIO:
    """Standard error without Python's buffer: a blocked write would hold its lock, and block the end of the process."""
    return FileIO(sys.stderr.fileno(), "wb", closefd=False)


class Bridge(logging.Handler):
    """Sends what libraries log (uvicorn, asyncio) down the same road."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write a library's record as an event named after its logger."""
        if record.exc_info:
            formatted = logging.Formatter().formatException(record.exc_info)
            self._log.fault(record.name, record.getMessage(), formatted)
        else:
            level: Level = "error" if record.levelno >= logging.ERROR else "warning"
            self._log.event(level, record.name, record.getMessage())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _decision_text(line: DecisionLine) -> str:
    e_s = "-" if line.e_s is None else f"{line.e_s:.3f}"
    changes = "1 change" if line.changes == 1 else f"{line.changes} changes"
    head = f"{line.time} info  {line.node} #{line.seq} {line.policy}: E_S {e_s}, {changes}, {line.duration_ms:.2f} ms"
    return head + "".join(f"; {reason.translate(CONTROL)}" for reason in line.reasons)


def _event_text(line: EventLine) -> str:
    node = f" {line.node}" if line.node else ""
    text = f"{line.time} {line.level:5}{node} {line.event}: {line.message.translate(CONTROL)}"
    return text if line.traceback is None else f"{text}\n{line.traceback.rstrip()}"
