"""What is done with experiences: add each once, read them back, let the oldest go."""

from __future__ import annotations

import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Engine, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError

from osml.domain import Experience
from osml.domain.cpu_names import short_name
from osml.experiences.address import first_line
from osml.experiences.canary_returns import add_return, read_returns, try_to_write
from osml.experiences.outcome import (
    Added,
    CanaryReturn,
    Newest,
    StoreAwayError,
    StoreConflictError,
    StoreError,
    StoreFullError,
)
from osml.experiences.tables import EXPERIENCES

MAX_PAYLOAD = 8 * 2**20  # bytes of one experience; the server accepts bodies far smaller
PRUNE_EVERY = 1000  # rows
LONGEST_REST_S = 86_400.0  # between two rows of a store in use; where it was longer, old rows stay until a restart
_AWAY = ("08", "57P", "53300", "57014", "55P03")
"""PostgreSQL's SQLSTATE: the connection, a shutdown, too many connections, a statement or a lock that took too long."""
_FULL, _CONFLICT = "53100", "40"
"""SQLSTATE of a full disk, and of a deadlock or another transaction that came first."""
COLUMNS = EXPERIENCES.c
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Experience).decode


class Stored(NamedTuple):
    """An experience as it lies in the store."""

    id: int
    received_s: float
    experience: Experience


def fair_share(counts: Sequence[int], rows: int) -> int:
    """The most that each may keep so that all together keep at most `rows`: who has less keeps all."""
    left = rows
    for k, count in enumerate(sorted(counts)):
        share = left // (len(counts) - k)
        if count > share:
            return share
        left -= count
    return max(counts, default=0)


class Store:
    """Experiences in a database: at most `rows`, none older than `days`. Calls block: not for the event loop."""

    def __init__(self, engine: Engine, rows: int = 50_000, days: float = 30.0) -> None:
        self._engine = engine
        self._rows = rows
        self._age_s = days * 86_400
        self._since_pruned = PRUNE_EVERY
        self._began: tuple[float, float] | None = None  # wall clock that is believed, and monotonic clock
        insert: Any = postgresql.insert if engine.dialect.name == "postgresql" else sqlite.insert
        once = insert(EXPERIENCES).on_conflict_do_nothing(index_elements=["node", "seq", "time_s"])
        self._add: Any = once.returning(COLUMNS.id)

    def add(self, experiences: Sequence[Experience], now_s: float | None = None) -> Added:
        """Store what is not there yet. The same (node, seq, time of the observation before) is the same experience."""
        return self.add_all([experiences], now_s)[0]

    def add_all(self, batches: Sequence[Sequence[Experience]], now_s: float | None = None) -> list[Added]:
        """As `add`, for several batches in one transaction: all are stored, or none."""
        received_s = time.time() if now_s is None else now_s
        added: list[Added] = []
        try:
            with self._engine.begin() as connection:
                if self._began is None:
                    self._began = self._believed_s(connection), time.monotonic()
                for batch in batches:
                    each = (_row(experience, received_s) for experience in batch)
                    rows = {(row["node"], row["seq"], row["time_s"]): row for row in each}
                    # The rows are no part of the statement, which is then compiled once.
                    accepted = len(connection.execute(self._add, list(rows.values())).all())
                    added.append(Added(accepted, len(batch) - accepted))
        except SQLAlchemyError as error:
            self._engine.dispose()  # the next call connects anew
            raise self._failed(error) from None
        self._since_pruned += sum(one.accepted for one in added)
        if self._since_pruned >= min(PRUNE_EVERY, self._rows // 10 + 1):
            # What was stored is stored: another process may hold the lock, and the next batch prunes again.
            with suppress(SQLAlchemyError):
                self.prune(received_s if now_s is not None else self._steady_s())
                self._since_pruned = 0
        return added

    def prune(self, now_s: float) -> int:
        """Delete what is too old and too much; returns how many went. Raises SQLAlchemyError.

        Too much: the oldest of the nodes that have most, so that one node can't drive out what others reported. Where
        there is not one row for each node, the newest of all stay.
        """
        with self._engine.begin() as connection:
            gone = connection.execute(delete(EXPERIENCES).where(COLUMNS.received_s < now_s - self._age_s)).rowcount
            counts = connection.execute(select(COLUMNS.node, func.count()).group_by(COLUMNS.node)).all()
            share = fair_share([count for _, count in counts], self._rows)
            if share == 0:  # more nodes than rows
                last = select(COLUMNS.id).order_by(COLUMNS.id.desc()).offset(self._rows).limit(1).scalar_subquery()
                return gone + connection.execute(delete(EXPERIENCES).where(COLUMNS.id <= last)).rowcount
            for node, count in counts:
                if count <= share:
                    continue
                last = (
                    select(COLUMNS.id).where(COLUMNS.node == node).order_by(COLUMNS.id.desc()).offset(share).limit(1)
                ).scalar_subquery()
                gone += connection.execute(delete(EXPERIENCES).where(COLUMNS.node == node, COLUMNS.id <= last)).rowcount
        return gone

    def _believed_s(self, connection: Connection) -> float:
        """The time, s since 1970: PostgreSQL's, else this machine's as far as the newest row makes it likely.

        A clock that is a year ahead must not make everything old.
        """
        if connection.dialect.name == "postgresql":
            return float(connection.execute(select(func.extract("epoch", func.now()))).scalar_one())
        newest_s = connection.execute(select(func.max(COLUMNS.received_s))).scalar_one()
        return time.time() if newest_s is None else min(time.time(), newest_s + LONGEST_REST_S)

    def _steady_s(self) -> float:
        """The time that has passed since the first row came, after the time that was believed then; s since 1970."""
        if self._began is None:
            return 0.0
        believed_s, monotonic_s = self._began
        return min(time.time(), believed_s + time.monotonic() - monotonic_s)

    def newest(self, node: str, limit: int) -> Newest:
        """A node's newest experiences; rows that can't be read are left out and counted. Raises StoreError."""
        statement = select(COLUMNS.payload).where(COLUMNS.node == node).order_by(COLUMNS.id.desc()).limit(limit)
        try:
            with self._engine.begin() as connection:
                rows = connection.execute(statement).all()
        except SQLAlchemyError as error:
            raise self._failed(error) from None
        found: list[bytes] = []
        began_s = time.thread_time()
        for (payload,) in rows:
            try:
                plain = _inflate(payload)
                _decode(plain)
            except (StoreError, msgspec.MsgspecError, UnicodeDecodeError):
                continue
            found.append(plain)
        return Newest(found, len(rows) - len(found), time.thread_time() - began_s)

    def platforms(self) -> list[str]:
        """Names of the platforms that experiences are of. Raises StoreError."""
        try:
            with self._engine.begin() as connection:
                return [*connection.execute(select(COLUMNS.platform).distinct().order_by(COLUMNS.platform)).scalars()]
        except SQLAlchemyError as error:
            raise self._failed(error) from None

    def newest_id(self, platform: str) -> int:
        """The id of the newest experience of a platform, by any of its names; 0 without any. Raises StoreError."""
        names = [name for name in self.platforms() if short_name(name) == short_name(platform)]
        newest = select(COLUMNS.id).where(COLUMNS.platform.in_(names)).order_by(COLUMNS.id.desc()).limit(1)
        try:
            with self._engine.begin() as connection:
                return connection.execute(newest).scalar_one_or_none() or 0
        except SQLAlchemyError as error:
            raise self._failed(error) from None

    def read(
        self, platform: str, limit: int, batch: int = 500, damaged: Callable[[int], None] = lambda _id: None
    ) -> Iterator[Stored]:
        """The newest `limit` experiences of a platform, oldest first, by whichever of its names agents know it.

        Rows that can't be read are left out; `damaged` hears the id of each. Raises StoreError.
        """
        names = [name for name in self.platforms() if short_name(name) == short_name(platform)]
        of_platform = COLUMNS.platform.in_(names)
        newest = select(COLUMNS.id).where(of_platform).order_by(COLUMNS.id.desc()).offset(limit).limit(1)
        after = 0
        try:
            with self._engine.begin() as connection:
                after = connection.execute(newest).scalar_one_or_none() or 0
            while True:
                statement = (
                    select(COLUMNS.id, COLUMNS.received_s, COLUMNS.payload)
                    .where(of_platform, COLUMNS.id > after)
                    .order_by(COLUMNS.id)
                    .limit(batch)
                )
                with self._engine.begin() as connection:
                    rows = connection.execute(statement).all()
                for number, received_s, payload in rows:
                    try:
                        yield Stored(number, received_s, _decode(_inflate(payload)))
                    except (StoreError, msgspec.MsgspecError, UnicodeDecodeError):
                        damaged(number)
                if len(rows) < batch:
                    return
                after = rows[-1][0]
        except SQLAlchemyError as error:
            raise self._failed(error) from None

    def add_return(self, one: CanaryReturn) -> None:
        """Keep that a canary returned; the first return of a canary stays. Raises StoreError."""
        try:
            add_return(self._engine, one)
        except SQLAlchemyError as error:
            self._engine.dispose()  # the next call connects anew
            raise self._failed(error) from None

    def returns(self) -> list[CanaryReturn]:
        """The newest returns of canaries. Raises StoreError."""
        try:
            return read_returns(self._engine)
        except SQLAlchemyError as error:
            self._engine.dispose()
            raise self._failed(error) from None

    def try_to_write(self) -> None:
        """Find out whether the database takes anything. Raises StoreError."""
        try:
            try_to_write(self._engine)
        except SQLAlchemyError as error:
            self._engine.dispose()  # the next call connects anew
            raise self._failed(error) from None

    def _failed(self, error: SQLAlchemyError) -> StoreError:
        """What the database said, in its words; its kind says whether it makes sense to ask again."""
        of_database = _kind_of_sqlite if self._engine.dialect.name == "sqlite" else _kind_of
        return of_database(error)(first_line(error))

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def _kind_of_sqlite(error: SQLAlchemyError) -> type[StoreError]:
    """What SQLite's error means for the next batch."""
    code = getattr(getattr(error, "orig", None), "sqlite_errorcode", 0) & 0xFF  # without its details
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreAwayError
    return StoreFullError if code == sqlite3.SQLITE_FULL else StoreError


def _kind_of(error: SQLAlchemyError) -> type[StoreError]:
    """What PostgreSQL's error means for the next batch."""
    if _does_not_answer(error):
        return StoreAwayError
    state: str = getattr(getattr(error, "orig", None), "sqlstate", None) or ""
    if state.startswith(_FULL):
        return StoreFullError
    return StoreConflictError if state.startswith(_CONFLICT) else StoreError


def _does_not_answer(error: SQLAlchemyError) -> bool:
    """Whether the database can't be reached, or took too long. One whose disk is full answers, and takes nothing."""
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    state: str | None = getattr(error.orig, "sqlstate", None)  # none where there is no connection to tell it
    return error.connection_invalidated or state is None or state.startswith(_AWAY)


def _row(experience: Experience, received_s: float) -> dict[str, Any]:
    before = experience.before
    plain = msgspec.structs.replace(
        experience,
        before=msgspec.structs.replace(before, policy_state=None),  # opaque to all but the policy, and half of the size
        decision=msgspec.structs.replace(experience.decision, policy_state=None),
        after=msgspec.structs.replace(experience.after, policy_state=None),
    )
    return {
        "node": before.node,
        "seq": before.seq,
        "time_s": before.time_s,
        "platform": before.platform.id,
        "received_s": received_s,
        "payload": zlib.compress(_encode(plain), 1),
    }


def _inflate(payload: bytes) -> bytes:
    """The JSON in a payload; StoreError for one that is damaged or grows beyond all measure."""
    unpacker = zlib.decompressobj()
    try:
        plain = unpacker.decompress(payload, MAX_PAYLOAD)
    except zlib.error as error:
        raise StoreError(f"a row is damaged ({error})") from None
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise StoreError(f"a row is damaged (incomplete, or longer than {MAX_PAYLOAD} bytes)")
    return plain
