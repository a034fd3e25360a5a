"""Checks the bearer token of a request before its body is read."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from osml_serving.errors import ApiError
from osml_serving.guards.tokens import ANY_NODE, Tokens

GRANT = "osml.nodes"  # scope key: nodes for which the token of the request is valid
ALL_NODES = frozenset({ANY_NODE})
CHALLENGE = {"www-authenticate": 'Bearer realm="osml"'}


class Access:
    """ASGI layer: `/v1`, `/v2/models` and `/metrics` require a token; probes, documents and the page do not."""

    def __init__(self, app: ASGIApp, tokens: Tokens | None) -> None:
        self.app = app
        self.tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Store the nodes for which the token is valid, or raise 401."""
        if scope["type"] == "http":
            scope[GRANT] = ALL_NODES if self.tokens is None or not is_guarded(scope["path"]) else self._nodes(scope)
        await self.app(scope, receive, send)

    def _nodes(self, scope: Scope) -> frozenset[str]:
        assert self.tokens is not None  # noqa: S101 - for the type checker; the caller checks it
        header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        scheme, _, token = header.decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            hint = "send the header 'Authorization: Bearer TOKEN'; the agent reads the token from server.token_file"
            raise ApiError(401, "unauthorized", "the server requires a bearer token", hint=hint, headers=CHALLENGE)
        nodes = self.tokens.nodes_of(token.strip())
        if nodes is None:
            raise ApiError(401, "unauthorized", "the server does not know this bearer token", headers=CHALLENGE)
        return nodes


def is_guarded(path: str) -> bool:
    """True where a path requires a token; all routes that take a body do."""
    return path.startswith(("/v1/", "/v2/models")) or path in ("/v1", "/metrics")


def may_see(scope: Scope, node: str) -> bool:
    """True where the request's token is valid for the node."""
    nodes: frozenset[str] = scope[GRANT]
    return ANY_NODE in nodes or node in nodes


def require(scope: Scope, node: str) -> None:
    """Raise 403 where the request's token is not valid for the node."""
    if not may_see(scope, node):
        message = f"the token is not valid for node '{node}'"
        raise ApiError(403, "forbidden", message, field="node", hint="use the token of this node")


def is_for_all_nodes(scope: Scope) -> bool:
    """True where the request's token is for all nodes."""
    return ANY_NODE in scope[GRANT]


def require_any(scope: Scope) -> None:
    """Raise 403 where the token is for single nodes and the answer is about all."""
    if not is_for_all_nodes(scope):
        raise ApiError(403, "forbidden", "this path requires a token for all nodes ('*' in the token file)")
