"""Takes log lines to where they go in a thread of its own: a reader that has stopped reading stops no decision."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

MAX_BYTES = 8 * 2**20  # of lines that wait; what comes then is lost, and counted
GATHER_S = 0.02  # lines of so long go out together: fewer system calls, fewer changes of threads


class Outlet:
    """Lines wait here until `write`, which may block, has taken those before them."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self._some = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> bool:
        """Queue a line; False where there is no more room. Never blocks for longer than another `put`."""
        with self._lock:
            if self._bytes + len(line) > MAX_BYTES:
                return False
            self._lines.append(line)
            self._bytes += len(line)
        self._some.set()
        return True

    def close(self, timeout_s: float = 2.0) -> bool:
        """Write what waits, as far as that takes no longer than this. Returns False where something is left."""
        self._closing = True
        self._some.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            self._some.wait()
            if not self._closing:
                time.sleep(GATHER_S)
            self._some.clear()
            with self._lock:
                together = b"".join(self._lines)
                self._lines.clear()
            if together:
                self._write(together)
                with self._lock:
                    self._bytes -= len(together)
            elif self._closing:
                return
            if self._closing:
                self._some.set()  # once more, for what came meanwhile
