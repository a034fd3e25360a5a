"""A lock on an open file that ends with its process, however that ends."""

from __future__ import annotations

import fcntl
from typing import IO, Any

from osml.base.failure import InputError, MachineError


def take_for_this_process(file: IO[Any], what: str, other: str) -> None:
    """Lock the file until it is closed. `what` is the folder in words, `other` whose it may be and what to do then.

    InputError where another process has it, MachineError where its file system has no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(f"{what} is in use by another {other}, or choose another folder") from None
    except OSError as error:
        raise MachineError(f"{what} can't be locked ({error.strerror}): choose a folder on a local disk") from None
