"""The one thread that talks to the store: the event loop hands it jobs, and goes on."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from osml.base.failure import Failure
from osml.domain import Experience
from osml.experiences.outcome import (
    Added,
    BusyError,
    Newest,
    StoreAwayError,
    StoreConflictError,
    StoreError,
    StoreFullError,
)

if TYPE_CHECKING:
    from osml.experiences.store import Store

REOPEN_S = 10.0
REST_S = 2.0  # after a database did not answer: who waits in the queue is told at once
GATHER_S = 0.02  # batches of so long are stored together: a transaction costs more than a row
MOST_TOGETHER = 64  # batches
Answer = TypeVar("Answer")
_NOTHING_YET = "nothing was told yet"


class _Add(NamedTuple):
    experiences: Sequence[Experience]
    future: Future[Added]


class _Call(NamedTuple):
    job: Callable[[Store], Any]
    future: Future[Any]


class Writer:
    """Runs jobs on a store, one after the other, in a thread of its own. Batches that wait are stored together.

    The store is opened there; where that fails, jobs fail, and it is tried again every ten seconds. A store that has
    stopped answering is asked again every two seconds; jobs between fail at once, so that they don't wait for each
    other's timeouts. `tell` hears from the thread when the store begins to work (None) and when it stops (why): a store
    that takes nothing, because its disk is full, does not work. Where nobody writes, the thread looks at the store
    every ten seconds, so that this is known all the same.
    """

    def __init__(self, open_store: Callable[[], Store], tell: Callable[[str | None], None], size: int = 64) -> None:
        self._open_store = open_store
        self._tell = tell
        self._jobs: Queue[_Add | _Call | None] = Queue(size)
        self._thread = threading.Thread(target=self._run, name="experiences", daemon=True)
        self._store: Store | None = None
        self._stopping = False
        self._why = "the experience store is not open yet"
        self._tried_s = -REOPEN_S
        self._rests_until_s = 0.0
        self._away: str | None = None
        self._takes_nothing: str | None = None
        self._looked_s = 0.0
        self._told: str | None = _NOTHING_YET

    def start(self) -> None:
        """Open the store and take jobs."""
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Finish what waits, then close the store."""
        if not self._thread.is_alive():
            return
        self._stopping = True
        try:
            self._jobs.put_nowait(None)
        except Full:
            pass  # the thread looks at `_stopping` after each job
        self._thread.join(timeout_s)

    async def add(self, experiences: Sequence[Experience]) -> Added:
        """Store a batch; returns when it is stored. Raises BusyError, StoreError."""
        return await self._answer(_Add(experiences, Future()))

    async def newest(self, node: str, limit: int) -> Newest:
        """A node's newest experiences. Raises BusyError, StoreError."""
        return await self.call(lambda store: store.newest(node, limit))

    async def call(self, job: Callable[[Store], Answer]) -> Answer:
        """Have the thread do something with the store. Raises BusyError, and what the job raises."""
        return await self._answer(_Call(job, Future()))

    async def _answer(self, work: _Add | _Call) -> Any:
        try:
            self._jobs.put_nowait(work)
        except Full:
            raise BusyError from None
        return await asyncio.wrap_future(work.future)

    def _run(self) -> None:
        self._open()
        while not (self._stopping and self._jobs.empty()):
            try:
                work = self._jobs.get(timeout=REOPEN_S)
            except Empty:
                work = None
            while work is not None:  # what ends the gathering is the next job
                work = self._do_together(work) if isinstance(work, _Add) else self._do_alone(work)
            if not self._stopping:
                self._look()
        if self._store is not None:
            self._store.close()

    def _look(self) -> None:
        """Where nobody wrote for ten seconds: open the store, or write where it did not work, or read."""
        now_s = time.monotonic()
        if self._store is None:
            if now_s - self._tried_s >= REOPEN_S:
                self._open()
            return
        if now_s - self._looked_s < REOPEN_S:
            return
        self._looked_s = now_s
        doubtful = self._away is not None or self._takes_nothing is not None
        with contextlib.suppress(Exception):  # `tell` has heard of it
            self._do(lambda store: self._noted(store.try_to_write) if doubtful else store.returns())

    def _do_alone(self, work: _Add | _Call) -> None:
        if not work.future.set_running_or_notify_cancel():
            return  # who asked has gone
        try:
            if isinstance(work, _Add):
                work.future.set_result(self._do(lambda store: self._noted(lambda: store.add(work.experiences))))
            else:
                work.future.set_result(self._do(work.job))
        except Exception as error:  # it goes to who asked; this thread lives on
            work.future.set_exception(error)

    def _do_together(self, first: _Add) -> _Add | _Call | None:
        """Store the batches that wait, all in one transaction; returns the job that came after them, if one did."""
        adds, following = self._gather(first)
        if len(adds) == 1:
            self._do_alone(first)
            return following
        batches = [add.experiences for add in adds]
        try:
            stored = self._do(lambda store: self._noted(lambda: store.add_all(batches)))
        except StoreFullError as error:  # it would say so of each, in a transaction and on a connection of its own
            for add in adds:
                if add.future.set_running_or_notify_cancel():
                    add.future.set_exception(error)
            return following
        except Exception:  # whose fault it is shows when each is alone
            for add in adds:
                self._do_alone(add)
            return following
        for add, added in zip(adds, stored, strict=True):
            if add.future.set_running_or_notify_cancel():
                add.future.set_result(added)
        return following

    def _gather(self, first: _Add) -> tuple[list[_Add], _Add | _Call | None]:
        adds = [first]
        if not self._stopping:
            time.sleep(GATHER_S)
        while len(adds) < MOST_TOGETHER and not self._jobs.empty():
            work = self._jobs.get()
            if not isinstance(work, _Add):
                return adds, work
            adds.append(work)
        return adds, None

    def _do(self, job: Callable[[Store], Answer]) -> Answer:
        store = self._opened()
        if self._away is not None and time.monotonic() < self._rests_until_s:
            raise StoreAwayError(self._why)
        try:
            answer = job(store)
        except StoreAwayError as error:
            self._rests_until_s = time.monotonic() + REST_S
            self._why = str(error)
            self._away = self._away or f"the database of the experience store does not answer: {error}"
            self._tell_of_changes()
            raise
        self._away = None
        self._tell_of_changes()
        return answer

    def _noted(self, write: Callable[[], Answer]) -> Answer:
        """Tell when the store begins to take nothing, and when it takes something again."""
        self._looked_s = time.monotonic()
        try:
            answer = write()
        except StoreAwayError:
            raise
        except StoreConflictError:
            self._away = None  # it answers
            self._tell_of_changes()
            raise
        except StoreError as error:
            self._away = None  # it answers
            self._takes_nothing = self._takes_nothing or f"the experience store takes nothing: {error}"
            self._tell_of_changes()
            raise
        self._takes_nothing = None
        return answer

    def _tell_of_changes(self) -> None:
        """What is wrong now, where that is news. An answer to a read does not end that the store takes nothing."""
        now = self._away or self._takes_nothing
        if now != self._told:
            self._told = now
            self._tell(now)

    def _opened(self) -> Store:
        if self._store is None and time.monotonic() - self._tried_s >= REOPEN_S:
            self._open()
        if self._store is None:
            raise StoreError(self._why)
        return self._store

    def _open(self) -> None:
        self._tried_s = self._looked_s = time.monotonic()
        try:
            self._store = self._open_store()
        except Exception as error:  # whatever a database can think of: this thread lives on
            opening = f"the experience store cannot be opened: {error!r}"
            self._why = str(error) if isinstance(error, Failure) else opening
            if self._told != self._why:  # not once more at each try
                self._told = self._why
                self._tell(self._why)
        else:
            self._tell_of_changes()
