"""A server of a test in a thread of its own, over HTTP or TLS."""

from __future__ import annotations

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class HttpThread:
    """Serves with a handler from the start to `stop`. `certificate`: its file and that of its key, for TLS."""

    def __init__(
        self, handler: type[BaseHTTPRequestHandler], port: int = 0, certificate: tuple[Path, Path] | None = None
    ) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def start(self) -> None:
        """Answer from now on; before, connections wait."""
        self._thread.start()

    def stop(self) -> None:
        """Answer nobody any more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Quiet(BaseHTTPRequestHandler):
    """A handler that logs nothing, and does not mind a client that did not wait."""

    def tell(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        """Answer; `content-length` is added."""
        try:
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *_args: object) -> None:  # noqa: A002 - its name there
        """Nothing."""
