"""One backend of a running HAProxy, observed and changed through its runtime API.

`drain` is what takes a server out: it finishes what it has, gets nothing new, and takes nothing from the queue. Back
in, HAProxy 2.6 does not look at its queue by itself; setting maxconn makes it do so. Servers that their operator
drained, and those in maintenance or down, are left alone. A server that is down may still have our drain: HAProxy shows
no drain until it is up again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from osml.base.failure import Failure, InputError
from osml.dispatch.haproxy.command_socket import HaproxyGoneError, RuntimeSocket
from osml.dispatch.haproxy.farm_view import Backend, DispatchDecision, FarmObservation
from osml.dispatch.haproxy.journal import Journal, Original, Process
from osml.dispatch.haproxy.show_stat import (
    SERVERS_AND_BACKEND,
    BackendRows,
    ServerRow,
    backend_names,
    parse_info,
    parse_stat,
)


@dataclass
class Outages:
    """How often HAProxy was gone, and how often another process answered afterwards."""

    lost: int = 0
    restarts: int = 0
    reason: str | None = None
    """Why it is away now."""


class HaproxyBackend:
    """Observe, apply, restore. What is wanted is compared with what HAProxy shows: a restart is just a difference."""

    def __init__(self, runtime: RuntimeSocket, backend: str, journal: Journal) -> None:
        self._runtime = runtime
        self._backend = backend
        self._journal = journal
        self._drained: set[str] = set()
        self._ever_drained: set[str] = set()
        self._original: dict[str, Original] = {}
        self._journaled: dict[str, Original] = {}
        self._connections = 0
        self._process = Process()
        self._away = False
        self._stuck: set[str] = set()
        self._changed = False
        self.outages = Outages()
        self.rows = BackendRows(0, 0, {})

    @property
    def names(self) -> tuple[str, ...]:
        """All servers, in HAProxy's order."""
        return tuple(self.rows.servers)

    @property
    def changed(self) -> bool:
        """There is something that restore() has to put back, perhaps from a controller that was killed."""
        return self._changed or bool(self._drained)

    def start(self) -> None:
        """First look. Raises InputError for an unknown backend (the known ones are named) and for one without queue."""
        self._runtime.check()
        self.rows = self._read()
        for row in self.rows.servers.values():
            if row.limit is None:
                raise InputError(
                    f"server {self._backend}/{row.name} has no maxconn, so HAProxy never queues requests: set maxconn "
                    "in its configuration"
                )
        left = self._journal.read()
        known = {} if left is None else left.servers
        another = left is not None and left.haproxy is not None and self._process.is_another(left.haproxy)
        for name, row in self.rows.servers.items():
            old = known.get(name) or Original(not row.draining, row.limit)
            self._original[name] = Original(old.open, row.limit) if another else old
            if name in known and old.open and row.may_drain:
                self._mark_drained([name])
        if left is not None:
            self._remember()
            self._changed = True

    def read(self) -> BackendRows:
        """Rows of now. Raises HaproxyGoneError while HAProxy is away; after that, what was ours is ours again."""
        try:
            rows = self._read()
        except HaproxyGoneError as error:
            self.outages.lost += not self._away
            self._away = True
            self.outages.reason = str(error)
            raise
        self.rows, self._away, self.outages.reason = rows, False, None
        for name, row in rows.servers.items():
            # A server that appeared since: as it is now is how it shall be left.
            self._original.setdefault(name, Original(not row.draining, row.limit))
            if not row.may_drain:
                self._drained.discard(name)
        return rows

    def observe(self, interfered: Mapping[str, bool], limit_interfered: int = 1) -> FarmObservation:
        """The last rows as a policy sees them; names that the signal does not know are free of interference."""
        backends = tuple(
            Backend(
                name,
                row.in_service,
                self._limit(name),
                self._usable(row),
                interfered.get(name, False),
                min(limit_interfered, self._limit(name)),
            )
            for name, row in self.rows.servers.items()
        )
        return FarmObservation(backends, self.rows.queued)

    def apply(self, decision: DispatchDecision) -> int:
        """Make HAProxy follow the decision; returns the number of commands that it took.

        Servers come in before others go out, in one line of commands: at no time there is none.
        """
        commands: list[str] = []
        closing: list[str] = []
        for name, slots in decision.slots.items():
            row = self.rows.servers[name]
            if slots == 0:
                if not row.draining:
                    closing.append(name)
            elif row.draining or row.limit != slots or self._forgotten(row, slots):
                commands += self._open(row, slots)
        commands += [f"set server {self._backend}/{name} state drain" for name in closing]
        if not commands:
            return 0
        self._remember()
        self._changed = True
        self._mark_drained(closing)
        self._send(commands)
        return len(commands)

    def restore(self) -> None:
        """Everything as it was before the first change. Raises HaproxyGoneError while HAProxy is away."""
        rows = self._read()
        commands: list[str] = []
        for name, row in rows.servers.items():
            original = self._original.get(name)
            if original is None:
                continue
            limit = original.limit or 0
            if row.may_drain and original.open and name in self._drained:
                commands += self._open(row, limit)
            elif row.limit != original.limit:
                commands.append(f"set maxconn server {self._backend}/{name} {limit}")
        if commands:
            self._send(commands)
        self._drained.clear()
        self._journal.clear()
        self._journaled = {}
        self._changed = False

    def _remember(self) -> None:
        """Also a server that came since the last change."""
        if self._journaled != self._original:
            self._journal.write(self._original, self._process)
            self._journaled = dict(self._original)

    def _open(self, row: ServerRow, slots: int) -> list[str]:
        """In this order: setting maxconn is what makes HAProxy look at its queue."""
        limit = f"set maxconn server {self._backend}/{row.name} {slots}"
        return [f"set server {self._backend}/{row.name} state ready", limit] if row.may_drain else [limit]

    def _mark_drained(self, names: Iterable[str]) -> None:
        self._drained.update(names)
        self._ever_drained.update(names)

    def _forgotten(self, row: ServerRow, slots: int) -> bool:
        """Requests wait although a server that is in has room, twice in a row: HAProxy has to be told to look.

        What waits for another server, bound to it by a cookie, is not for this one.
        """
        waiting = (self.rows.queued_for_any > 0 or row.queued > 0) and row.in_service < slots
        again = waiting and row.name in self._stuck
        (self._stuck.add if waiting and not again else self._stuck.discard)(row.name)
        return again

    def _limit(self, name: str) -> int:
        return self._original[name].limit or 1

    def _usable(self, row: ServerRow) -> bool:
        """In, or taken out by us. Without a maxconn there is nothing to set it back to, and no queue."""
        known = self._original[row.name].limit is not None
        return known and not row.out and (not row.draining or row.name in self._drained)

    def _read(self) -> BackendRows:
        rows = parse_stat(_stat(self._runtime, self._backend), self._backend)
        if self._connections != self._runtime.connections:
            self._new_connection(rows)
        return rows

    def _new_connection(self, rows: BackendRows) -> None:
        """Ask who answers. A reload may carry our drains over into the new process: they are still ours.

        Its state file may be older than our last look, so one that we opened since may be drained again. A drain that
        was the operator's at our last look stays the operator's. A maxconn is that of its configuration: no state file
        has it.
        """
        info = parse_info(self._runtime.ask("show info"))
        process = Process(info.get("Pid", ""), _since(info.get("Uptime_sec", "")))
        if self._connections > 0 and process.is_another(self._process):
            self.outages.restarts += 1
            self._original |= {
                name: Original(self._original[name].open, row.limit)
                for name, row in rows.servers.items()
                if name in self._original
            }
            self._journaled = {}
            operators = {name for name, row in self.rows.servers.items() if row.draining} - self._drained
            drained = {name for name, row in rows.servers.items() if row.draining}
            self._drained |= (drained & self._ever_drained) - operators
        self._process, self._connections = process, self._runtime.connections

    def _send(self, commands: list[str]) -> None:
        answer = self._runtime.ask(*commands).strip()
        if answer:
            raise Failure(f"HAProxy refused `{'; '.join(commands)}`: {answer.splitlines()[0]}")


def _since(uptime_s: str) -> float:
    """`time.monotonic()` at the start of a process; 0 where it does not say how long it runs."""
    return time.monotonic() - int(uptime_s) if uptime_s.isdecimal() else 0.0


def check_backend(runtime: RuntimeSocket, backend: str) -> None:
    """Raise InputError for a backend that HAProxy does not know; the known ones are named."""
    _stat(runtime, backend)


def _stat(runtime: RuntimeSocket, backend: str) -> str:
    text = runtime.ask(f"show stat {backend} {SERVERS_AND_BACKEND} -1")
    if text.startswith("No such proxy"):
        known = ", ".join(backend_names(runtime.ask("show stat -1 2 -1")))
        raise InputError(f"backend '{backend}' is unknown to HAProxy, expected one of: {known or 'none'}")
    return text
