"""Checks the bearer token of a request, and what it allows, before the body is read."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from osml_serving.errors import ApiError
from osml_serving.guards.grants import ADMIN, RIGHTS, Grant, Right, right_of
from osml_serving.guards.tokens import Tokens
from osml_serving.headers import header_of

GRANT = "osml.grant"  # scope key: what the token of the request allows
CHALLENGE = {"www-authenticate": 'Bearer realm="osml"'}


class Access:
    """ASGI layer: `/v1`, `/v2/models` and `/metrics` require a token; probes, documents and the page do not."""

    def __init__(self, app: ASGIApp, tokens: Tokens | None) -> None:
        self.app = app
        self.tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Store what the token allows; raise 401 where it is unknown, 403 where it lacks the right."""
        if scope["type"] == "http":
            right = right_of(scope["method"], scope["path"])
            scope[GRANT] = ADMIN if self.tokens is None or right is None else _grant(self.tokens, scope, right)
        await self.app(scope, receive, send)


def _grant(tokens: Tokens, scope: Scope, right: Right) -> Grant:
    header = header_of(scope, b"authorization") or b""
    scheme, _, token = header.decode("latin-1").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        hint = "send the header 'Authorization: Bearer TOKEN'; the agent reads the token from server.token_file"
        raise ApiError(401, "unauthorized", "the server requires a bearer token", hint=hint, headers=CHALLENGE)
    grant = tokens.grant_of(token.strip())
    if grant is None:
        message = "this bearer token is unknown or has expired"
        raise ApiError(401, "unauthorized", message, headers=CHALLENGE)
    if not grant.has(right):
        scopes = " or ".join(name for name, rights in RIGHTS.items() if right in rights)
        raise ApiError(403, "forbidden", f"the token has scope {grant.scope}, this path requires {scopes}")
    return grant


def grant_of(scope: Scope) -> Grant:
    """What the request's token allows."""
    grant: Grant = scope[GRANT]
    return grant


def require(scope: Scope, node: str) -> None:
    """Raise 403 where the request's token is not valid for the node."""
    if not grant_of(scope).is_for(node):
        message = f"the token is not valid for node '{node}'"
        raise ApiError(403, "forbidden", message, field="node", hint="use the token of this node")
