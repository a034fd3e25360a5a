"""Progress of the best-effort job, told to the agent once a second.

stress-ng says what it has done only when it ends. Its workers never sleep, so the CPU time that their cgroup gets is
their progress, up to what they lose to shared caches; the unit is CPU seconds a second. The same unit is measured while
the job runs alone, and the ratio of the two is what counts.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

UNIT = "cpu-seconds/s"


def rate_over(cpu_seconds: Callable[[], float], seconds: float) -> float:
    """Mean work rate over the next `seconds`."""
    start, before = time.monotonic(), cpu_seconds()
    time.sleep(seconds)
    return (cpu_seconds() - before) / (time.monotonic() - start)


class WorkRateWriter:
    """Appends a telemetry line every `interval_s` from a thread."""

    def __init__(self, cpu_seconds: Callable[[], float], path: Path, interval_s: float = 1.0) -> None:
        self._cpu_seconds = cpu_seconds
        self._path = path
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="work-rate", daemon=True)

    def _run(self) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            last, before = time.monotonic(), self._cpu_seconds()
            while not self._stop.wait(self._interval_s):
                now, used = time.monotonic(), self._cpu_seconds()
                line = {"t": now, "interval_s": now - last, "work_rate": (used - before) / (now - last)}
                os.write(file, (json.dumps(line) + "\n").encode())  # one write: a reader never sees half a line
                last, before = now, used
        finally:
            os.close(file)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
