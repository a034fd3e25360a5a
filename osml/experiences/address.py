"""Where experiences are kept: addresses, connections, migrations."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from osml.base.extras import how_to_install
from osml.base.failure import Failure, InputError, MachineError
from osml.base.masking import masked

if TYPE_CHECKING:
    from alembic.config import Config

DEFAULT_FILE = "experiences.db"
REVISION = "0002"
"""The newest migration: a store that has it is used as it is."""
BUSY_MS = 5000
CONNECT_S = 3
LOCK_MS = 8000  # less than a request waits (osml_serving.api.experiences)
POSTGRES: dict[str, Any] = {
    "connect_timeout": CONNECT_S,
    "application_name": "osml",
    # A database that is gone without a word (its machine, its network) is noticed in seconds, not in hours.
    "tcp_user_timeout": 1000 * CONNECT_S,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
}
"""What every connection to PostgreSQL gets, unless the address says otherwise."""
MIGRATION_LOCK = 0x6F736D6C  # "osml": PostgreSQL's advisory lock, so that two servers that start do not both migrate
EXPECTED = (
    "expected sqlite, sqlite:///FILE (with an absolute FILE these are four slashes), "
    "postgresql://USER:PASSWORD@HOST/DATABASE, or none"
)


def _state_directory() -> Path:
    """Systemd's `StateDirectory=`, else the user's folder for what programs keep."""
    given = os.environ.get("STATE_DIRECTORY", "").split(":")[0]
    if given:
        return Path(given)
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "osml"


def store_url(setting: str) -> URL | None:
    """The address that a setting stands for: `sqlite` is a file in the state directory, `none` is None.

    A file has its whole path.

    Raises InputError for anything but SQLite and PostgreSQL.
    """
    if setting == "none":
        return None
    if setting == "sqlite":
        return URL.create("sqlite", database=str(_state_directory() / DEFAULT_FILE))
    try:
        url = make_url(setting)
        kind = url.get_backend_name()
    except (ArgumentError, ValueError):
        raise InputError(f"--store is not a valid database address, {EXPECTED}") from None  # it could hold a password
    if kind == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if kind == "sqlite" and url.database not in (None, "", ":memory:"):
        database = url.database or ""
        if not database.startswith("file:"):  # a promotion keeps the address, and is taken back from another folder
            database = str(Path(database).absolute())
        return url.set(drivername="sqlite", database=database)
    raise InputError(f"--store is '{told(url)}', {EXPECTED}")


def told(url: URL) -> str:
    """The address as people may see it: without its password, wherever it stands."""
    return masked(url.render_as_string(hide_password=True))


def open_engine(url: URL, *, writes: bool) -> Engine:
    """Connections to the store, its tables made or brought up to date where it `writes`.

    Raises MachineError where the driver is missing, Failure where the database can't be opened.
    """
    if url.get_backend_name() == "sqlite" and url.database is not None:
        if writes:
            _make_folder(Path(url.database))
        elif not Path(url.database).is_file():
            raise InputError(f"the experience store {told(url)} does not exist; `osml run serve --store` creates it")
    try:
        given = connect_arguments(url)
        engine = (
            create_engine(url, connect_args=given, pool_pre_ping=True)
            if writes
            else create_engine(url, connect_args=given, poolclass=NullPool)
        )
    except ImportError:
        remedy = how_to_install("postgres", package="osml-serving")
        raise MachineError(f"PostgreSQL needs the Python package psycopg: {remedy}") from None
    if engine.dialect.name == "postgresql":
        event.listen(engine, "begin", _limit_waiting)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_at_once if writes else _begin)
    try:
        if writes:
            with engine.begin() as connection:
                migrate(connection)
        else:
            with engine.begin() as connection:
                connection.execute(text("SELECT 1 FROM experiences LIMIT 1"))
    except SQLAlchemyError as error:
        engine.dispose()
        raise Failure(f"the experience store {told(url)} cannot be opened: {first_line(error)}") from None
    return engine


def connect_arguments(url: URL) -> dict[str, Any]:
    """POSTGRES without what the address itself says; nothing for SQLite."""
    if url.get_backend_name() != "postgresql":
        return {}
    return {name: value for name, value in POSTGRES.items() if name not in url.query}


def _make_folder(file: Path) -> None:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"the folder of the experience store {file} cannot be created: {error.strerror}") from None


def migrate(connection: Connection) -> None:
    """Bring the schema up to date. Servers that start at once wait for each other."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK})
    if inspect(connection).has_table("alembic_version"):
        found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
        if found == REVISION:
            return
    from alembic import command  # noqa: PLC0415 - half a second
    from alembic.util import CommandError  # noqa: PLC0415

    try:
        command.upgrade(alembic_config(connection), "head")
    except CommandError as error:
        raise Failure(f"the migration of the experience store failed: {first_line(error)}") from None


def alembic_config(connection: Connection | None) -> Config:
    """Where the migrations are, and the connection that they run on."""
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def first_line(error: Exception) -> str:
    """The database's own words, without SQL, links and passwords."""
    cause = getattr(error, "orig", None) or error
    return masked(" ".join(str(cause).split("\n")[0].split()))[:300] or type(error).__name__


def _prepare_sqlite(connection: Any, _record: object) -> None:
    """Readers beside one writer (WAL), and transactions that begin when we say so, not when the driver guesses."""
    connection.isolation_level = None
    cursor = connection.cursor()
    try:
        cursor.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = NORMAL")  # a power cut may cost the last seconds, never the file
        cursor.execute("PRAGMA journal_size_limit = 4194304")
    finally:
        cursor.close()


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _limit_waiting(connection: Connection) -> None:
    """A lock that somebody else holds does not stop all that wait behind us."""
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = {LOCK_MS}")


def _begin_at_once(connection: Connection) -> None:
    """Take the write lock first: a transaction that reads and then writes could otherwise fail at its last step."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")
