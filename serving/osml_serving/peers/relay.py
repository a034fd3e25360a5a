"""Passes an answer of another server on, piece by piece."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import httpx
from starlette.types import Receive, Send

SILENT_S = 150.0  # a blame takes up to two minutes; event streams have a heartbeat
PASSED_ON = ("content-type", "cache-control", "x-accel-buffering", "x-content-type-options", "retry-after")


async def relay(
    client: httpx.AsyncClient, request: httpx.Request, receive: Receive, send: Send, moved: asyncio.Task[None] | None
) -> bool:
    """Send the answer to a request until its end, until the reader is gone, or until `moved` returns.

    False where the server did not answer: then nothing was sent.
    """
    timeout = {**client.timeout.as_dict(), "read": SILENT_S}
    request.extensions = {**request.extensions, "timeout": timeout}
    try:
        answer = await client.send(request, stream=True)
    except (httpx.HTTPError, OSError):
        return False
    try:
        headers = [(n.encode(), v.encode("latin-1")) for n, v in answer.headers.items() if n in PASSED_ON]
        await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
        work = asyncio.create_task(_pieces(answer, send))
        gone = asyncio.create_task(_disconnected(receive))
        try:
            await until_gone(work, gone, *([] if moved is None else [moved]))
        finally:
            gone.cancel()
        if not gone.done():
            await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        await answer.aclose()
    return True


async def until_gone(work: asyncio.Future[Any], *others: asyncio.Task[None]) -> None:
    """Wait until `work` or one of the others ends; `work` ends then, too. Raises what `work` raises."""
    try:
        await asyncio.wait([work, *others], return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not work.done():
            work.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await work


async def _pieces(answer: httpx.Response, send: Send) -> None:
    """A server that dies in the middle ends the answer: event streams reconnect, others see it cut."""
    with contextlib.suppress(httpx.HTTPError, OSError):
        async for piece in answer.aiter_raw():
            await send({"type": "http.response.body", "body": piece, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
