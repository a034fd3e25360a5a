"""Servers that are not `osml run serve`, or do not behave like it."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

HTML = b"<html><body>Welcome to nginx!</body></html>"


class HostileServer:
    """Answers every POST, after `delay_s` of silence, with a web page. For use in a `with` block."""

    def __init__(self, port: int = 0, status: int = 200, delay_s: float = 0.0) -> None:
        self.asked = 0
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                owner.asked += 1
                time.sleep(delay_s)
                try:
                    self.send_response(status)
                    self.send_header("content-type", "text/html")
                    self.send_header("content-length", str(len(HTML)))
                    self.end_headers()
                    self.wfile.write(HTML)
                except OSError:  # the agent did not wait
                    self.close_connection = True

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
