"""The tables of the store. A change here needs a migration (`migrations/versions/`); a test compares the two."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    UniqueConstraint,
)

METADATA = MetaData()
NUMBER = BigInteger().with_variant(Integer(), "sqlite")  # SQLite counts by itself only in a column of type INTEGER

EXPERIENCES = Table(
    "experiences",
    METADATA,
    Column("id", NUMBER, primary_key=True, autoincrement=True),
    Column("node", String(63), nullable=False),
    Column("seq", BigInteger, nullable=False),  # of the observation before
    Column("time_s", Double, nullable=False),  # of the observation before, the node's clock
    Column("platform", String(200), nullable=False),
    Column("received_s", Double, nullable=False),  # the server's clock, since 1970
    Column("payload", LargeBinary, nullable=False),  # zlib of the JSON of one Experience, without policy states
    UniqueConstraint("node", "seq", "time_s", name="experiences_once"),
    Index("experiences_by_platform", "platform", "id"),
    Index("experiences_by_age", "received_s"),
    sqlite_autoincrement=True,  # ids of deleted rows never come again: readers go on after the last id they saw
)

CANARY_RETURNS = Table(
    "canary_returns",
    METADATA,
    Column("canary", String(63), primary_key=True),
    Column("at", Double, nullable=False),  # the server's clock, since 1970
    Column("why", String(1000), nullable=False),
)
