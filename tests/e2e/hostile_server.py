"""Servers that are not `osml run serve`, or do not behave like it."""

from __future__ import annotations

import time
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Self

from tests.kit.http_thread import HttpThread, Quiet

HTML = b"<html><body>Welcome to nginx!</body></html>"


class HostileServer:
    """Answers every POST, after `delay_s` of silence, with a web page. For use in a `with` block."""

    def __init__(self, port: int = 0, status: int = 200, delay_s: float = 0.0) -> None:
        self.asked = 0
        owner = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                owner.asked += 1
                time.sleep(delay_s)
                self.tell(status, HTML, {"content-type": "text/html"})

        self._server = HttpThread(Handler, port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.port}"

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop()
