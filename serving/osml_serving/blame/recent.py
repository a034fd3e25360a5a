"""The last observations of the nodes that have a twin, as they came. In memory; a restart loses them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from osml.domain import Observation

INTERVALS = 40
MOST_NODES = 256
MOST_BYTES = 64 * 2**20
LONGEST_LINE = 64 * 2**10
SILENT_S = 600.0

_encode = msgspec.json.Encoder().encode


class Recent:
    """Lines of JSON by node. Who is there stays; a node comes in where another one has been silent for SILENT_S."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._nodes: dict[str, deque[bytes]] = {}
        self._heard: dict[str, float] = {}
        self._bytes = 0
        self._clock = clock

    def keep(self, observation: Observation) -> None:
        """Add an observation, without the policy's state. One of an agent that started anew begins anew."""
        node, now_s = observation.node, self._clock()
        if node not in self._nodes and not self._has_room(now_s):
            return
        line = _encode(replace(observation, policy_state=None))
        if len(line) > LONGEST_LINE:
            return
        if observation.seq <= 1:
            self._forget(node)
        lines = self._nodes.setdefault(node, deque())
        self._heard[node] = now_s
        lines.append(line)
        self._bytes += len(line)
        while len(lines) > INTERVALS or (self._bytes > MOST_BYTES and len(lines) > 1):
            self._bytes -= len(lines.popleft())

    def lines(self, node: str) -> list[bytes]:
        """The observations of a node, the newest at the end."""
        return list(self._nodes.get(node, ()))

    def _has_room(self, now_s: float) -> bool:
        if len(self._nodes) < MOST_NODES and self._bytes < MOST_BYTES:
            return True
        silent = [node for node, heard in self._heard.items() if now_s - heard > SILENT_S]
        for node in silent:
            self._forget(node)
        return bool(silent)

    def _forget(self, node: str) -> None:
        self._bytes -= sum(map(len, self._nodes.pop(node, ())))
        self._heard.pop(node, None)
