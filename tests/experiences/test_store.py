"""The store itself, on SQLite and on PostgreSQL where there is one."""

import asyncio
import contextlib
import queue
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from types import SimpleNamespace

import msgspec
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import event, func, select, text, update
from sqlalchemy.exc import OperationalError

from osml.base.failure import Failure, InputError
from osml.domain import Experience
from osml.experiences.address import POSTGRES, REVISION, alembic_config, connect_arguments, open_engine, store_url, told
from osml.experiences.outcome import Added, BusyError, StoreAwayError, StoreError, StoreFullError
from osml.experiences.store import Store, fair_share
from osml.experiences.tables import EXPERIENCES, METADATA
from osml.experiences.writer import Writer


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request, tmp_path):
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/deep/experiences.db"
    else:
        url = request.getfixturevalue("postgres_url")
    engine = open_engine(store_url(url), writes=True)
    yield engine
    with engine.begin() as connection:
        connection.execute(EXPERIENCES.delete())
    engine.dispose()


def rows_in(store: Store) -> int:
    with store._engine.begin() as connection:
        return connection.execute(select(func.count()).select_from(EXPERIENCES)).scalar_one()


def test_an_experience_is_stored_once(engine, make_experience):
    store = Store(engine)
    batch = [make_experience(seq) for seq in range(3)]
    assert store.add(batch) == (3, 0)
    assert store.add([*batch, make_experience(3)]) == (1, 3)
    assert store.add([make_experience(9), make_experience(9)]) == (1, 1)
    assert store.add([make_experience(0, node="node-18")]) == (1, 0)  # another node's interval 0
    assert rows_in(store) == 6


def test_what_comes_back_is_what_went_in_without_the_policys_state(engine, make_experience):
    store = Store(engine)
    experiences = [make_experience(seq) for seq in range(5)]
    assert experiences[0].after.policy_state
    store.add(experiences, now_s=1000.0)
    found = list(store.read("e5-2697v4", limit=100, batch=2))
    assert [stored.received_s for stored in found] == [1000.0] * 5
    replace = msgspec.structs.replace
    assert [stored.experience for stored in found] == [
        replace(e, decision=replace(e.decision, policy_state=None), after=replace(e.after, policy_state=None))
        for e in experiences
    ]
    assert [stored.experience.before.seq for stored in store.read("e5-2697v4", limit=2)] == [3, 4]
    assert list(store.read("another", limit=100)) == []
    found, damaged, _ = store.newest("node-17", 2)
    assert [msgspec.json.decode(one, type=Experience).before.seq for one in found] == [4, 3]
    assert damaged == 0


def test_experiences_are_found_by_whichever_name_agents_know_the_platform(engine, make_experience):
    def named(seq: int, name: str) -> Experience:
        one = make_experience(seq)
        platform = msgspec.structs.replace(one.before.platform, id=name)
        before, after = (msgspec.structs.replace(part, platform=platform) for part in (one.before, one.after))
        return msgspec.structs.replace(one, before=before, after=after)

    store = Store(engine)
    names = ("e5-2697v4", "Intel(R) Xeon(R) CPU E5-2697 v4 @ 2.30GHz", "e5-2630v4")
    store.add([named(seq, name) for seq, name in enumerate(names)])
    assert store.platforms() == sorted(names)
    for name in names[:2]:
        assert [stored.experience.before.seq for stored in store.read(name, 9)] == [0, 1]
    assert [stored.experience.before.seq for stored in store.read("E5-2630V4", 9)] == [2]
    assert list(store.read("another", 9)) == []


def test_the_oldest_go_where_there_are_too_many_or_they_are_too_old(engine, make_experience):
    store = Store(engine, rows=3, days=1)
    store.add([make_experience(0)], now_s=0.0)
    store.add([make_experience(seq) for seq in range(1, 4)], now_s=86_000.0)
    store.prune(now_s=86_390.0)
    assert [stored.experience.before.seq for stored in store.read("e5-2697v4", 9)] == [1, 2, 3]
    store.add([make_experience(4)], now_s=86_395.0)
    store.prune(now_s=86_400.0 + 86_001.0)
    assert [stored.experience.before.seq for stored in store.read("e5-2697v4", 9)] == [4]


def test_a_clock_that_jumps_ahead_makes_nothing_old(engine, make_experience, monkeypatch):
    """A node that starts without a network, a leap of the time server: a month of experiences must not go."""
    store = Store(engine, days=1)
    store.add([make_experience(0)])
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 400 * 86_400)
    monkeypatch.setattr("osml.experiences.store.PRUNE_EVERY", 1)
    assert store.add([make_experience(1)]) == (1, 0)
    assert [stored.experience.before.seq for stored in store.read("e5-2697v4", 9)] == [0, 1]


def test_a_server_whose_clock_is_ahead_at_its_start_deletes_nothing(engine, make_experience, monkeypatch):
    Store(engine, days=30).add([make_experience(seq) for seq in range(3)])
    days_ahead = time.time() + 40 * 86_400
    monkeypatch.setattr("osml.experiences.store.time.time", lambda: days_ahead)
    ahead = Store(engine, days=30)
    ahead.add([make_experience(3)])
    ahead._since_pruned = 10**6
    ahead.add([make_experience(4)])
    assert rows_in(ahead) == 5


def test_old_rows_go_although_nobody_tells_the_time(engine, make_experience):
    Store(engine, days=30).add([make_experience(0)], now_s=time.time() - 31 * 86_400)
    Store(engine, days=30).add([make_experience(1)], now_s=time.time() - 60)
    newer = Store(engine, days=30)
    newer.add([make_experience(2)])
    assert rows_in(newer) == 2


def test_a_node_that_reports_without_end_drives_out_only_its_own(engine, make_experience):
    store = Store(engine, rows=10, days=1)
    store.add([make_experience(seq, node="quiet") for seq in range(3)], now_s=0.0)
    store.add([make_experience(seq, node="loud") for seq in range(50)], now_s=1.0)
    store.prune(now_s=2.0)
    kept = [(stored.experience.before.node, stored.experience.before.seq) for stored in store.read("e5-2697v4", 99)]
    assert kept == [("quiet", seq) for seq in range(3)] + [("loud", seq) for seq in range(43, 50)]


def test_a_store_with_fewer_rows_than_nodes_keeps_the_newest(engine, make_experience):
    store = Store(engine, rows=10, days=1)
    for seq in range(2):
        store.add([make_experience(seq, node=f"node-{number}") for number in range(12)], now_s=float(seq))
    store.prune(now_s=2.0)
    kept = [(stored.experience.before.node, stored.experience.before.seq) for stored in store.read("e5-2697v4", 99)]
    assert kept == [(f"node-{number}", 1) for number in range(2, 12)]


@given(st.lists(st.integers(0, 60), max_size=8), st.integers(1, 80))
def test_a_fair_share_fills_what_there_is_and_no_more(counts, rows):
    share = fair_share(counts, rows)
    assert sum(min(count, share) for count in counts) <= rows
    if sum(counts) > rows:
        assert sum(min(count, share + 1) for count in counts) > rows
    else:
        assert all(count <= share for count in counts)


DAMAGED = [b"no zlib", zlib.compress(b'{"before":'), zlib.compress(b'{"before":{}}'), zlib.compress(b"\xff\xfe"), b""]


@pytest.mark.parametrize("payload", DAMAGED)
def test_a_damaged_row_is_left_out_and_counted(engine, make_experience, payload):
    store = Store(engine)
    store.add([make_experience(seq) for seq in range(3)])
    with engine.begin() as connection:
        connection.execute(update(EXPERIENCES).where(EXPERIENCES.c.seq == 1).values(payload=payload))
        (row,) = connection.execute(select(EXPERIENCES.c.id).where(EXPERIENCES.c.seq == 1)).one()
    ids: list[int] = []
    assert [stored.experience.before.seq for stored in store.read("e5-2697v4", 9, damaged=ids.append)] == [0, 2]
    assert ids == [row]
    found, damaged, _ = store.newest("node-17", 3)
    assert [msgspec.json.decode(one, type=Experience).before.seq for one in found] == [2, 0]
    assert damaged == 1


def test_the_migrations_make_the_table_that_the_code_uses(engine):
    with engine.begin() as connection:
        context = MigrationContext.configure(connection, opts={"target_metadata": METADATA})
        differences = [d for d in compare_metadata(context, METADATA) if d[0] != "remove_table"]
    assert differences == []
    assert ScriptDirectory.from_config(alembic_config(None)).get_heads() == [REVISION]


def test_servers_that_start_at_once_migrate_once(tmp_path, postgres_url):
    for url in (f"sqlite:///{tmp_path}/new.db", postgres_url):
        if "postgres" in url:
            fresh = open_engine(store_url(url), writes=True)
            with fresh.begin() as connection:
                for table in METADATA.tables:
                    connection.execute(text(f"DROP TABLE {table}"))
                connection.execute(text("DROP TABLE alembic_version"))
            fresh.dispose()
        _open_at_once(url)


def _open_at_once(url: str) -> None:
    code = (
        "import sys; from osml.experiences.address import *;"
        "from osml.experiences.store import Store;"
        "e = open_engine(store_url(sys.argv[1]), writes=True); print(len([*Store(e).read('x', 9)]))"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(3)
    ]
    assert [process.communicate(timeout=60)[0].strip() for process in processes] == ["0"] * 3


def test_sqlite_lets_a_reader_in_while_it_writes(tmp_path, make_experience):
    url = store_url(f"sqlite:///{tmp_path}/wal.db")
    engine = open_engine(url, writes=True)
    Store(engine).add([make_experience(0)])
    with engine.begin() as connection:
        connection.execute(EXPERIENCES.delete())  # not committed yet
        assert rows_in(Store(open_engine(url, writes=False))) == 1


def test_a_full_disk_is_one_sentence_and_costs_nothing_else(tmp_path, make_experience):
    engine = open_engine(store_url(f"sqlite:///{tmp_path}/full.db"), writes=True)
    store = Store(engine)
    store.add([make_experience(0)])
    with engine.connect() as connection:  # the same pooled connection
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreFullError, match="full"):
        store.add([make_experience(seq) for seq in range(1, 200)])
    assert rows_in(store) == 1
    assert store.add([make_experience(5)]) == (1, 0)  # a new connection: the limit was the old one's


@pytest.mark.parametrize("address", ["", "mysql://h/db", "sqlite://", "sqlite:///:memory:", "experiences.db"])
def test_an_address_of_no_known_kind_is_refused(address):
    with pytest.raises(InputError, match="expected sqlite, sqlite:///FILE"):
        store_url(address)


def test_addresses(monkeypatch, tmp_path):
    assert store_url("none") is None
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/osml")
    assert told(store_url("sqlite")) == "sqlite:////var/lib/osml/experiences.db"
    monkeypatch.delenv("STATE_DIRECTORY")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert told(store_url("sqlite")) == f"sqlite:///{tmp_path}/osml/experiences.db"
    secret = told(store_url("postgresql://me:secret@host/db"))
    assert "secret" not in secret
    assert secret.startswith("postgresql+psycopg://me:")


def test_a_password_in_the_parameters_of_an_address_is_hidden_too():
    shown = told(store_url("postgresql://me@/db?host=/tmp&password=s3cret&sslpassword=s3cret"))
    assert "s3cret" not in shown
    assert "host=" in shown


def test_a_database_is_never_waited_for_without_end():
    assert connect_arguments(store_url("sqlite:///x.db")) == {}
    assert connect_arguments(store_url("postgresql://me@host/db")) == POSTGRES
    own = connect_arguments(store_url("postgresql://me@host/db?connect_timeout=20"))
    assert "connect_timeout" not in own  # the address has the last word
    assert POSTGRES["connect_timeout"] + POSTGRES["keepalives_idle"] < 60


def test_a_lock_that_somebody_holds_is_given_up(postgres_url, make_experience, monkeypatch):
    monkeypatch.setattr("osml.experiences.address.LOCK_MS", 200)
    engine = open_engine(store_url(postgres_url), writes=True)
    with engine.begin() as holder:
        holder.execute(text("LOCK TABLE experiences"))
        with pytest.raises(StoreAwayError, match="lock timeout"):
            Store(engine).add([make_experience(0)])
    assert Store(engine).add([make_experience(0)]) == (1, 0)
    with engine.begin() as connection:
        connection.execute(EXPERIENCES.delete())


def test_a_file_that_somebody_holds_is_away_for_a_while(tmp_path, make_experience, monkeypatch):
    monkeypatch.setattr("osml.experiences.address.BUSY_MS", 100)
    store = Store(open_engine(store_url(f"sqlite:///{tmp_path}/held.db"), writes=True))
    with contextlib.closing(sqlite3.connect(tmp_path / "held.db", isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreAwayError, match="locked"):
            store.add([make_experience(0)])
    assert store.add([make_experience(0)]) == (1, 0)


def test_a_store_that_can_not_be_opened_is_one_sentence(tmp_path):
    (tmp_path / "strange.db").write_bytes(b"this is no database, whatever its name is " * 50)
    with pytest.raises(Failure, match="cannot be opened: file is not a database"):
        open_engine(store_url(f"sqlite:///{tmp_path}/strange.db"), writes=True)
    with pytest.raises(Failure, match="cannot be created: Not a directory"):
        open_engine(store_url(f"sqlite:///{tmp_path}/strange.db/below/x.db"), writes=True)
    with pytest.raises(InputError, match=r"the experience store .* does not exist"):
        open_engine(store_url(f"sqlite:///{tmp_path}/nothing.db"), writes=False)


def test_the_folder_of_the_store_is_for_its_owner(tmp_path):
    open_engine(store_url(f"sqlite:///{tmp_path}/own/x.db"), writes=True).dispose()
    assert (tmp_path / "own").stat().st_mode & 0o077 == 0


def test_the_queue_is_bounded_and_the_loop_never_waits_for_the_disk(tmp_path, make_experience):
    gate = threading.Event()
    told_of: list[str | None] = []
    engine = open_engine(store_url(f"sqlite:///{tmp_path}/slow.db"), writes=True)
    writer = Writer(lambda: Store(engine), told_of.append, size=2)
    writer.start()

    taken = threading.Event()

    def hold(_store) -> None:
        taken.set()
        gate.wait(60)

    async def play():
        stuck = asyncio.create_task(writer.call(hold))
        await asyncio.to_thread(taken.wait, 60)
        assert not stuck.done()
        queued = [asyncio.create_task(writer.add([make_experience(seq)])) for seq in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await writer.add([make_experience(3)])
        gate.set()
        return await asyncio.gather(*queued)

    assert asyncio.run(play()) == [(1, 0), (1, 0)]
    writer.stop()
    assert told_of == [None]


def test_what_waits_is_written_before_the_stop(tmp_path, make_experience):
    url = store_url(f"sqlite:///{tmp_path}/stop.db")
    writer = Writer(lambda: Store(open_engine(url, writes=True)), lambda _: None)
    writer.start()

    async def play():
        tasks = [asyncio.create_task(writer.add([make_experience(seq)])) for seq in range(5)]
        await asyncio.sleep(0)
        await asyncio.to_thread(writer.stop)
        await asyncio.gather(*tasks)

    asyncio.run(play())
    assert rows_in(Store(open_engine(url, writes=False))) == 5


def test_batches_that_wait_are_stored_together_and_each_hears_of_its_own(tmp_path, make_experience):
    engine = open_engine(store_url(f"sqlite:///{tmp_path}/x.db"), writes=True)
    commits = []
    event.listen(engine, "commit", commits.append)
    writer = Writer(lambda: Store(engine), lambda _: None)
    writer.start()

    async def play():
        known = await writer.add([make_experience(0)])
        began = len(commits)
        batches = [[make_experience(seq)] for seq in range(30)] + [[make_experience(7), make_experience(99)]]
        answers = await asyncio.gather(*(writer.add(batch) for batch in batches), writer.newest("node-17", 1))
        return known, answers, len(commits) - began

    known, answers, n_commits = asyncio.run(play())
    writer.stop()
    assert known == (1, 0)
    assert answers[0] == (0, 1), "it was there"
    assert answers[1:30] == [(1, 0)] * 29
    assert answers[30] == (1, 1)
    assert len(answers[31].experiences) == 1
    assert n_commits <= 5


def test_a_batch_that_cannot_be_stored_costs_only_itself(tmp_path, make_experience):
    class Picky(Store):
        def add_all(self, batches, now_s=None):
            if any(batch[0].before.seq == 3 for batch in batches):
                raise StoreError("not this one")
            return super().add_all(batches, now_s)

    url = store_url(f"sqlite:///{tmp_path}/x.db")
    writer = Writer(lambda: Picky(open_engine(url, writes=True)), lambda _: None)
    writer.start()

    async def play():
        return await asyncio.gather(*(writer.add([make_experience(seq)]) for seq in range(6)), return_exceptions=True)

    answers = asyncio.run(play())
    writer.stop()
    assert [str(answer) for answer in answers if isinstance(answer, Exception)] == ["not this one"]
    assert sum(answer == (1, 0) for answer in answers) == 5


def test_a_store_that_does_not_open_refuses_jobs_and_says_why(make_experience):
    told_of: list[str | None] = []

    def fail() -> Store:
        raise Failure("the disk is gone")

    writer = Writer(fail, told_of.append)
    writer.start()
    with pytest.raises(StoreError, match="the disk is gone"):
        asyncio.run(writer.add([make_experience(0)]))
    writer.stop()
    assert told_of == ["the disk is gone"]


def test_a_store_that_stops_answering_is_asked_again_after_a_rest(monkeypatch):
    """Who waits is told at once, not one timeout after the other; that it went is said once, and that it came back."""
    monkeypatch.setattr("osml.experiences.writer.REST_S", 60)
    told_of: list[str | None] = []
    asked = 0

    class Gone:
        def close(self):
            pass

    def fail(_store):
        nonlocal asked
        asked += 1
        raise StoreAwayError("connection refused")

    writer = Writer(Gone, told_of.append)
    writer.start()

    async def play():
        for _ in range(5):
            with pytest.raises(StoreAwayError, match="connection refused"):
                await writer.call(fail)
        assert asked == 1
        writer._rests_until_s = 0.0  # after the rest
        with pytest.raises(StoreAwayError):
            await writer.call(fail)
        assert asked == 2
        writer._rests_until_s = 0.0
        return await writer.call(lambda _store: "back")

    assert asyncio.run(play()) == "back"
    writer.stop()
    assert told_of == [None, "the database of the experience store does not answer: connection refused", None]


def test_a_read_does_not_end_that_the_store_takes_nothing(monkeypatch, make_experience):
    """A replica that takes no writes goes away, and comes back as a replica that takes no writes."""
    monkeypatch.setattr("osml.experiences.writer.REST_S", 0.0)
    told_of: list[str | None] = []
    writing: list[Exception | None] = [StoreError("read-only")]

    class Replica:
        def add(self, experiences):
            if writing[0] is not None:
                raise writing[0]
            return Added(len(experiences), 0)

        def close(self):
            pass

    def away(_store):
        raise StoreAwayError("gone")

    writer = Writer(Replica, told_of.append)
    writer.start()

    async def play():
        with pytest.raises(StoreError, match="read-only"):
            await writer.add([make_experience(0)])
        with pytest.raises(StoreAwayError):
            await writer.call(away)
        await writer.call(lambda _store: "read")
        assert told_of[-1] == "the experience store takes nothing: read-only"
        writing[0] = None
        await writer.add([make_experience(0)])

    asyncio.run(play())
    writer.stop()
    nothing = "the experience store takes nothing: read-only"
    assert told_of == [None, nothing, "the database of the experience store does not answer: gone", nothing, None]


class SaidError(Exception):
    """What psycopg raises."""

    def __init__(self, sqlstate: str | None) -> None:
        super().__init__("could not extend file")
        self.sqlstate = sqlstate


def failing_store(error: OperationalError) -> Store:
    """On a PostgreSQL that has nothing else to say."""

    def begin():
        raise error

    dialect = SimpleNamespace(name="postgresql")
    return Store(SimpleNamespace(dialect=dialect, begin=begin, dispose=lambda: None))


@pytest.mark.parametrize(
    ("sqlstate", "lost", "away"),
    [
        ("53100", False, False),  # the disk is full
        ("40P01", False, False),  # deadlock
        ("08006", False, True),
        ("57P01", False, True),
        ("55P03", False, True),
        ("57014", False, True),
        (None, False, True),  # nobody is there to tell one
        ("53100", True, True),
    ],
)
def test_only_a_database_that_does_not_answer_is_away(make_experience, sqlstate, lost, away):
    store = failing_store(OperationalError("INSERT", {}, SaidError(sqlstate), connection_invalidated=lost))
    with pytest.raises(StoreError, match="could not extend file") as caught:
        store.add([make_experience(0)])
    assert isinstance(caught.value, StoreAwayError) == away


def test_a_full_disk_is_asked_once_for_all_batches_that_wait(make_experience):
    """Not once more for each of them, with a new connection."""
    tries: list[str] = []

    class Full(Store):
        def add_all(self, batches, now_s=None):
            tries.append("add_all")
            return super().add_all(batches, now_s)

    engine = failing_store(OperationalError("INSERT", {}, SaidError("53100")))._engine
    writer = Writer(lambda: Full(engine), lambda _: None)

    async def play():
        asked = [asyncio.create_task(writer.add([make_experience(seq)])) for seq in range(20)]
        await asyncio.sleep(0)  # all are in the queue
        writer.start()
        return await asyncio.gather(*asked, return_exceptions=True)

    answers = asyncio.run(play())
    writer.stop()
    assert [str(answer) for answer in answers] == ["could not extend file"] * 20
    assert all(isinstance(answer, StoreError) for answer in answers)
    assert len(tries) == 1


@pytest.mark.parametrize("sqlstate", ["40P01", "40001"])
def test_a_database_with_a_deadlock_takes_something(make_experience, sqlstate):
    told_of: list[str | None] = []
    writer = Writer(lambda: failing_store(OperationalError("INSERT", {}, SaidError(sqlstate))), told_of.append)
    writer.start()

    async def play():
        with pytest.raises(StoreError, match="could not extend file"):
            await writer.add([make_experience(0)])

    asyncio.run(play())
    writer.stop()
    assert told_of == [None]


def test_a_full_disk_of_postgresql_stays_said_while_it_can_be_read(make_experience):
    told_of: list[str | None] = []
    writer = Writer(lambda: failing_store(OperationalError("INSERT", {}, SaidError("53100"))), told_of.append)
    writer.start()

    async def play():
        with pytest.raises(StoreError, match="could not extend file"):
            await writer.add([make_experience(0)])
        await writer.call(lambda _store: "read")

    asyncio.run(play())
    writer.stop()
    assert told_of == [None, "the experience store takes nothing: could not extend file"]


def test_a_batch_that_is_stored_is_not_said_to_have_failed(tmp_path, make_experience, monkeypatch):
    """Another process may hold the database while it is pruned; the next batches prune it."""
    store = Store(open_engine(store_url(f"sqlite:///{tmp_path}/x.db"), writes=True), rows=50)
    pruned: list[float] = []

    def locked(now_s):
        pruned.append(now_s)
        raise OperationalError("DELETE", {}, Exception("database is locked"))

    with monkeypatch.context() as patch:
        patch.setattr(store, "prune", locked)
        for number in range(8):
            assert store.add([make_experience(number)]) == (1, 0)
    assert len(pruned) >= 1  # a store of few rows is pruned often
    assert rows_in(store) == 8


def test_a_store_that_nobody_asks_for_is_looked_at(monkeypatch, tmp_path, make_experience):
    """It opens once it can, and is said to work again after a failure, without a job."""
    monkeypatch.setattr("osml.experiences.writer.REOPEN_S", 0.05)
    monkeypatch.setattr("osml.experiences.writer.REST_S", 0.0)
    told_of: queue.Queue[str | None] = queue.Queue()
    engine = open_engine(store_url(f"sqlite:///{tmp_path}/x.db"), writes=True)
    state: dict[str, Exception | None] = {"opening": Failure("the disk is gone"), "writing": None, "reading": None}

    def fail(what: str) -> None:
        if state[what] is not None:
            raise state[what]

    class Failing(Store):
        def add_all(self, batches, now_s=None):
            fail("writing")
            return super().add_all(batches, now_s)

        def try_to_write(self):
            fail("writing")
            super().try_to_write()

        def returns(self):
            fail("reading")
            return super().returns()

    def open_store() -> Store:
        fail("opening")
        return Failing(engine)

    writer = Writer(open_store, told_of.put)
    writer.start()
    assert told_of.get(timeout=60) == "the disk is gone"
    state["opening"] = None
    assert told_of.get(timeout=60) is None, "said once, however often it was tried"
    state["writing"] = StoreError("disk full")
    with pytest.raises(StoreError, match="disk full"):
        asyncio.run(writer.add([make_experience(0)]))
    assert told_of.get(timeout=60) == "the experience store takes nothing: disk full"
    state["writing"] = None
    assert told_of.get(timeout=60) is None
    state["writing"] = state["reading"] = StoreAwayError("connection refused")
    assert told_of.get(timeout=60) == "the database of the experience store does not answer: connection refused"
    state["reading"] = state["writing"] = None
    assert told_of.get(timeout=60) is None
    writer.stop()
    assert told_of.empty()
    assert Store(engine).returns() == []


def test_one_batch_that_the_database_refuses_stops_nobody_else(make_experience):
    told_of: list[str | None] = []

    def refuse(_store):
        raise StoreError("no such thing")

    class Odd:
        def close(self):
            pass

    writer = Writer(Odd, told_of.append)
    writer.start()

    async def play():
        with pytest.raises(StoreError):
            await writer.call(refuse)
        return await writer.call(lambda _store: "fine")

    assert asyncio.run(play()) == "fine"
    writer.stop()
    assert told_of == [None]
