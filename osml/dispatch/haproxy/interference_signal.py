"""Which backends are under interference: from a file or a schedule. A reading that is too old is none.

From the osml server: `interference_server`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from osml.base.failure import InputError
from osml.base.json_file import read_json

Reading = Mapping[str, bool]
_NAMED = 5
"""Most unknown names that a message has."""


class Signal(Protocol):
    """read(now) gives each backend that something fresh is known of; now is time.monotonic() seconds."""

    def read(self, now: float) -> Reading:
        """True: under interference. Empty: the signal is lost."""
        ...

    def stop(self) -> None:
        """End what runs beside."""
        ...


class Switch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """From `t` seconds after the start on, `backend` is under interference or not."""

    t: float
    backend: str
    interfered: bool


class ScheduleSignal:
    """Known in advance, for experiments. Never stale: before its first switch a backend is free."""

    def __init__(self, switches: Iterable[Switch], started: float) -> None:
        self._switches = sorted(switches, key=lambda switch: switch.t)
        self._started = started

    def read(self, now: float) -> Reading:
        """State after all switches up to now."""
        state = dict.fromkeys((switch.backend for switch in self._switches), False)
        for switch in self._switches:
            if switch.t > now - self._started:
                break
            state[switch.backend] = switch.interfered
        return state

    def stop(self) -> None:
        """Nothing runs beside."""


def load_schedule(path: Path) -> list[Switch]:
    """A JSON list of {"t", "backend", "interfered"}. Raises InputError."""
    try:
        switches = read_json(path, list[Switch])
    except InputError as error:
        raise InputError(
            f'--schedule {error}, expected [{{"t": 30, "backend": "web1", "interfered": true}}, ...]'
        ) from None
    if not switches:
        raise InputError(f"--schedule {path} has no switches, expected at least one")
    return switches


@dataclass(frozen=True)
class Level:
    """From this value of the measure on, a backend counts as under interference."""

    limit: float

    def reached(self, value: bool | float) -> bool:
        """A plain yes or no passes."""
        return value if isinstance(value, bool) else value >= self.limit


class FileSignal:
    """A JSON object, backend to true, false or a number to compare; its age is that of the file's last change.

    A file that is unreadable or half-written changes nothing: what was read last stays until it is too old. Names that
    are not among the `servers` of now are said: a typing error would else pass for a server without interference.
    """

    def __init__(
        self,
        path: Path,
        level: Level,
        max_age_s: float,
        wall: Callable[[], float],
        servers: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._path = path
        self._servers = servers
        self._level = level
        self._max_age_s = max_age_s
        self._wall = wall
        self._seen: tuple[int, int, int] | None = None
        self._known: Reading = {}
        self._fault: str | None = None
        self._at = 0.0
        self.problem: str | None = None

    def read(self, now: float) -> Reading:
        """What the file says, or nothing when it is too old."""
        del now  # files have wall-clock times
        self._look()
        self.problem = self._fault or self._unknown()
        return self._known if abs(self._wall() - self._at) <= self._max_age_s else {}

    def stop(self) -> None:
        """Nothing runs beside."""

    def _look(self) -> None:
        try:
            status = self._path.stat()
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if seen == self._seen:
                return
            values = read_json(self._path, dict[str, bool | float])
        except OSError as error:
            self._fault = f"{self._path}: {error.strerror}"
            return
        except InputError as error:
            self._fault = str(error)
            return
        self._fault, self._seen, self._at = None, seen, status.st_mtime
        self._known = {name: self._level.reached(value) for name, value in values.items()}

    def _unknown(self) -> str | None:
        servers = self._servers()
        names = sorted(set(self._known) - set(servers)) if servers else []
        if not names:
            return None
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        text = ", ".join(name[:60] for name in names[:_NAMED])
        return f"{self._path} names {text}{more}, expected servers of the backend: {', '.join(servers)}"
