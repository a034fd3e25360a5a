"""Asks the twins in a process of its own, one question at a time. Answers and failures hold for a while."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import msgspec

from osml.decide.outlook import BlameNow
from osml.domain import Observation
from osml_serving.blame.answer import Answer
from osml_serving.blame.recent import Recent
from osml_serving.child_process import ONE_THREAD, environment_without_secrets
from osml_serving.errors import ApiError
from osml_serving.log import Log

WITHIN_S = 120.0
HOLDS_S = 30.0
EMPTY_HOLDS_S = 3.0
"""For an answer that names no service, and for a 404: these may say to ask again."""

MOST_HELD = 256
MOST_WAITING = 8
LOOK_S = 10.0
RETRY = {"retry-after": "10"}


class Blamer:
    """Keeps what the twins need, and asks them. Without a folder of twins it keeps nothing.

    Each client has one question at a time, so that none keeps the others waiting.
    """

    def __init__(self, folder: Path | None, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._log = log
        self._clock = clock
        self._recent = Recent(clock)
        self._twins: set[str] = set()
        self._looked_s = -LOOK_S
        self._held: OrderedDict[str, tuple[float, BlameNow | ApiError]] = OrderedDict()
        self._one = asyncio.Lock()
        self._asking: set[object] = set()

    @property
    def there(self) -> bool:
        """Whether anybody can be asked."""
        return self._folder is not None

    def see(self, observation: Observation) -> None:
        """Keep an observation of a node with a twin for a later question."""
        if self._folder is not None and observation.node in self._known(self._folder):
            self._recent.keep(observation)

    async def ask(self, node: str, who: object) -> BlameNow:
        """Who slows the services of a node; `who` asks. Raises ApiError where its twin cannot say, or is busy."""
        if self._folder is None:
            hint = "start the server with --twins FOLDER"
            raise ApiError(404, "not_found", "this server has no twins of nodes", hint=hint)
        if node not in self._known(self._folder):
            hint = f"make {node}.json with `osml look twin fit`; the server looks every {LOOK_S:g} s"
            raise ApiError(404, "not_found", f"there is no twin of node '{node}'", field="node", hint=hint)
        found = self._answer_held(node)
        if found is None:
            found = await self._in_turn(node, who, self._folder)
        if isinstance(found, ApiError):
            raise found
        return found

    async def _in_turn(self, node: str, who: object, folder: Path) -> BlameNow | ApiError:
        """The answer to a question that waits for the others."""
        if who in self._asking or len(self._asking) >= MOST_WAITING:
            whose = "your last question is still open" if who in self._asking else "other questions are open"
            raise ApiError(503, "overloaded", whose, headers=RETRY)
        self._asking.add(who)
        try:
            async with self._one:
                found = self._answer_held(node)
                if found is None:
                    found = await self._asked(node, folder)
                    self._hold(node, found)
                return found
        finally:
            self._asking.discard(who)

    def _known(self, folder: Path) -> set[str]:
        """The nodes that have a twin; the folder is read again after LOOK_S."""
        now_s = self._clock()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            try:
                self._twins = {file.stem for file in folder.glob("*.json")}
            except OSError as error:
                self._log.event("error", "blame", f"the folder of twins cannot be read: {error}")
        return self._twins

    def _answer_held(self, node: str) -> BlameNow | ApiError | None:
        until_s, found = self._held.get(node, (0.0, None))
        return found if self._clock() < until_s else None

    def _hold(self, node: str, found: BlameNow | ApiError) -> None:
        self._held.pop(node, None)
        told = bool(found.services) if isinstance(found, BlameNow) else found.status != 404
        self._held[node] = self._clock() + (HOLDS_S if told else EMPTY_HOLDS_S), found
        if len(self._held) > MOST_HELD:
            self._held.popitem(last=False)

    async def _asked(self, node: str, folder: Path) -> BlameNow | ApiError:
        lines = self._recent.lines(node)
        if not lines:
            return ApiError(404, "not_found", f"no interval of node '{node}' is kept for its twin", field="node")
        if (silent_s := self._recent.silent_s(node)) is not None:
            return ApiError(404, "not_found", f"node '{node}' sent nothing for {silent_s:.0f} s", field="node")
        try:
            answer = await _run(folder, b"".join(line + b"\n" for line in lines))
        except TimeoutError:
            return ApiError(503, "overloaded", f"the twin took longer than {WITHIN_S:g} s", headers=RETRY)
        except (OSError, msgspec.MsgspecError) as error:
            self._log.event("error", "blame", f"the process of the twin of node '{node}' failed: {error}")
            return ApiError(500, "internal", "the process of the twin failed; see the server's log")
        if answer.blame is None:
            return ApiError(404, "not_found", answer.fault or "the twin gave no answer", field="node")
        return answer.blame


async def _run(folder: Path, lines: bytes) -> Answer:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "osml_serving.blame.worker", str(folder)),
        env=environment_without_secrets() | ONE_THREAD,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(WITHIN_S):
            said, _ = await process.communicate(lines)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    return msgspec.json.decode(said, type=Answer)
