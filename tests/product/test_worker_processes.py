"""Processes that work for a command: one that is killed, work that is broken off, what each begins with."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from osml.base.failure import Failure
from osml.base.worker_processes import worker_pool


def test_a_killed_process_is_a_failure_in_one_sentence_and_the_others_stop(tmp_path: Path) -> None:
    """They stop at once, whatever is queued: none takes up another task."""
    started = time.monotonic()
    with (
        pytest.raises(Failure, match=r"one of 2 worker processes was killed.* fewer --workers"),
        worker_pool(2) as pool,
    ):
        for name in ("one", "two", "three", "four"):
            pool.submit(_hold, tmp_path / name)
        pid = _first(tmp_path)
        os.kill(pid, signal.SIGKILL)
        pool.submit(os.getpid).result()
    assert time.monotonic() - started < _HOLD_S
    assert {file.read_text("ascii") for file in tmp_path.iterdir()} == {str(pid)}  # the others took theirs away


def test_an_exception_breaks_off_the_work_and_lets_it_clean_up(tmp_path: Path) -> None:
    there = set(multiprocessing.active_children())
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), worker_pool(2) as pool:
        for name in ("one", "two", "three", "four"):
            pool.submit(_hold, tmp_path / name)
        _first(tmp_path)
        raise KeyboardInterrupt
    assert time.monotonic() - started < _HOLD_S
    assert not list(tmp_path.iterdir())
    assert set(multiprocessing.active_children()) == there


def test_each_process_begins_with_what_it_is_told(tmp_path: Path) -> None:
    with worker_pool(1, (tmp_path / "begun").mkdir) as pool:
        assert pool.submit(os.getpid).result()
    assert (tmp_path / "begun").is_dir()


_HOLD_S = 300.0


def _hold(file: Path) -> None:
    """Holds a file for minutes."""
    try:
        file.write_text(str(os.getpid()), "ascii")
        time.sleep(_HOLD_S)
    finally:
        file.unlink(missing_ok=True)


def _first(folder: Path) -> int:
    """The process that holds a file, as soon as one does."""
    while True:
        for file in folder.iterdir():
            if found := file.read_text("ascii"):
                return int(found)
        time.sleep(0.01)
