"""Canaries that the server took back, in the database of the experiences: all replicas of a server share it."""

from __future__ import annotations

import secrets
from typing import Any

from sqlalchemy import Engine, select
from sqlalchemy.dialects import postgresql, sqlite

from osml.experiences.outcome import CanaryReturn
from osml.experiences.tables import CANARY_RETURNS

MOST = 1000


def add_return(engine: Engine, one: CanaryReturn) -> None:
    """Keep a return; the first one of a canary stays. Raises SQLAlchemyError."""
    insert: Any = postgresql.insert if engine.dialect.name == "postgresql" else sqlite.insert
    statement = insert(CANARY_RETURNS).values(**one._asdict()).on_conflict_do_nothing(index_elements=["canary"])
    with engine.begin() as connection:
        connection.execute(statement)


def try_to_write(engine: Engine) -> None:
    """A transaction that writes, and leaves nothing. Raises SQLAlchemyError."""
    name = f"try-{secrets.token_hex(8)}"  # replicas may try at the same time
    with engine.begin() as connection:
        connection.execute(CANARY_RETURNS.insert().values(canary=name, at=0.0, why=""))
        connection.execute(CANARY_RETURNS.delete().where(CANARY_RETURNS.c.canary == name))


def read_returns(engine: Engine) -> list[CanaryReturn]:
    """The newest returns. Raises SQLAlchemyError."""
    columns = CANARY_RETURNS.c
    statement = select(columns.canary, columns.at, columns.why).order_by(columns.at.desc()).limit(MOST)
    with engine.begin() as connection:
        return [CanaryReturn(*row) for row in connection.execute(statement)]
