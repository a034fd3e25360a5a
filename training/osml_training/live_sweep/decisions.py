"""The sweep as a decision server for one agent, on the loopback interface, behind a token of its own."""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

import msgspec

from osml.base.failure import Failure
from osml.decide.decide import PolicyError, RequestError, decide_by
from osml.domain import Decision, Observation
from osml_training.live_sweep.walk import Walk

LOOPBACK = "127.0.0.1"
_MOST_BYTES = 4 * 2**20


class Decisions:
    """Answers `POST /v1/decisions` from a walk. `error` is what went wrong here; the agent then holds what it has."""

    def __init__(self, walk: Walk, token: str) -> None:
        self._walk, self._token = walk, token
        self._lock = threading.Lock()
        self.error: Failure | None = None
        self.seen: list[Observation] = []  # the last one
        self._server = ThreadingHTTPServer((LOOPBACK, 0), _handler(self._answer))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="decisions", daemon=True)

    @property
    def url(self) -> str:
        """Where the agent asks."""
        return f"http://{LOOPBACK}:{self._server.server_address[1]}"

    def _answer(self, token: str, body: bytes) -> tuple[int, bytes]:
        if not hmac.compare_digest(token.encode(), f"Bearer {self._token}".encode()):
            return 401, _error("the token is not that of this sweep")
        try:
            observation = msgspec.json.decode(body, type=Observation)
            with self._lock:
                decision: Decision = decide_by(self._walk, observation)
                self.seen = [observation]
        except (msgspec.MsgspecError, RequestError) as error:
            return 422, _error(str(error))
        except (Failure, PolicyError, OSError) as error:  # no room on the node; a full disk
            self.error = error if isinstance(error, Failure) else Failure(f"the sweep cannot go on: {error}")
            return 503, _error(str(error))
        return 200, msgspec.json.encode(decision)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def _error(message: str) -> bytes:
    return msgspec.json.encode({"error": {"code": "sweep", "message": message}})


def _handler(answer: Callable[[str, bytes], tuple[int, bytes]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def do_POST(self) -> None:
            length = self.headers.get("content-length", "")
            if self.path != "/v1/decisions" or not length.isdigit() or int(length) > _MOST_BYTES:
                self.close_connection = True
                self._send(404, _error("expected POST /v1/decisions with a Content-Length"))
                return
            self._send(*answer(self.headers.get("authorization", ""), self.rfile.read(int(length))))

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            """The sweep says itself what is worth a line."""

    return Handler
