"""The parent of the workers: starts them, starts them again when they end or hang, passes signals on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from osml.base.failure import Failure
from osml_serving.addresses.place import socket_of
from osml_serving.log import Log
from osml_serving.server import listen
from osml_serving.settings import Settings, as_environment
from osml_serving.workers import probe

LOOK_S = 0.2
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 30.0  # before a worker that ended is started again
STEADY_S = 60.0  # a worker that ran so long may start at once
GRACE_S = 15.0  # beyond the draining: open requests have ten seconds


def _folder() -> Path:
    """A folder for the workers' sockets, which only their user can enter."""
    try:
        return Path(tempfile.mkdtemp(prefix="osml-workers-"))
    except OSError as error:
        message = f"the server cannot create a folder for the sockets of its workers: {error.strerror}"
        raise Failure(f"{message}; set TMPDIR to a folder that it may write") from None


class _Worker:
    """One worker, through all of its lives."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: subprocess.Popen[bytes] | None = None
        self.began_s = 0.0
        self.wait_s = 0.0
        self.due_s = 0.0
        self.failures = 0  # of its newest probes, in a row


class Supervisor:
    """Runs `settings.workers` workers until it is told to stop."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._folder = Path()
        self._workers = [_Worker(number) for number in range(settings.workers)]
        self._served = False  # a worker has served: the settings can be used
        self._signals: list[int] = []
        self._wake = threading.Event()
        self._over = threading.Event()

    def run(self) -> None:
        """Raises Failure where the address can't be had, or a worker can't start before any of them has served."""
        listen(self._settings.host, self._settings.port).close()  # workers share it; nobody else may have it
        self._folder = _folder()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._note)
        for worker in self._workers:
            threading.Thread(target=self._probe, args=(worker,), name=f"probe-{worker.number}", daemon=True).start()
        try:
            while not self._told_to_stop():
                for worker in self._workers:
                    self._tend(worker)
                self._wake.wait(LOOK_S)
                self._wake.clear()
        finally:
            self._over.set()
            self._stop()
            shutil.rmtree(self._folder, ignore_errors=True)
        self._log.event("info", "stopped", "all workers stopped")

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._signals.append(number)
        self._wake.set()

    def _told_to_stop(self) -> bool:
        """Pass on what asks to reload. True after a signal to stop.

        A worker without its socket starts: it has no handler yet, and reads all files anyway.
        """
        while self._signals and self._signals[0] == signal.SIGHUP:
            serving = [worker for worker in self._workers if socket_of(self._folder, worker.number).exists()]
            self._send(self._signals.pop(0), serving)
        return bool(self._signals)

    def _tend(self, worker: _Worker) -> None:
        now_s = time.monotonic()
        if worker.process is not None:
            code = worker.process.poll()
            self._served = self._served or socket_of(self._folder, worker.number).exists()
            if code is None:
                self._kill_if_it_hangs(worker, worker.process)
                return
            self._ended(worker, code, now_s)
        if now_s >= worker.due_s:
            self._start(worker)

    def _start(self, worker: _Worker) -> None:
        """Raises Failure where it can't, and none has ever served; else it is tried again later."""
        place = [str(worker.number), str(self._settings.workers), str(self._folder)]
        try:
            socket_of(self._folder, worker.number).unlink(missing_ok=True)
            worker.process = subprocess.Popen(
                [sys.executable, "-m", "osml_serving.workers.worker", *place],
                env={**os.environ, **as_environment(self._settings)},
                stdin=subprocess.PIPE,  # its end tells the worker that the parent is gone
                start_new_session=True,  # Ctrl-C comes from here only
            )
        except OSError as error:  # such as too many processes: the other workers go on
            message = f"worker {worker.number} cannot be started: {error.strerror}"
            if not self._served:
                raise Failure(message) from None
            self._wait(worker, time.monotonic())
            self._log.event("error", "worker", f"{message}; it is tried again in {worker.wait_s:g} s")
            return
        worker.began_s = time.monotonic()
        worker.failures = 0

    def _wait(self, worker: _Worker, now_s: float) -> None:
        """Longer each time."""
        worker.wait_s = min(LONGEST_WAIT_S, max(FIRST_WAIT_S, 2 * worker.wait_s))
        worker.due_s = now_s + worker.wait_s

    def _probe(self, worker: _Worker) -> None:
        """Count the probes that a worker leaves without an answer, until all is over; in a thread of its own."""
        path = socket_of(self._folder, worker.number)
        while not self._over.wait(probe.EVERY_S):
            process = worker.process
            if process is None or not path.exists():  # it starts, which may take long
                continue
            well = probe.answers(path, probe.TIMEOUT_S)
            if worker.process is process:
                worker.failures = 0 if well else worker.failures + 1

    def _kill_if_it_hangs(self, worker: _Worker, process: subprocess.Popen[bytes]) -> None:
        if worker.failures >= probe.MOST_FAILURES:
            message = f"worker {worker.number} gave no answer to {worker.failures} probes in a row; it is killed"
            self._log.event("error", "worker", message)
            worker.failures = 0
            process.kill()

    def _ended(self, worker: _Worker, code: int, now_s: float) -> None:
        """Start it again, later each time. Where none has ever served, it will not do better the next time.

        After that, a file that became wrong (models, rollout, tokens) stops one start, and no worker that serves.
        """
        worker.process = None
        if not self._served:
            raise Failure(f"worker {worker.number} could not start (exit code {code}); the log above says why")
        if now_s - worker.began_s > STEADY_S:
            worker.wait_s, worker.due_s = 0.0, now_s
        else:
            self._wait(worker, now_s)
        message = f"worker {worker.number} ended (exit code {code}); it is started again in {worker.wait_s:g} s"
        self._log.event("error", "worker", message)

    def _stop(self) -> None:
        """Drain all; a second signal hurries them; who does not end is killed."""
        self._send(self._signals[0] if self._signals else signal.SIGTERM)
        told = 1
        deadline_s = time.monotonic() + self._settings.drain_s + GRACE_S
        while self._alive() and time.monotonic() < deadline_s:
            if len(self._signals) > told:
                told = len(self._signals)
                self._send(self._signals[-1])
            self._wake.wait(LOOK_S)
            self._wake.clear()
        for process in self._alive():
            process.kill()
            process.wait()

    def _alive(self, workers: Sequence[_Worker] | None = None) -> list[subprocess.Popen[bytes]]:
        processes = [worker.process for worker in (self._workers if workers is None else workers)]
        return [process for process in processes if process is not None and process.poll() is None]

    def _send(self, number: int, workers: Sequence[_Worker] | None = None) -> None:
        for process in self._alive(workers):
            process.send_signal(number)
