"""Reads HAProxy's `show stat` (CSV, management guide section 9.1) and `show info`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from osml.base.failure import Failure

BACKEND_ROW = "BACKEND"
SERVERS_AND_BACKEND = 6
"""Mask of `show stat`: 2 is the backend's line, 4 are the servers'."""
_NEEDED = ("pxname", "svname", "qcur", "scur", "slim", "stot", "status")
_OUT = ("MAINT", "DOWN", "NOLB", "STOPPED")


@dataclass(frozen=True)
class ServerRow:
    """One server's line. in_service: requests at the server; limit: its maxconn, None for none; total: requests that
    were ever sent to it; status: HAProxy's word, such as UP, DRAIN, `no check`.
    """

    name: str
    in_service: int
    queued: int
    limit: int | None
    total: int
    status: str

    @property
    def draining(self) -> bool:
        """Gets nothing new, finishes what it has."""
        return self.status.startswith("DRAIN")

    @property
    def may_drain(self) -> bool:
        """Draining, or down, which hides a drain. Maintenance by the operator ends a drain."""
        return self.draining or (self.out and self.status != "MAINT")

    @property
    def out(self) -> bool:
        """Down or in maintenance: not ours to use."""
        return self.status.startswith(_OUT)


@dataclass(frozen=True)
class BackendRows:
    """queued: requests waiting in the backend's queue or in a server's own; arrivals: requests since HAProxy began."""

    queued: int
    arrivals: int
    servers: Mapping[str, ServerRow]

    @property
    def queued_for_any(self) -> int:
        """Requests in the backend's queue: any server may take them."""
        return self.queued - sum(row.queued for row in self.servers.values())


class StatFormatError(Failure):
    """The text is no `show stat` of the backend that was asked for."""


def parse_stat(text: str, backend: str) -> BackendRows:
    """Rows of one backend. Columns are found by name: later versions add some. Raises StatFormatError."""
    lines = [line for line in text.splitlines() if line]
    if not lines or not lines[0].startswith("# "):
        raise StatFormatError(f"HAProxy's answer to `show stat` begins with {text[:60]!r}, expected '# pxname,...'")
    columns = _columns(lines[0])
    servers: dict[str, ServerRow] = {}
    whole: tuple[int, int] | None = None
    for line in lines[1:]:
        fields = line.split(",")
        if len(fields) <= max(columns.values()):
            raise StatFormatError(f"a line of `show stat` has {len(fields)} fields: {line[:60]!r}")
        if fields[columns["pxname"]] != backend:
            continue
        name = fields[columns["svname"]]
        numbers = [_number(fields[columns[key]], key, line) for key in ("scur", "qcur", "slim", "stot")]
        in_service, queued, limit, total = numbers
        if name == BACKEND_ROW:
            whole = (queued or 0, total or 0)
        else:
            servers[name] = ServerRow(
                name, in_service or 0, queued or 0, limit or None, total or 0, fields[columns["status"]]
            )
    if whole is None:
        raise StatFormatError(f"`show stat` has no line for backend '{backend}'")
    return BackendRows(whole[0] + sum(row.queued for row in servers.values()), whole[1], servers)


def backend_names(text: str) -> list[str]:
    """All backends of a `show stat` that asked for backend lines only."""
    lines = text.splitlines()
    return [line.split(",")[0] for line in lines if line and not line.startswith("#")]


def parse_info(text: str) -> Mapping[str, str]:
    """`show info` as a mapping."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {key.strip(): value.strip() for key, colon, value in pairs if colon}


def _columns(header: str) -> Mapping[str, int]:
    names: Sequence[str] = header[2:].split(",")
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        raise StatFormatError(f"`show stat` has no column {', '.join(missing)}")
    return {name: names.index(name) for name in _NEEDED}


def _number(text: str, key: str, line: str) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdigit():
        raise StatFormatError(f"{key} is {text!r} in a line of `show stat`, expected a whole number: {line[:60]!r}")
    return int(text)
