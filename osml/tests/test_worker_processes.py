"""Processes that work for a command: one that is killed, work that is broken off, what each begins with."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from osml.failure import Failure
from osml.worker_processes import worker_pool


def test_a_killed_process_is_a_failure_in_one_sentence() -> None:
    with (
        pytest.raises(Failure, match=r"one of 2 worker processes was killed.* fewer --workers"),
        worker_pool(2) as pool,
    ):
        pool.submit(os._exit, 9).result()


def test_an_exception_breaks_off_the_work_and_lets_it_clean_up(tmp_path: Path) -> None:
    busy, there = tmp_path / "busy", set(multiprocessing.active_children())
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt), worker_pool(2) as pool:
        pool.submit(_hold, busy)
        while not busy.exists():
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert not busy.exists()
    assert set(multiprocessing.active_children()) == there
    assert time.monotonic() - started < _HOLD_S


def test_each_process_begins_with_what_it_is_told(tmp_path: Path) -> None:
    with worker_pool(1, (tmp_path / "begun").mkdir) as pool:
        assert pool.submit(os.getpid).result()
    assert (tmp_path / "begun").is_dir()


_HOLD_S = 300.0


def _hold(file: Path) -> None:
    """Holds a file for minutes."""
    file.touch()
    try:
        time.sleep(_HOLD_S)
    finally:
        file.unlink()
