"""Limits the CPU time of a token, so that one faulty agent does not block the others.

A rate of requests is not enough: one observation of a huge machine takes as long as a hundred others.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from starlette.types import Scope

from osml_serving.errors import ApiError
from osml_serving.guards.access import grant_of
from osml_serving.guards.grants import Grant

SHARE = 0.25  # of one core's time, in the long run
NODE_SHARE = 0.002  # for each node of a token that many share: twice what four services take at an interval a second
LARGEST_SHARE = 0.75
BURST_S = 2.0  # that may be taken at once
MAX_HOLDERS = 4096


def share_of(grant: Grant) -> float:
    """What a token may take of one core: a fleet that shares one asks as often as it is large."""
    if grant.fleet:
        return LARGEST_SHARE
    return max(SHARE, min(LARGEST_SHARE, NODE_SHARE * len(grant.nodes)))


class TimeShare:
    """A bucket of seconds for each grant, refilled at `share_of` seconds a second.

    It counts CPU time of the thread, `cpu`: a server that waits for its core charges nobody for that.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, cpu: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock = clock
        self._cpu = cpu
        self._left: dict[Grant, tuple[float, float]] = {}  # holder -> (seconds left, when that was)

    @contextmanager
    def of(self, scope: Scope) -> Generator[None]:
        """Charge the CPU time of the block, which must not wait. Raises ApiError 429 where the share is used up."""
        self.check(scope)
        with self.charged(scope):
            yield

    @contextmanager
    def charged(self, scope: Scope) -> Generator[None]:
        """As `of` for a request that was let in before: only charge it."""
        if not grant_of(scope).limited:
            yield
            return
        began_s = self._cpu()
        try:
            yield
        finally:
            self.spend(scope, self._cpu() - began_s)

    def check(self, scope: Scope) -> None:
        """Raise ApiError 429 where the request's token has used up its share."""
        if not grant_of(scope).limited:
            return
        holder = grant_of(scope)
        left_s = self._left_s(holder)
        if left_s <= 0:
            share = share_of(holder)
            message = f"this token used its share of the server's CPU time ({share:.0%})"
            wait_s = math.floor(-left_s / share) + 1
            raise ApiError(429, "rate_limited", message, headers={"retry-after": str(wait_s)})

    def spend(self, scope: Scope, seconds: float) -> None:
        """Charge the request's token; it may run into debt."""
        if not grant_of(scope).limited:
            return
        holder = grant_of(scope)
        left_s = self._left_s(holder) - seconds
        if holder not in self._left and len(self._left) >= MAX_HOLDERS:
            self._left.clear()  # forgetting only ever gives more
        self._left[holder] = left_s, self._clock()

    def _left_s(self, holder: Grant) -> float:
        now_s = self._clock()
        left_s, then_s = self._left.get(holder, (BURST_S, now_s))
        return min(BURST_S, left_s + (now_s - then_s) * share_of(holder))
