"""The routes that agents call in every interval, answered without the framework's routing.

They need none of what FastAPI does for a route: dependencies, path parameters, stacks of exits. FastAPI still knows
them, for the document.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from fastapi import Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from osml_serving.api.decoding import require_json
from osml_serving.errors import ClientGoneError

Answer = Callable[[Scope, bytes], Awaitable[Response]]
"""Answers a body of JSON."""


class DirectRoutes:
    """ASGI layer, innermost: POST requests to these paths go to their answers, all others to the application.

    The layer above gives the whole body in one message (`RequestLimits`).
    """

    def __init__(self, app: ASGIApp, answers: Mapping[str, Answer]) -> None:
        self.app = app
        self.answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand on. Raises ApiError."""
        answer = self.answers.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if answer is None:
            await self.app(scope, receive, send)
            return
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGoneError
        response = await answered(answer, scope, message.get("body", b""))
        await response(scope, receive, send)


async def answered(answer: Answer, scope: Scope, body: bytes) -> Response:
    """The answer to a body, which has to be declared as JSON."""
    require_json(scope)
    return await answer(scope, body)


async def of_framework(answer: Answer, request: Request) -> Response:
    """The same for the framework's route."""
    return await answered(answer, request.scope, await request.body())
