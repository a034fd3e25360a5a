"""The rate limit of each node, so that one faulty node does not block the others."""

from __future__ import annotations

MAX_NODES = 20_000  # more than a server is for; a flood of invented names must not fill the memory
BURST_S = 2.0


class NodeRate:
    """A token bucket per node: `per_s` requests a second, two seconds' worth at once."""

    def __init__(self, per_s: float) -> None:
        self.per_s = per_s
        self._buckets: dict[str, tuple[float, float]] = {}  # node -> (tokens left, time they were counted, s)

    def take(self, node: str, now_s: float) -> bool:
        """True where the node may be served at this (monotonic) time."""
        full = max(1.0, self.per_s * BURST_S)
        tokens, then = self._buckets.get(node, (full, now_s))
        tokens = min(full, tokens + (now_s - then) * self.per_s)
        allowed = tokens >= 1.0
        if node not in self._buckets and len(self._buckets) >= MAX_NODES:
            self._buckets.clear()  # forgetting only ever gives a node more
        self._buckets[node] = (tokens - 1.0 if allowed else tokens, now_s)
        return allowed
