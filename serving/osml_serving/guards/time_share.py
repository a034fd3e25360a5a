"""Limits the CPU time of a token for single nodes, so that one faulty agent does not block the others.

A rate of requests is not enough: one observation of a huge machine takes as long as a hundred others.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from starlette.types import Scope

from osml_serving.errors import ApiError
from osml_serving.guards.access import GRANT, is_for_all_nodes

SHARE = 0.25  # of one core's time, in the long run
NODE_SHARE = 0.002  # for each node of a token that many share: twice what four services take at an interval a second
LARGEST_SHARE = 0.75
BURST_S = 2.0  # that may be taken at once
MAX_HOLDERS = 4096


def share_of(nodes: frozenset[str]) -> float:
    """What a token for these nodes may take of one core: a fleet that shares one asks as often as it is large."""
    return max(SHARE, min(LARGEST_SHARE, NODE_SHARE * len(nodes)))


class TimeShare:
    """A bucket of seconds for each token (its set of nodes), refilled at `share_of` seconds a second.

    It counts CPU time of the thread, `cpu`: a server that waits for its core charges nobody for that.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, cpu: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock = clock
        self._cpu = cpu
        self._left: dict[frozenset[str], tuple[float, float]] = {}  # holder -> (seconds left, when that was)

    @contextmanager
    def of(self, scope: Scope) -> Generator[None]:
        """Charge the CPU time of the block, which must not wait. Raises ApiError 429 where the share is used up."""
        if is_for_all_nodes(scope):
            yield
            return
        self.check(scope)
        began_s = self._cpu()
        try:
            yield
        finally:
            self.spend(scope, self._cpu() - began_s)

    def check(self, scope: Scope) -> None:
        """Raise ApiError 429 where the request's token has used up its share."""
        if is_for_all_nodes(scope):
            return
        holder: frozenset[str] = scope[GRANT]
        left_s = self._left_s(holder)
        if left_s <= 0:
            share = share_of(holder)
            message = f"this token used its share of the server's CPU time ({share:.0%})"
            wait_s = math.floor(-left_s / share) + 1
            raise ApiError(429, "rate_limited", message, headers={"retry-after": str(wait_s)})

    def spend(self, scope: Scope, seconds: float) -> None:
        """Charge the request's token; it may run into debt."""
        if is_for_all_nodes(scope):
            return
        holder: frozenset[str] = scope[GRANT]
        left_s = self._left_s(holder) - seconds
        if holder not in self._left and len(self._left) >= MAX_HOLDERS:
            self._left.clear()  # forgetting only ever gives more
        self._left[holder] = left_s, self._clock()

    def _left_s(self, holder: frozenset[str]) -> float:
        now_s = self._clock()
        left_s, then_s = self._left.get(holder, (BURST_S, now_s))
        return min(BURST_S, left_s + (now_s - then_s) * share_of(holder))
