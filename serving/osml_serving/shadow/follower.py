"""The server's end of the shadow policies: a short queue to their process, and the answers out of it.

No agent waits for it. What comes while the queue is full is left out, and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from osml.domain import Observation
from osml_serving.child_process import ONE_THREAD, environment_without_secrets
from osml_serving.log import Log
from osml_serving.shadow.messages import Shadowed, Task

QUEUE = 256  # intervals
LINE = 2**20  # bytes of an answer
RESTART_S = 2.0
LONGEST_REST_S = 60.0
_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Shadowed)


class Follower:
    """Feeds the process. `heard` gets each answer, `lost` each interval that was left out."""

    def __init__(
        self,
        arguments: tuple[int, Path | None, Path | None],
        heard: Callable[[Shadowed], None],
        lost: Callable[[], None],
        log: Log,
    ) -> None:
        seed, models, twins = arguments
        self._arguments = (str(seed), str(models or ""), str(twins or ""))
        self._heard = heard
        self._lost = lost
        self._log = log
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(QUEUE)
        self._task: asyncio.Task[None] | None = None

    def look(self, policies: list[str], observation: Observation, answer: bytes) -> None:
        """Let shadow policies decide on an observation, which was answered. Starts their process when first called."""
        if self._queue.full():
            self._lost()
            return
        seen = _encode(observation)
        head = _encode(Task(policies, len(seen), len(answer)))
        self._queue.put_nowait(b"%s\n%s%s" % (head, seen, answer))
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End the process."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        rest_s = RESTART_S
        while True:
            try:
                answered = await self._follow()
            except OSError as error:
                self._log.event("error", "shadow", f"the process of the shadow policies cannot start: {error}")
                answered = False
            else:
                self._log.event("error", "shadow", "the process of the shadow policies ended; it restarts")
            rest_s = RESTART_S if answered else min(2 * rest_s, LONGEST_REST_S)
            await asyncio.sleep(rest_s)

    async def _follow(self) -> bool:
        """One life of the process; True where it answered something."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "osml_serving.shadow.worker", *self._arguments),
            env=environment_without_secrets() | ONE_THREAD,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE,
        )
        assert process.stdin is not None and process.stdout is not None  # noqa: S101 - pipes were asked for
        feeding = asyncio.create_task(self._feed(process.stdin))
        answered = False
        try:
            while line := await process.stdout.readline():
                self._heard(_decoder.decode(line))
                answered = True
        except (ValueError, msgspec.MsgspecError) as error:
            self._log.event("error", "shadow", f"the process of the shadow policies answered something else: {error}")
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        return answered

    async def _feed(self, stdin: asyncio.StreamWriter) -> None:
        while True:
            task = await self._queue.get()
            stdin.write(task)
            await stdin.drain()
