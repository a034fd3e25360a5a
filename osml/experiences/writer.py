"""The one thread that talks to the store: the event loop hands it jobs, and goes on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Full, Queue
from typing import TYPE_CHECKING, Any, TypeVar

from osml.base.failure import Failure
from osml.domain import Experience
from osml.experiences.outcome import Added, BusyError, Newest, StoreAwayError, StoreError

if TYPE_CHECKING:
    from osml.experiences.store import Store

REOPEN_S = 10.0
REST_S = 2.0  # after a database did not answer: who waits in the queue is told at once
Answer = TypeVar("Answer")


class Writer:
    """Runs jobs on a store, one after the other, in a thread of its own.

    The store is opened there; where that fails, jobs fail, and it is tried again every ten seconds. A store that has
    stopped answering is asked again every two seconds; jobs between fail at once, so that they don't wait for each
    other's timeouts. `tell` hears from the thread when the store begins to work (None) and when it stops (why): a store
    that takes nothing, because its disk is full, does not work.
    """

    def __init__(self, open_store: Callable[[], Store], tell: Callable[[str | None], None], size: int = 64) -> None:
        self._open_store = open_store
        self._tell = tell
        self._jobs: Queue[tuple[Callable[[Store], Any], Future[Any]] | None] = Queue(size)
        self._thread = threading.Thread(target=self._run, name="experiences", daemon=True)
        self._store: Store | None = None
        self._stopping = False
        self._why = "the experience store is not open yet"
        self._tried_s = -REOPEN_S
        self._rests_until_s = 0.0
        self._away = False
        self._takes_nothing = False

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

    @property
    def waiting(self) -> int:
        """Jobs in the queue."""
        return self._jobs.qsize()

    async def add(self, experiences: Sequence[Experience]) -> Added:
        """Store a batch; returns when it is stored. Raises BusyError, StoreError."""
        return await self.call(lambda store: self._add(store, experiences))

    async def newest(self, node: str, limit: int) -> Newest:
        """A node's newest experiences. Raises BusyError, StoreError."""
        return await self.call(lambda store: store.newest(node, limit))

    async def call(self, job: Callable[[Store], Answer]) -> Answer:
        """Have the thread do something with the store. Raises BusyError, and what the job raises."""
        future: Future[Answer] = Future()
        try:
            self._jobs.put_nowait((job, future))
        except Full:
            raise BusyError from None
        return await asyncio.wrap_future(future)

    def _run(self) -> None:
        self._open()
        while not (self._stopping and self._jobs.empty()):
            work = self._jobs.get()
            if work is None:
                continue
            job, future = work
            if not future.set_running_or_notify_cancel():
                continue  # who asked has gone
            try:
                future.set_result(self._do(job))
            except Exception as error:  # it goes to who asked; this thread lives on
                future.set_exception(error)
        if self._store is not None:
            self._store.close()

    def _do(self, job: Callable[[Store], Answer]) -> Answer:
        store = self._opened()
        if self._away and time.monotonic() < self._rests_until_s:
            raise StoreAwayError(self._why)
        try:
            answer = job(store)
        except StoreAwayError as error:
            self._rests_until_s = time.monotonic() + REST_S
            self._why = str(error)
            if not self._away:
                self._tell(f"the database of the experience store does not answer: {error}")
            self._away = True
            raise
        if self._away:
            self._away = False
            self._tell(None)
        return answer

    def _add(self, store: Store, experiences: Sequence[Experience]) -> Added:
        try:
            added = store.add(experiences)
        except StoreAwayError:
            raise
        except StoreError as error:
            if not self._takes_nothing:
                self._tell(f"the experience store takes nothing: {error}")
            self._takes_nothing = True
            raise
        if self._takes_nothing:
            self._takes_nothing = False
            self._tell(None)
        return added

    def _opened(self) -> Store:
        if self._store is None and time.monotonic() - self._tried_s >= REOPEN_S:
            self._open()
        if self._store is None:
            raise StoreError(self._why)
        return self._store

    def _open(self) -> None:
        self._tried_s = time.monotonic()
        try:
            self._store = self._open_store()
        except Exception as error:  # whatever a database can think of: this thread lives on
            opening = f"the experience store cannot be opened: {error!r}"
            self._why = str(error) if isinstance(error, Failure) else opening
            self._tell(self._why)
        else:
            self._tell(None)
