"""HTTP connections that are not waited for without end: heads that never come whole, readers that never read.

uvicorn waits for ever for the rest of a request's head, and takes any length of it: a few thousand such connections
would leave no file for an agent.
"""

from __future__ import annotations

import asyncio
import socket

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_S = 20.0
MAX_HEAD = 64 * 1024  # bytes of a request before its body
REST_S = 20.0  # for the rest of a body whose answer is out
UNREAD_S = 20.0


class PatientProtocol(HttpToolsProtocol):
    """As uvicorn's, but a head has HEAD_S from the connection, or from its first byte on a kept one, and MAX_HEAD.

    What is left of a body when its answer is complete has REST_S.
    """

    _deadline: asyncio.TimerHandle | None = None
    _rest: asyncio.TimerHandle | None = None
    _head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Begin to wait."""
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Count what comes until the head is complete."""
        if self._deadline is not None:
            self._head += len(data)
        super().data_received(data)
        if self._deadline is not None and self._head > MAX_HEAD:
            self._give_up()

    def on_message_begin(self) -> None:
        """The next request on this connection."""
        self._expect_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The rest is the application's to time."""
        self._stop_waiting()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """A body that comes on after its answer (401, 405) is nobody's to time any more: it has REST_S."""
        super().on_response_complete()
        if self.cycle.response_complete and self.cycle.more_body and self._rest is None:
            self._rest = self.loop.call_later(REST_S, self._give_up)

    def on_message_complete(self) -> None:
        """The body is here."""
        self._stop_the_rest()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is left to wait for."""
        self._stop_waiting()
        self._stop_the_rest()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._stop_waiting()
        self._head = 0
        self._deadline = self.loop.call_later(HEAD_S, self._give_up)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _stop_the_rest(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def _give_up(self) -> None:
        self._stop_waiting()
        self._stop_the_rest()
        self.transport.abort()


def forget_silent_readers(listener: socket.socket) -> None:
    """Let the kernel drop connections of the listener whose peer has taken nothing of what it was sent for UNREAD_S.

    An answer that nobody reads would stay in memory as long as its connection.
    """
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNREAD_S * 1000))
