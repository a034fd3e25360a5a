"""Compiles the hot loops with numba. Without it (NUMBA_DISABLE_JIT=1) the same functions run as plain Python."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import config as numba_config

Function = TypeVar("Function", bound=Callable[..., Any])

_KEPT = 4
_UNUSED_S = 24 * 3600.0
"""Older states of the sources are forgotten, but none that somebody used within a day: checkouts work side by side."""
_ROOMS = ("simulator", "dispatch", "lab/dispatch", "lab/studies", "lab/theory", "predictors/actions.py")
"""Where compiled functions are, and the constants that they contain."""


def _sources(package: Path) -> list[Path]:
    """The files of _ROOMS, with those in folders below."""
    rooms = [package / room for room in _ROOMS]
    return sorted(path for room in rooms for path in ([room] if room.is_file() else room.rglob("*.py")))


def _forget_old(base: Path, now: float) -> None:
    """Remove the folders of machine code in `base` that nobody used for a day, but for the last _KEPT."""
    found: list[tuple[float, Path]] = []
    for entry in base.iterdir():
        try:
            found.append((entry.stat().st_mtime, entry))
        except FileNotFoundError:  # another process is faster
            continue
    for used, entry in sorted(found, reverse=True)[_KEPT:]:
        if now - used > _UNUSED_S:
            shutil.rmtree(entry, ignore_errors=True)


def _prepare_cache() -> bool:
    """Point numba at a folder of machine code for exactly this state of the sources; False where none can be had.

    numba notices a change in the file of a function, but not in that of a function it calls. The folder is the user's
    own (numba unpickles what it finds there): never a shared one.
    """
    state = hashlib.sha256()
    for path in _sources(Path(__file__).parents[1]):
        status = path.stat()
        state.update(f"{path}:{status.st_mtime_ns}:{status.st_size}\n".encode())
    try:
        own = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        base = Path(os.environ.get("NUMBA_CACHE_DIR") or own) / "osml" / "jit"
        folder = base / state.hexdigest()[:16]
        if not folder.exists():  # the first import of this version: silence would look like a hang
            print("osml compiles its simulator, once for this version (about 20 s)", file=sys.stderr)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(folder, os.W_OK) or folder.stat().st_uid != os.getuid():
            return False
        os.utime(folder)
        _forget_old(base, time.time())
    except (OSError, RuntimeError):  # nowhere to write, or a user without a home
        return False
    cast(Any, numba_config).CACHE_DIR = str(folder)
    return True


_CACHED = _prepare_cache()


def compiled(function: Function) -> Function:
    """The function as machine code, kept on disk between runs. IEEE arithmetic: no reordering, same bytes each time."""
    return cast(Function, numba.njit(cache=_CACHED, error_model="numpy")(function))


def unlocked(function: Function) -> Function:
    """As `compiled`, and other threads go on while it runs: for long calls beside a control loop.

    Its arrays must belong to the calling thread. Not for short calls: each may have to wait for Python's lock after it.
    """
    return cast(Function, cast(Any, numba).njit(cache=_CACHED, error_model="numpy", nogil=True)(function))


def lean(function: Function) -> Function:
    """As `compiled`, for functions that make no array: without counting references, which costs more than they do."""
    return cast(Function, cast(Any, numba).njit(cache=_CACHED, error_model="numpy", _nrt=False)(function))
