"""Who may ask: checks the bearer token before a byte of the body is read."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from osml_serving.errors import ApiError
from osml_serving.guards.tokens import ANY_NODE, Tokens

GRANT = "osml.nodes"  # scope key: nodes that the request may speak for
EVERYBODY = frozenset({ANY_NODE})
CHALLENGE = {"www-authenticate": 'Bearer realm="osml"'}


class Access:
    """ASGI layer: with tokens, `/v1`, `/v2/models` and `/metrics` want one; probes, documents and the page do not."""

    def __init__(self, app: ASGIApp, tokens: Tokens | None) -> None:
        self.app = app
        self.tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Note the nodes that the token speaks for, or raise 401."""
        if scope["type"] == "http":
            scope[GRANT] = EVERYBODY if self.tokens is None or not is_guarded(scope["path"]) else self._nodes(scope)
        await self.app(scope, receive, send)

    def _nodes(self, scope: Scope) -> frozenset[str]:
        assert self.tokens is not None  # noqa: S101 - for the type checker; the caller has looked
        header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, token = header.decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            hint = "send the header 'Authorization: Bearer TOKEN'; the agent takes it from server.token_file"
            raise ApiError(401, "unauthorized", "this server wants a bearer token", hint=hint, headers=CHALLENGE)
        nodes = self.tokens.nodes_of(token.strip())
        if nodes is None:
            raise ApiError(401, "unauthorized", "the bearer token is not known to this server", headers=CHALLENGE)
        return nodes


def is_guarded(path: str) -> bool:
    """True where a path wants a token; all routes that take a body do."""
    return path.startswith(("/v1/", "/v2/models")) or path in ("/v1", "/metrics")


def may_see(scope: Scope, node: str) -> bool:
    """True where the request's token speaks for the node."""
    nodes: frozenset[str] = scope[GRANT]
    return ANY_NODE in nodes or node in nodes


def require(scope: Scope, node: str) -> None:
    """Raise 403 where the request's token does not speak for the node."""
    if not may_see(scope, node):
        message = f"the token does not speak for node '{node}'"
        raise ApiError(403, "forbidden", message, field="node", hint="every node has its own token")


def speaks_for_all(scope: Scope) -> bool:
    """True where the request's token is for all nodes."""
    return ANY_NODE in scope[GRANT]


def require_any(scope: Scope) -> None:
    """Raise 403 where the token is for single nodes and the answer is about all."""
    if not speaks_for_all(scope):
        raise ApiError(403, "forbidden", "this needs a token for all nodes ('*' in the token file)")
