"""Processes of this machine that work for one command: spawned, deaf to interrupts, gone when the command is."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

from osml.base.failure import Failure


def begin_worker() -> None:
    """Leave interrupts to the parent, and end with it however it ends: nobody would fetch the results."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _begin(begin: Callable[[], None] | None) -> None:
    begin_worker()
    signal.signal(signal.SIGTERM, _leave)
    if begin is not None:
        begin()


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(1)  # by way of every `finally`: half-written files are taken away


def _work(task: Callable[..., Any], /, *arguments: Any, **options: Any) -> Any:
    try:
        return task(*arguments, **options)
    except SystemExit:
        os._exit(1)  # else the executor would take it for the task's own exception, and do the next task


class _Pool(ProcessPoolExecutor):
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return super().submit(_work, fn, *args, **kwargs)


@contextmanager
def worker_pool(count: int, begin: Callable[[], None] | None = None) -> Generator[ProcessPoolExecutor]:
    """`count` processes, each of which calls `begin` once; an exception in the block breaks off what they are at.

    Spawned and not forked: torch, pyarrow and compiled code have threads of their own. Raises Failure where one of the
    processes was killed.
    """
    others = set(multiprocessing.active_children())
    pool = _Pool(count, multiprocessing.get_context("spawn"), _begin, (begin,))
    try:
        yield pool
    except BrokenProcessPool:
        raise Failure(
            f"one of {count} worker processes was killed, mostly for want of memory: try again with fewer --workers"
        ) from None
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
