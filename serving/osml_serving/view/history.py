"""The last minutes of every node, in memory: no decision reads it, a restart may lose it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator

from osml_serving.metrics import LONGEST_INTERVAL_S, NodeFigures
from osml_serving.view.day import BIN_S, BINS, Day
from osml_serving.view.happenings import Event, Seen, silent_after_s
from osml_serving.view.interval import NodeSummary

MAX_NODES = 10_000
MAX_INTERVALS = 600
MAX_BYTES = 512 * 1024  # of one node
BUDGET = 128 * 2**20  # bytes of all nodes, whatever is posted
MAX_EVENTS = 1000
FORGET_S = 900.0  # a node silent for this long makes room for a new one
DAY_S = float(BINS * BIN_S)  # a node silent for this long is forgotten when a new one comes: its day is empty


class NodeHistory:
    """Intervals of one node as encoded JSON (bytes cost a tenth of the structs, and the page wants bytes)."""

    def __init__(self) -> None:
        self.intervals: deque[bytes] = deque()
        self.now = b"null"
        self.bytes = len(self.now)
        self.summary: NodeSummary | None = None
        self.seen_s = 0.0  # monotonic: a clock that jumps must not make room, nor keep it
        self.missed_s = 0.0
        self.day: Day | None = None

    def append(
        self, interval: bytes, now: bytes, summary: NodeSummary, limit: int = MAX_BYTES, seconds: float = 0.0
    ) -> None:
        """Add the newest interval, which stands for so many seconds.

        The oldest are removed beyond MAX_INTERVALS or `limit` bytes.
        """
        self.intervals.append(interval)
        self.bytes += len(interval) + len(now) - len(self.now)
        self.now = now
        self.summary = summary
        if summary.violations:
            self.missed_s += seconds
        self.trim(limit)

    def trim(self, limit: int) -> None:
        """Remove the oldest intervals beyond `limit` bytes; where not even the newest fits, only the summary stays."""
        while self.intervals and (len(self.intervals) > MAX_INTERVALS or self.bytes > limit):
            self.bytes -= len(self.intervals.popleft())
        if not self.intervals:
            self.now, self.bytes = b"null", len(b"null")

    def document(self, node: str, count: int) -> bytes:
        """`{"node", "now", "points"}`, the newest intervals last. The node's name needs no escaping (domain.Name)."""
        newest = list(self.intervals)[-count:]
        return b'{"node":"%s","now":%s,"points":[%s]}' % (node.encode(), self.now, b",".join(newest))


class History:
    """Ring buffers by node, at most `max_nodes` of them. The more nodes, the fewer intervals each keeps."""

    def __init__(
        self, max_nodes: int = MAX_NODES, clock: Callable[[], float] = time.monotonic, budget: int = BUDGET
    ) -> None:
        self._nodes: dict[str, NodeHistory] = {}  # the node that has been silent for longest is the first
        self._max_nodes = max_nodes
        self._clock = clock
        self._budget = budget
        self._limit = MAX_BYTES
        self.events: deque[Event] = deque(maxlen=MAX_EVENTS)  # of all nodes, newest last

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, node: str) -> NodeHistory | None:
        """History of a node, None where it has not reported."""
        return self._nodes.get(node)

    def age_s(self, node: str) -> float | None:
        """How long ago a node was answered; None where it has not reported."""
        known = self._nodes.get(node)
        return None if known is None else self._clock() - known.seen_s

    def summaries(self, names: Collection[str] | None = None) -> Iterator[NodeSummary]:
        """A line a node, in alphabetical order; only those in `names` where some are named."""
        for name in sorted(self._nodes if names is None else self._nodes.keys() & names):
            line = self._nodes[name].summary
            if line is not None:
                yield line

    def figures(self) -> Iterator[NodeFigures]:
        """The figures of the nodes that are not silent: one that is has moved to another replica, or is gone."""
        now_s = self._clock()
        for name, node in self._nodes.items():
            line = node.summary
            if line is None:
                continue
            if now_s - node.seen_s > silent_after_s(line.interval_s):
                continue
            yield NodeFigures(name, line.e_s, line.violations, node.missed_s)

    def counted_s(self, node: str, interval_s: float) -> float:
        """The time that a node's newest interval stands for, before it is added.

        It is at most the time since this server saw the node: one observation must not stand for a day.
        """
        known = self._nodes.get(node)
        since_s = 0.0 if known is None else self._clock() - known.seen_s
        return min(interval_s, max(since_s, LONGEST_INTERVAL_S))

    def append(self, interval: bytes, now: bytes, summary: NodeSummary, seen: Seen | None = None) -> bool:
        """Add an interval to its node. False where the limit of nodes is reached and all of them are active.

        `seen` goes into its day, and makes its events.
        """
        seconds = self.counted_s(summary.node, summary.interval_s)
        node = self._nodes.pop(summary.node, None)
        now_s = self._clock()
        if node is None:
            self._forget_gone(now_s)
            if len(self._nodes) >= self._max_nodes and not self._make_room(now_s):
                return False
            node = NodeHistory()
            self._share(len(self._nodes) + 1)
        self._nodes[summary.node] = node
        node.append(interval, now, summary, self._limit, seconds)
        node.seen_s = now_s
        if seen is not None:
            if node.day is None:
                node.day = Day(summary.node)
            self.events.extend(node.day.add(seen, summary.e_s))
        return True

    def _share(self, n_nodes: int) -> None:
        """Let `n_nodes` fit into the budget; a fifth is for those that come next, so that this is done seldom."""
        if n_nodes * self._limit > self._budget:
            self._limit = int(self._budget / (1.25 * n_nodes))
            for node in self._nodes.values():
                node.trim(self._limit)

    def _forget_gone(self, now_s: float) -> None:
        """Drop the nodes of which nothing is left to show: the others may then keep more again."""
        while self._nodes:
            name, oldest = next(iter(self._nodes.items()))
            if now_s - oldest.seen_s < DAY_S:
                return
            del self._nodes[name]
            self._limit = MAX_BYTES  # `_share` lowers it for those that are left

    def _make_room(self, now_s: float) -> bool:
        name, oldest = next(iter(self._nodes.items()))
        if now_s - oldest.seen_s < FORGET_S:
            return False
        del self._nodes[name]
        return True
