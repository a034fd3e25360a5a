"""The last observations of the nodes that have a twin, as they came. In memory; a restart loses them."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from osml.domain import Observation
from osml_serving.view.happenings import silent_after_s

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
        self._heard: dict[str, tuple[float, float]] = {}  # when, and for how long a node may then be silent (s)
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
        self._heard[node] = now_s, silent_after_s(observation.interval_s)
        lines.append(line)
        self._bytes += len(line)
        while len(lines) > INTERVALS or (self._bytes > MOST_BYTES and len(lines) > 1):
            self._bytes -= len(lines.popleft())

    def lines(self, node: str) -> list[bytes]:
        """The observations of a node, the newest at the end."""
        return list(self._nodes.get(node, ()))

    def silent_s(self, node: str) -> float | None:
        """How long a node has sent nothing, where it counts as silent: what is kept of it is then not of now."""
        heard_s, patience_s = self._heard.get(node, (0.0, math.inf))
        passed_s = self._clock() - heard_s
        return passed_s if passed_s > patience_s else None

    def _has_room(self, now_s: float) -> bool:
        if len(self._nodes) < MOST_NODES and self._bytes < MOST_BYTES:
            return True
        silent = [node for node, (heard_s, _) in self._heard.items() if now_s - heard_s > SILENT_S]
        for node in silent:
            self._forget(node)
        return bool(silent)

    def _forget(self, node: str) -> None:
        self._bytes -= sum(map(len, self._nodes.pop(node, ())))
        self._heard.pop(node, None)
