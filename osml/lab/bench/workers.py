"""Who does the work: processes of this machine, or a Ray cluster. Both yield units as they get done, in any order."""

from __future__ import annotations

import multiprocessing
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from itertools import chain
from typing import Any, NamedTuple

from osml.base.extras import how_to_install
from osml.base.failure import Failure, MachineError
from osml.base.worker_processes import begin_worker
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.unit import Case, Done, run_unit

_ATTEMPTS = 2
_CONNECT_S = 5.0


class Task(NamedTuple):
    """Arguments of `run_unit`."""

    case: int
    scenario: Scenario
    cases: Sequence[Case]
    ask_oracle: bool


Workers = Callable[[Sequence[Task]], Iterator[Done]]


def in_this_process(tasks: Sequence[Task]) -> Iterator[Done]:
    """One after the other."""
    for task in tasks:
        yield run_unit(*task)


def processes(count: int) -> Workers:
    """So many processes of this machine. When one dies, the units that were under way are run again, each alone."""

    def run(tasks: Sequence[Task]) -> Iterator[Done]:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ.setdefault(name, "1")  # one process a core: threads of BLAS would only get in the way
        waiting, suspects = iter(tasks), list[Task]()
        while (task := next(waiting, None)) is not None:
            yield from _pool(count, chain([task], waiting), suspects)
        for task in suspects:  # each alone: who dies now has nobody else to blame
            died: list[Task] = []
            yield from _pool(1, iter([task]), died)
            yield from (Done(one.case, failure="its worker process ended unexpectedly twice") for one in died)

    return run


def _pool(count: int, waiting: Iterator[Task], suspects: list[Task]) -> Iterator[Done]:
    """Work on what waits until nothing does or a process dies; then what was under way is among the suspects."""
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(count, mp_context=context, initializer=begin_worker)
    running: dict[Future[Done], Task] = {}
    try:
        while True:
            while len(running) < 2 * count and (task := next(waiting, None)) is not None:
                running[pool.submit(run_unit, *task)] = task
            if not running:
                return
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                task = running.pop(future)
                try:
                    yield future.result()
                except BrokenProcessPool:
                    suspects += [task, *running.values()]
                    return
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        if running:  # an interrupt: nobody waits for what is under way
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()


def ray_cluster(address: str) -> Workers:
    """The nodes of a Ray cluster (`address`: "local" starts one here, else host:port or "auto").

    MachineError where Ray is not installed, Failure where the cluster can't be reached.
    """
    # Under `uv run` Ray would build an environment anew for each worker; the cluster's machines have their own.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    try:
        ray: Any = import_module("ray")  # only who asks for a cluster needs it
    except ImportError:
        raise MachineError(f"--ray needs Ray, which is not installed: {how_to_install('ray')}") from None
    host, colon, port = address.rpartition(":")
    try:
        if colon and port.isdecimal() and "/" not in host:
            socket.create_connection((host, int(port)), _CONNECT_S).close()  # Ray itself would try for minutes
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else it reports to its maker
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", ignore_reinit_error=True)
    except (OSError, OverflowError, ValueError, RuntimeError) as error:
        raise Failure(f"--ray '{address}': the cluster can't be reached ({error})") from None
    remote: Any = ray.remote(run_unit)

    def run(tasks: Sequence[Task]) -> Iterator[Done]:
        running: dict[Any, Task] = {remote.options(max_retries=_ATTEMPTS).remote(*task): task for task in tasks}
        try:
            while running:
                finished, _ = ray.wait(list(running), num_returns=1)
                for reference in finished:
                    task = running.pop(reference)
                    try:
                        yield ray.get(reference)
                    except ray.exceptions.RayError as error:
                        yield Done(task.case, failure=f"the Ray cluster lost the task: {type(error).__name__}")
        finally:
            for reference in running:
                ray.cancel(reference, force=True)

    return run
