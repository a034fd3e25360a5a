"""What is done with experiences: add each once, read them back, let the oldest go."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Engine, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError

from osml.domain import Experience
from osml_serving.experience_store.address import first_line
from osml_serving.experience_store.outcome import Added, StoreError
from osml_serving.experience_store.tables import EXPERIENCES

MAX_PAYLOAD = 8 * 2**20  # bytes of one experience; the server accepts bodies far smaller
PRUNE_EVERY = 1000  # rows
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
        self._insert: Any = postgresql.insert if engine.dialect.name == "postgresql" else sqlite.insert

    def add(self, experiences: Sequence[Experience], now_s: float | None = None) -> Added:
        """Store what is not there yet. The same (node, seq, time of the observation before) is the same experience."""
        received_s = time.time() if now_s is None else now_s
        rows = {(row["node"], row["seq"], row["time_s"]): row for row in (_row(e, received_s) for e in experiences)}
        statement = (
            self._insert(EXPERIENCES)
            .values(list(rows.values()))
            .on_conflict_do_nothing(index_elements=["node", "seq", "time_s"])
            .returning(COLUMNS.id)
        )
        try:
            with self._engine.begin() as connection:
                accepted = len(connection.execute(statement).all())
            self._since_pruned += accepted
            if self._since_pruned >= PRUNE_EVERY:
                self.prune(received_s)
                self._since_pruned = 0
        except SQLAlchemyError as error:
            self._engine.dispose()  # the next call connects anew
            raise StoreError(first_line(error)) from None
        return Added(accepted, len(experiences) - accepted)

    def prune(self, now_s: float) -> int:
        """Delete what is too old and too much; returns how many went. Raises SQLAlchemyError.

        Too much: the oldest of the nodes that have most, so that one node can't drive out what others reported.
        """
        with self._engine.begin() as connection:
            gone = connection.execute(delete(EXPERIENCES).where(COLUMNS.received_s < now_s - self._age_s)).rowcount
            counts = connection.execute(select(COLUMNS.node, func.count()).group_by(COLUMNS.node)).all()
            share = fair_share([count for _, count in counts], self._rows)
            for node, count in counts:
                if count <= share:
                    continue
                last = (
                    select(COLUMNS.id).where(COLUMNS.node == node).order_by(COLUMNS.id.desc()).offset(share).limit(1)
                ).scalar_subquery()
                gone += connection.execute(delete(EXPERIENCES).where(COLUMNS.node == node, COLUMNS.id <= last)).rowcount
        return gone

    def count(self) -> int:
        """Rows in the store. Raises StoreError."""
        try:
            with self._engine.begin() as connection:
                return connection.execute(select(func.count()).select_from(EXPERIENCES)).scalar_one()
        except SQLAlchemyError as error:
            raise StoreError(first_line(error)) from None

    def newest(self, node: str, limit: int) -> list[bytes]:
        """The JSON of a node's newest experiences, newest first. Raises StoreError."""
        statement = select(COLUMNS.payload).where(COLUMNS.node == node).order_by(COLUMNS.id.desc()).limit(limit)
        try:
            with self._engine.begin() as connection:
                return [_inflate(payload) for (payload,) in connection.execute(statement)]
        except SQLAlchemyError as error:
            raise StoreError(first_line(error)) from None

    def read(self, platform: str, limit: int, batch: int = 500) -> Iterator[Stored]:
        """The newest `limit` experiences of a platform, oldest first; rows that can't be read are left out.

        Raises StoreError.
        """
        newest = (
            select(COLUMNS.id).where(COLUMNS.platform == platform).order_by(COLUMNS.id.desc()).offset(limit).limit(1)
        )
        after = 0
        try:
            with self._engine.begin() as connection:
                after = connection.execute(newest).scalar_one_or_none() or 0
            while True:
                statement = (
                    select(COLUMNS.id, COLUMNS.received_s, COLUMNS.payload)
                    .where(COLUMNS.platform == platform, COLUMNS.id > after)
                    .order_by(COLUMNS.id)
                    .limit(batch)
                )
                with self._engine.begin() as connection:
                    rows = connection.execute(statement).all()
                for number, received_s, payload in rows:
                    try:
                        yield Stored(number, received_s, _decode(_inflate(payload)))
                    except (StoreError, msgspec.MsgspecError):
                        continue
                if len(rows) < batch:
                    return
                after = rows[-1][0]
        except SQLAlchemyError as error:
            raise StoreError(first_line(error)) from None

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


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
        raise StoreError("a row is damaged (cut off, or too long)")
    return plain
