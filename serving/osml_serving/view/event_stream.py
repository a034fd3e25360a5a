"""Server-sent events over ASGI: heartbeats, the end of the reader, the end of the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from osml_serving.view.broker import Broker, Viewer

HEARTBEAT_S = 5.0
SEND_TIMEOUT_S = 10.0
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would hold events back
    (b"x-content-type-options", b"nosniff"),
]


def frame(event: str, data: bytes) -> bytes:
    """One event. `data` is one line of JSON."""
    return b"event: %s\ndata: %s\n\n" % (event.encode(), data)


class EventStream(Response):
    """An ASGI answer that lasts until the reader leaves, falls behind, `is_over`, or the server stops."""

    def __init__(
        self,
        broker: Broker,
        viewer: Viewer,
        hello: bytes,
        heartbeat_s: float = HEARTBEAT_S,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__()
        self._broker = broker
        self._viewer = viewer
        self._hello = hello
        self._heartbeat_s = heartbeat_s
        self._is_over = is_over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the end."""
        del scope
        gone = asyncio.create_task(self._wait_for_disconnect(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await self._send(send, frame("hello", self._hello))
            while True:
                message = await self._next()
                if message is None or self._is_over():
                    break
                await self._send(send, message)
            await self._send(send, frame("end", b"{}"), more=False)
        except TimeoutError:
            return  # nothing was read for long: uvicorn closes the connection when we return
        finally:
            gone.cancel()
            self._broker.unsubscribe(self._viewer)

    async def _next(self) -> bytes | None:
        try:
            async with asyncio.timeout(self._heartbeat_s):
                return await self._viewer.queue.get()
        except TimeoutError:
            return frame("heartbeat", b"{}")

    async def _send(self, send: Send, body: bytes, *, more: bool = True) -> None:
        async with asyncio.timeout(SEND_TIMEOUT_S):
            await send({"type": "http.response.body", "body": body, "more_body": more})

    async def _wait_for_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._viewer.end()
