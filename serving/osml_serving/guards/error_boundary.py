"""Outermost layer: turns every exception into the one error shape, so that no request stops the server."""

from __future__ import annotations

import traceback

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from osml_serving.errors import ApiError, ClientGoneError
from osml_serving.inference_protocol import ProtocolError
from osml_serving.log import Log
from osml_serving.metrics import Metrics


class ErrorBoundary:
    """Pure ASGI: Starlette's BaseHTTPMiddleware would double the cost of a request."""

    def __init__(self, app: ASGIApp, log: Log, metrics: Metrics) -> None:
        self.app = app
        self.log = log
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application; answer what it raises."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def watch(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, watch)
        except ApiError as error:
            self.metrics.error(error.body.code)
            if not started:
                await _answer(error, scope)(scope, receive, send)
        except ClientGoneError:
            return
        except Exception as error:
            self.metrics.error("internal")
            self.log.fault("internal", f"{scope['method']} {scope['path']}: {error!r}", traceback.format_exc())
            if started:
                raise  # too late for another answer: uvicorn closes the connection
            answer = ApiError(500, "internal", "the server failed at this request; see its log")
            await _answer(answer, scope)(scope, receive, send)


def _answer(error: ApiError, scope: Scope) -> Response:
    """In the shape of the API, or of the Open Inference Protocol below its path."""
    if scope["path"] == "/v2" or scope["path"].startswith("/v2/"):
        content = msgspec.json.encode(ProtocolError(error.body.message))
        return Response(content, error.status, error.headers, "application/json")
    return error.response()
