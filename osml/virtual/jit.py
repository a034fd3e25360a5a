"""Compiles the hot loops with numba. Without it (NUMBA_DISABLE_JIT=1) the same functions run as plain Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """The function as machine code, kept on disk between runs. IEEE arithmetic: no reordering, same bytes each time."""
    return cast(Function, numba.njit(cache=True, error_model="numpy")(function))
