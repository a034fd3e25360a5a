"""The last minutes of every node, in memory, for the page only: no decision reads it, a restart may lose it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from osml_serving.view.interval import NodeSummary

MAX_NODES = 256
MAX_INTERVALS = 600
MAX_BYTES = 512 * 1024  # a node; so all of it stays below 128 MiB whatever is posted
FORGET_S = 900.0  # a node silent for this long makes room for a new one


class NodeHistory:
    """Intervals of one node as encoded JSON (bytes cost a tenth of the structs, and the page wants bytes)."""

    def __init__(self) -> None:
        self.intervals: deque[bytes] = deque()
        self.bytes = 0
        self.now = b"null"
        self.summary: NodeSummary | None = None
        self.seen_s = 0.0  # monotonic: a clock that jumps must not make room, nor keep it

    def append(self, interval: bytes, now: bytes, summary: NodeSummary) -> None:
        """Add the newest interval; the oldest are removed beyond MAX_INTERVALS or MAX_BYTES."""
        self.intervals.append(interval)
        self.bytes += len(interval)
        while len(self.intervals) > 1 and (len(self.intervals) > MAX_INTERVALS or self.bytes > MAX_BYTES):
            self.bytes -= len(self.intervals.popleft())
        self.now = now
        self.summary = summary

    def document(self, node: str, count: int) -> bytes:
        """`{"node", "now", "points"}`, the newest intervals last. The node's name needs no escaping (domain.Name)."""
        newest = list(self.intervals)[-count:]
        return b'{"node":"%s","now":%s,"points":[%s]}' % (node.encode(), self.now, b",".join(newest))


class History:
    """Ring buffers by node, at most `max_nodes` of them."""

    def __init__(self, max_nodes: int = MAX_NODES, clock: Callable[[], float] = time.monotonic) -> None:
        self._nodes: dict[str, NodeHistory] = {}
        self._max_nodes = max_nodes
        self._clock = clock

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, node: str) -> NodeHistory | None:
        """History of a node, None where it has not reported."""
        return self._nodes.get(node)

    def summaries(self) -> Iterator[NodeSummary]:
        """A line a node, in alphabetical order."""
        for _, node in sorted(self._nodes.items()):
            if node.summary is not None:
                yield node.summary

    def figures(self) -> Iterable[tuple[str, float | None, int]]:
        """(node, E_S, violations) for the metrics."""
        return [(line.node, line.e_s, line.violations) for line in self.summaries()]

    def append(self, interval: bytes, now: bytes, summary: NodeSummary) -> bool:
        """Add an interval to its node. False where the limit of nodes is reached and all of them are active."""
        node = self._nodes.get(summary.node)
        now_s = self._clock()
        if node is None:
            if len(self._nodes) >= self._max_nodes and not self._make_room(now_s):
                return False
            node = self._nodes[summary.node] = NodeHistory()
        node.append(interval, now, summary)
        node.seen_s = now_s
        return True

    def _make_room(self, now_s: float) -> bool:
        name, oldest = min(self._nodes.items(), key=lambda item: item[1].seen_s)
        if now_s - oldest.seen_s < FORGET_S:
            return False
        del self._nodes[name]
        return True
