"""The live view: which nodes report, what happened on one lately, and what happens now."""

# pyright: reportUnusedFunction=false
# FastAPI calls the routes.
from __future__ import annotations

import time
from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Query, Request, Response

from osml_serving import __version__
from osml_serving.api.document import EVENTS, EXPLAIN, NODE, NODES
from osml_serving.api.messages import NodeList
from osml_serving.errors import ApiError
from osml_serving.guards.access import may_see, require, speaks_for_all
from osml_serving.runtime import Runtime
from osml_serving.view.broker import MAX_OWN_VIEWERS, MAX_VIEWERS, TooManyViewersError
from osml_serving.view.event_stream import EventStream
from osml_serving.view.explain import explain
from osml_serving.view.history import MAX_POINTS, NodeHistory

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"
NodeName = Annotated[str, Path(pattern=NAME, description="Name of a node, as it stands in its observations.")]
WatchedNode = Annotated[str, Query(pattern=NAME, description="Node to watch; it need not have reported yet.")]
Points = Annotated[int, Query(ge=1, le=MAX_POINTS, description="Intervals wanted, newest last.")]

MAX_STEPS = 240  # decoding them holds the event loop for a few milliseconds
Steps = Annotated[int, Query(ge=1, le=MAX_STEPS, description="Intervals of the paths, newest last.")]


def router(runtime: Runtime) -> APIRouter:
    """The routes, bound to one server's parts."""
    routes = APIRouter()

    @routes.get("/v1/nodes", openapi_extra=NODES, response_class=Response)
    async def nodes(request: Request) -> Response:
        """List the nodes that reported since the server started, as far as the token may see them."""
        seen = [line for line in runtime.history.summaries() if may_see(request.scope, line.node)]
        return _json(msgspec.json.encode(NodeList(server_time=time.time(), nodes=seen)))

    @routes.get("/v1/nodes/{node}", openapi_extra=NODE, response_class=Response)
    async def node(request: Request, node: NodeName, points: Points = MAX_POINTS) -> Response:
        """Show the last intervals of one node: at most 600, kept in memory only."""
        require(request.scope, node)
        return _json(_history(runtime, node).document(node, points))

    @routes.get("/v1/nodes/{node}/explain", openapi_extra=EXPLAIN, response_class=Response)
    async def explain_(request: Request, node: NodeName, points: Steps = 120) -> Response:
        """Explain the node's last decision: reasons, predictions, and each LC service's way over cores and ways."""
        require(request.scope, node)
        with runtime.share.of(request.scope):
            explained = explain(node, _history(runtime, node), points, runtime.models_of)
        return _json(msgspec.json.encode(explained))

    @routes.get("/v1/events", openapi_extra=EVENTS, response_class=Response)
    async def events(request: Request, node: WatchedNode) -> Response:
        """Follow one node by server-sent events: `hello`, then an `observation` an interval, and `heartbeat`s."""
        require(request.scope, node)
        try:
            most = MAX_VIEWERS if speaks_for_all(request.scope) else MAX_OWN_VIEWERS
            viewer = runtime.broker.subscribe(node, most)
        except TooManyViewersError:
            message = "too many event streams are open"
            raise ApiError(503, "overloaded", message, headers={"retry-after": "10"}) from None
        return EventStream(runtime.broker, viewer, msgspec.json.encode({"version": __version__}))

    return routes


def _history(runtime: Runtime, node: str) -> NodeHistory:
    """What is known of a node, or 404."""
    history = runtime.history.get(node)
    if history is None:
        hint = "GET /v1/nodes lists those that have"
        raise ApiError(404, "not_found", f"node '{node}' has not reported to this server", field="node", hint=hint)
    return history


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json", headers={"cache-control": "no-store"})
