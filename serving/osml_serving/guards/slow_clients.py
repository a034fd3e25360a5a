"""Timeouts for slow clients: incomplete request heads, and answers that the client does not read.

uvicorn waits for the rest of a request's head without a timeout, and accepts any length of it. A few thousand such
connections would use up the file descriptors.
"""

from __future__ import annotations

import asyncio
import socket

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_S = 20.0
BLANK = b"\r\n\r\n"  # after a head
MAX_HEAD = 64 * 1024  # bytes of a request before its body
REST_S = 20.0  # for the rest of a body whose answer is out
UNREAD_S = 20.0


class SlowClientProtocol(HttpToolsProtocol):
    """As uvicorn's, but with a timeout of HEAD_S and a limit of MAX_HEAD for a request's head.

    HEAD_S begins with the connection, or with the first byte of a further request. The rest of a body whose answer is
    complete has a timeout of REST_S.
    """

    _deadline: asyncio.TimerHandle | None = None
    _rest: asyncio.TimerHandle | None = None
    _head = 0
    _end = b""
    _heads = 0
    _in_body = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Start the timeout of the head."""
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Count the bytes until the head is complete; one that is too long is not parsed."""
        body, heads = self._in_body, self._heads
        seen, room = self._end + data, MAX_HEAD - self._head + len(self._end)
        if not body and len(seen) > room and seen.find(BLANK, 0, max(0, room)) < 0:
            self._abort()
            return
        super().data_received(data)
        if body or self._in_body or self._heads != heads:  # what is left of `data` may begin the next head
            self._head, self._end = 0, b""
        else:
            self._head, self._end = self._head + len(data), seen[1 - len(BLANK) :]

    def on_message_begin(self) -> None:
        """The next request on this connection."""
        self._expect_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Stop the timeout of the head; the application has a timeout for the body."""
        self._stop_waiting()
        self._heads, self._in_body = self._heads + 1, True
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Start the timeout of the rest of a body whose answer (401, 405) is complete."""
        super().on_response_complete()
        if self.cycle.response_complete and self.cycle.more_body and self._rest is None:
            self._rest = self.loop.call_later(REST_S, self._abort)

    def on_message_complete(self) -> None:
        """The body is complete."""
        self._stop_the_rest()
        self._in_body = False
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timeouts."""
        self._stop_waiting()
        self._stop_the_rest()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(HEAD_S, self._abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _stop_the_rest(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def _abort(self) -> None:
        self._stop_waiting()
        self._stop_the_rest()
        self.transport.abort()


def set_unread_timeout(listener: socket.socket) -> None:
    """Let the kernel close connections of the listener whose client has read nothing for UNREAD_S.

    An unread answer stays in memory as long as its connection.
    """
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNREAD_S * 1000))
