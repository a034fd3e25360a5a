"""Limits on request bodies: length, time to arrive, and number of requests in progress.

uvicorn has no such limits: it buffers a body of any length, and waits for its rest without a timeout.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from osml_serving.errors import ApiError, ClientGoneError
from osml_serving.guards.access import GRANT
from osml_serving.guards.grants import ADMIN, Grant, right_of
from osml_serving.headers import header_of
from osml_serving.metrics import Metrics

BODY_METHODS = ("POST", "PUT", "PATCH")
STREAMED = frozenset({"/v1/datasets"})  # routes that read their bodies themselves, in pieces
CLOSE = {"connection": "close"}  # otherwise the rest of a refused body would be read as the next request


class RequestLimits:
    """ASGI layer for requests with a body: at most `limit` bytes, `timeout_s` seconds and `slots` requests at once.

    A token gets a share of the requests in progress, so slow bodies of one token block no other token.
    """

    def __init__(self, app: ASGIApp, limit: int, timeout_s: float, slots: int, metrics: Metrics) -> None:
        self.app = app
        self.limit = limit
        self.timeout_s = timeout_s
        self.slots = slots
        self.metrics = metrics
        self.in_flight = 0
        self.share = max(4, slots // 8)
        self.fleet_share = max(self.share, slots * 3 // 4)
        self._held: Counter[Grant] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Give the application a complete body; refuse a body that is too long or too slow, or one request too many."""
        if scope["type"] != "http" or scope["method"] not in BODY_METHODS or scope["path"] in STREAMED:
            await self.app(scope, receive, send)
            return
        if right_of(scope["method"], scope["path"]) is None:  # no route there takes a body, so it needs no slot
            await self.app(scope, receive, send)
            return
        holder: Grant = scope.get(GRANT, ADMIN)
        self._admit(holder)
        self.in_flight += 1
        self._held[holder] += 1
        self.metrics.in_flight.set(self.in_flight)
        try:
            body = await self._read(scope, receive)
            await self.app(scope, _replay(body, receive), send)
        finally:
            self.in_flight -= 1
            self._held[holder] -= 1
            if self._held[holder] == 0:
                del self._held[holder]
            self.metrics.in_flight.set(self.in_flight)

    def _admit(self, holder: Grant) -> None:
        """Raise ApiError where all slots are in use, or the token has its share already."""
        share = self.fleet_share if holder.fleet else self.share
        if holder.limited and self._held[holder] >= share:
            message = f"this token already has {share} requests in progress, which is its limit"
            raise ApiError(429, "rate_limited", message, headers={"retry-after": "1", **CLOSE})
        if self.in_flight >= self.slots:
            message = f"the server already has {self.in_flight} requests in progress; its limit is {self.slots}"
            raise ApiError(503, "overloaded", message, headers={"retry-after": "1", **CLOSE})

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        declared = header_of(scope, b"content-length")
        if declared is not None and (not declared.isdigit() or int(declared[:20]) > self.limit):
            raise self._too_large(declared.decode("latin-1")[:20])
        try:
            async with asyncio.timeout(self.timeout_s):
                body = await self._collect(receive)
        except TimeoutError:
            message = f"the body did not arrive within {self.timeout_s:g} s"
            raise ApiError(408, "timeout", message, headers=CLOSE) from None
        self.metrics.request_bytes.observe(len(body))
        return body

    async def _collect(self, receive: Receive) -> bytes:
        chunks: list[bytes] = []
        length = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            chunk: bytes = message.get("body", b"")
            length += len(chunk)
            if length > self.limit:
                raise self._too_large(f"more than {self.limit}")
            chunks.append(chunk)
            if not message.get("more_body", False):
                return b"".join(chunks)

    def _too_large(self, length: str) -> ApiError:
        message = f"the body has {length} bytes, expected at most {self.limit}"
        hint = "--max-body-kib raises the limit"
        return ApiError(413, "too_large", message, hint=hint, headers=CLOSE)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the whole body first, then what the connection says (its end)."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
