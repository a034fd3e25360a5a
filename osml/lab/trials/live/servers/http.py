"""As much of HTTP/1.1 as a GET over a kept connection needs, on one thread: requests are answered one after another."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

LONGEST = 8192
Handler = Callable[[int], dict[str, Any] | None]


def reply_to(head: bytes, path: str, handler: Handler) -> bytes:
    """The reply to one request. 404 for another path or a number that the handler refuses, 400 for what is no GET."""
    words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    if len(words) != 3 or words[0] != "GET":
        return _reply(400, {})
    parts = urlsplit(words[1])
    number = parse_qs(parts.query).get("n", [""])[0]
    found = handler(int(number)) if parts.path == path and number.isdecimal() and len(number) < 9 else None
    return _reply(404, {}) if found is None else _reply(200, found)


def _reply(status: int, document: dict[str, Any]) -> bytes:
    body = json.dumps(document, separators=(",", ":")).encode()
    reason = {200: "OK", 404: "Not Found"}.get(status, "Bad Request")
    return f"HTTP/1.1 {status} {reason}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class _Conversation(asyncio.Protocol):
    """One connection."""

    def __init__(self, path: str, handler: Handler) -> None:
        self._path, self._handler = path, handler
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, self._received = self._received.split(b"\r\n\r\n", 1)
            self._transport.write(reply_to(head, self._path, self._handler))
        if len(self._received) > LONGEST:
            self._transport.close()


def serve(path: str, make_handler: Callable[[Path], Handler]) -> None:
    """Answer `path?n=NUMBER` on the port of the command line, until a signal."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    given = parser.parse_args()
    handler = make_handler(given.folder)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Conversation(path, handler), "127.0.0.1", given.port)
        await server.serve_forever()

    asyncio.run(run())
