"""Hot routes, answered without the framework's routing.

They need none of what FastAPI does for a route: dependencies, path parameters, stacks of exits. FastAPI still knows
them, for the document.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from osml_serving.api.decoding import require_json
from osml_serving.errors import ClientGoneError

Answer = Callable[[Scope, bytes], Awaitable[Response]]
"""Answers a body."""
Find = Callable[[str], Answer | None]
"""The answer of a path."""


class DirectRoutes:
    """ASGI layer, innermost: a POST request whose path has an answer goes there, all others to the application.

    The layer above gives the whole body in one message (`RequestLimits`).
    """

    def __init__(self, app: ASGIApp, find: Find) -> None:
        self.app = app
        self.find = find

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand on. Raises ApiError."""
        answer = self.find(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if answer is None:
            await self.app(scope, receive, send)
            return
        message = await receive()
        if message["type"] != "http.request":
            raise ClientGoneError
        response = await answer(scope, message.get("body", b""))
        await response(scope, receive, send)


def of_json(answer: Answer) -> Answer:
    """The same for bodies that have to be declared as JSON."""

    async def checked(scope: Scope, body: bytes) -> Response:
        require_json(scope)
        return await answer(scope, body)

    return checked


async def of_framework(answer: Answer, request: Request) -> Response:
    """The same for the framework's route."""
    return await answer(request.scope, await request.body())
