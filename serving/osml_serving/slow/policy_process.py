"""The server's end of one slow policy: a process, a queue of observations, a deadline for each."""

from __future__ import annotations

import asyncio
import contextlib
import math
import sys
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from osml.domain import Decision, Observation
from osml_serving.child_process import ONE_THREAD, environment_without_secrets
from osml_serving.decider import Decider, PolicyFailedError
from osml_serving.errors import ApiError
from osml_serving.guards.request_limits import CLOSE
from osml_serving.log import Log
from osml_serving.slow.replies import Reply, Started

START_S = 120.0
STUCK_S = 30.0  # a policy that takes longer, and twice its deadline, never answers: its process is replaced
RESTART_S = 2.0
MAX_WAITING = 64
LINE = 16 * 2**20  # bytes of a reply
RETRY = {"retry-after": "1"}
ENDED = "its process ended"


class _Job(NamedTuple):
    line: bytes
    answer: asyncio.Future[Reply]
    charge: Callable[[float], None]


class _GoneError(Exception):
    """The process ended, or had to be ended."""


class PolicyProcess:
    """One policy in a process of its own. Observations wait in a queue; each has `deadline_s` from its arrival.

    A process that ends or hangs is replaced. A policy that cannot start is withdrawn from the decider.
    """

    def __init__(self, policy: str, deadline_s: float, decider: Decider, log: Log) -> None:
        self.policy = policy
        self.deadline_s = deadline_s
        self.ready = asyncio.Event()
        self.settled = asyncio.Event()  # it is ready, or was withdrawn
        self._decider = decider
        self._log = log
        self._jobs: asyncio.Queue[_Job] = asyncio.Queue(MAX_WAITING)
        self._nodes: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the process; `ready` is set when the policy decides."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End the process."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def decide(
        self, observation: Observation, charge: Callable[[float], None], longest_s: float = math.inf
    ) -> Decision:
        """The decision, within the deadline or `longest_s`. Raises ApiError or PolicyFailedError, as a decider does.

        `charge` gets the CPU time (s), also of an answer that comes after the deadline.
        """
        node = observation.node
        if not self.ready.is_set():
            message = f"the process of policy '{self.policy}' is starting"
            raise ApiError(503, "not_ready", message, headers=RETRY | CLOSE)  # another worker may be ready
        if node in self._nodes:
            message = f"policy '{self.policy}' still decides an observation of node '{node}'"
            raise ApiError(429, "rate_limited", message, field="node", headers=RETRY)
        deadline_s = min(self.deadline_s, longest_s)
        job = _Job(msgspec.json.encode(observation) + b"\n", asyncio.get_running_loop().create_future(), charge)
        self._nodes.add(node)
        try:
            self._jobs.put_nowait(job)
            async with asyncio.timeout(deadline_s):
                reply = await job.answer
        except asyncio.QueueFull:
            message = f"{MAX_WAITING} observations already wait for policy '{self.policy}'"
            raise ApiError(503, "overloaded", message, headers=RETRY) from None
        except TimeoutError:
            message = f"policy '{self.policy}' did not decide within {deadline_s:g} s"
            hint = "keep the present allocation; fewer nodes with this policy, or a longer --slow-policy-timeout-s"
            raise ApiError(503, "policy_late", message, hint=hint, headers=RETRY) from None
        finally:
            self._nodes.discard(node)
        if reply.decision is not None and reply.detail:
            self._decider.discarded(self.policy, reply.detail)
        return _decision_of(reply)

    async def _run(self) -> None:
        """Keep a process running until cancelled, or until the policy cannot start."""
        while True:
            try:
                process = await self._begin()
            except OSError as error:
                self._log.event("error", "slow_policy", f"the process of policy '{self.policy}' cannot start: {error}")
                await asyncio.sleep(RESTART_S)
                continue
            try:
                if not await self._say_whether_it_decides(process):
                    return
                await self._feed_until_it_ends(process)
            except _GoneError as error:
                self._log.event("error", "slow_policy", f"the process of policy '{self.policy}' {error}; it restarts")
            finally:
                self.ready.clear()
                self._answer_those_who_wait()
                await _end(process)
            await asyncio.sleep(RESTART_S)

    def _answer_those_who_wait(self) -> None:
        """Nobody waits for the next process: an agent asks again sooner than that one starts."""
        while not self._jobs.empty():
            answer = self._jobs.get_nowait().answer
            if not answer.done():
                answer.set_result(Reply(0.0, failed=ENDED))

    async def _begin(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "osml_serving.slow.worker", self.policy, str(self._decider.seed)),
            env=environment_without_secrets() | ONE_THREAD,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE,
        )

    async def _say_whether_it_decides(self, process: asyncio.subprocess.Process) -> bool:
        try:
            started = msgspec.json.decode(await _line_of(process, START_S), type=Started)
        except msgspec.MsgspecError as error:
            raise _GoneError(f"said something else than that it started ({error})") from None
        if started.fault is None:
            self.ready.set()
            self.settled.set()
            self._log.event("info", "slow_policy", f"policy '{self.policy}' decides, its process has started")
            return True
        self._log.fault("warm_up", f"policy '{self.policy}' failed in the warm-up: {started.fault}", started.detail)
        self._decider.withdraw(self.policy, started.fault)
        self.settled.set()
        return False

    async def _feed_until_it_ends(self, process: asyncio.subprocess.Process) -> None:
        """Raises _GoneError, also when the process ends between two observations."""
        feeding = asyncio.create_task(self._feed(process))
        ended = asyncio.create_task(process.wait())
        try:
            await asyncio.wait((feeding, ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            feeding.cancel()
            ended.cancel()
            await asyncio.wait((feeding, ended))
        fault = None if feeding.cancelled() else feeding.exception()
        if isinstance(fault, _GoneError):
            raise fault
        raise _GoneError("ended" if fault is None else f"failed ({fault!r})")

    async def _feed(self, process: asyncio.subprocess.Process) -> None:
        while True:
            job = await self._jobs.get()
            if job.answer.done():  # its deadline has passed
                continue
            try:
                reply = await _ask(process, job.line, max(STUCK_S, 2 * self.deadline_s))
            except (_GoneError, asyncio.CancelledError):
                if not job.answer.done():
                    job.answer.set_result(Reply(0.0, failed=ENDED))
                raise
            job.charge(reply.cpu_s)
            if not job.answer.done():
                job.answer.set_result(reply)


async def _ask(process: asyncio.subprocess.Process, line: bytes, within_s: float) -> Reply:
    assert process.stdin is not None  # noqa: S101 - a pipe was asked for
    try:
        process.stdin.write(line)
        return msgspec.json.decode(await _line_of(process, within_s), type=Reply)
    except (OSError, RuntimeError, msgspec.MsgspecError) as error:  # RuntimeError: a closed pipe of uvloop
        raise _GoneError(f"took no observation: {error}") from None


async def _line_of(process: asyncio.subprocess.Process, within_s: float) -> bytes:
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    try:
        async with asyncio.timeout(within_s):
            line = await process.stdout.readline()
    except TimeoutError:
        raise _GoneError(f"did not answer within {within_s:g} s") from None
    except ValueError:
        raise _GoneError(f"answered with more than {LINE} bytes") from None
    if not line.endswith(b"\n"):
        raise _GoneError("ended")
    return line


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()


def _decision_of(reply: Reply) -> Decision:
    if reply.decision is not None:
        return reply.decision
    if reply.refused is not None:
        raise ApiError(reply.status, reply.refused.code, reply.refused.message, field=reply.refused.field)
    raise PolicyFailedError(reply.failed or "its process gave no decision", reply.detail)
