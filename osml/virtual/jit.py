"""Compiles the hot loops with numba. Without it (NUMBA_DISABLE_JIT=1) the same functions run as plain Python."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import config as numba_config

Function = TypeVar("Function", bound=Callable[..., Any])

_KEPT = 4
_ROOMS = ("virtual", "virtual/oracle", "dispatch")
"""Where compiled functions are, and the constants that they contain."""


def _prepare_cache() -> bool:
    """Point numba at a folder of machine code for exactly this state of the sources; False where none can be had.

    numba notices a change in the file of a function, but not in that of a function it calls. The folder is the user's
    own (numba unpickles what it finds there): never a shared one.
    """
    package = Path(__file__).parents[1]
    state = hashlib.sha256()
    sources = (path for room in _ROOMS for path in (package / room).glob("*.py"))
    for path in sorted(sources):
        status = path.stat()
        state.update(f"{path}:{status.st_mtime_ns}:{status.st_size}\n".encode())
    try:
        own = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        base = Path(os.environ.get("NUMBA_CACHE_DIR") or own) / "osml" / "jit"
        folder = base / state.hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(folder, os.W_OK) or folder.stat().st_uid != os.getuid():
            return False
        os.utime(folder)
        for old in sorted(base.iterdir(), key=lambda entry: entry.stat().st_mtime, reverse=True)[_KEPT:]:
            shutil.rmtree(old, ignore_errors=True)
    except (OSError, RuntimeError):  # nowhere to write, or a user without a home
        return False
    cast(Any, numba_config).CACHE_DIR = str(folder)
    return True


_CACHED = _prepare_cache()


def compiled(function: Function) -> Function:
    """The function as machine code, kept on disk between runs. IEEE arithmetic: no reordering, same bytes each time."""
    return cast(Function, numba.njit(cache=_CACHED, error_model="numpy")(function))


def lean(function: Function) -> Function:
    """As `compiled`, for functions that make no array: without counting references, which costs more than they do."""
    return cast(Function, cast(Any, numba).njit(cache=_CACHED, error_model="numpy", _nrt=False)(function))
