"""The live view of one node: its last intervals, the explanation of a decision, and the event stream."""

# pyright: reportUnusedFunction=false
# FastAPI calls the routes.
from __future__ import annotations

import time
from functools import partial
from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Query, Request, Response
from starlette.types import Scope

from osml_serving import __version__
from osml_serving.api.document import BLAME, DAY, EVENTS, EXPLAIN, NODE, NODE_ROLLOUT, SEEN
from osml_serving.api.messages import DayDocument, NodeRollout, NodeSeen, uncached_json
from osml_serving.errors import ApiError
from osml_serving.guards.access import grant_of, require
from osml_serving.runtime import Runtime
from osml_serving.view.broker import MAX_OWN_VIEWERS, MAX_VIEWERS, TooManyViewersError
from osml_serving.view.event_stream import EventStream
from osml_serving.view.explain import TooLargeError, explain
from osml_serving.view.history import MAX_INTERVALS, NodeHistory

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"
NodeName = Annotated[str, Path(pattern=NAME, description="Name of a node, as in its observations.")]
WatchedNode = Annotated[str, Query(pattern=NAME, description="Node to watch, which may still be unknown.")]
Intervals = Annotated[int, Query(ge=1, le=MAX_INTERVALS, description="Number of intervals; the newest is last.")]

MAX_STEPS = 240  # decoding them holds the event loop for a few milliseconds
Steps = Annotated[int, Query(ge=1, le=MAX_STEPS, description="Number of intervals in each path; the newest is last.")]


def router(runtime: Runtime) -> APIRouter:
    """The routes, bound to one server's parts."""
    routes = APIRouter()

    @routes.get("/v1/nodes/{node}", openapi_extra=NODE, response_class=Response)
    async def node(request: Request, node: NodeName, points: Intervals = MAX_INTERVALS) -> Response:
        """Show the last intervals of one node: at most 600, kept in memory only."""
        require(request.scope, node)
        with runtime.share.of(request.scope):
            return uncached_json(_history(runtime, node).document(node, points))

    @routes.get("/v1/nodes/{node}/seen", name="seen", openapi_extra=SEEN, response_class=Response)
    async def seen(request: Request, node: NodeName) -> Response:
        """Say how long ago a node was answered. Servers ask each other, to find who has its history."""
        require(request.scope, node)
        return uncached_json(msgspec.json.encode(NodeSeen(node, time.monotonic() - _history(runtime, node).seen_s)))

    @routes.get("/v1/nodes/{node}/explain", name="explain", openapi_extra=EXPLAIN, response_class=Response)
    async def explain_(request: Request, node: NodeName, points: Steps = 120) -> Response:
        """Explain the last decision of a node.

        The answer has reasons, forecasts, and the path of each LC service over cores and ways.
        """
        require(request.scope, node)
        with runtime.share.of(request.scope):
            try:
                history = _history(runtime, node)
                canary = None if history.summary is None else history.summary.canary
                explained = explain(node, history, points, partial(runtime.models_of, canary=canary))
            except TooLargeError:
                message = f"node '{node}' is too large for the history of a server with so many nodes"
                raise ApiError(404, "not_found", message, field="node") from None
        return uncached_json(msgspec.json.encode(explained))

    @routes.get("/v1/nodes/{node}/day", openapi_extra=DAY, response_class=Response)
    async def day(request: Request, node: NodeName) -> Response:
        """Show the last 24 hours of one node in bins of ten minutes, and what happened. They are in memory only."""
        require(request.scope, node)
        with runtime.share.of(request.scope):
            known = _history(runtime, node).day
            bins = [] if known is None else known.bins(time.time())
            events = [] if known is None else list(reversed(known.events))
            return uncached_json(msgspec.json.encode(DayDocument(node, bins, events)))

    @routes.get("/v1/nodes/{node}/rollout", name="node_rollout", openapi_extra=NODE_ROLLOUT, response_class=Response)
    async def rollout(request: Request, node: NodeName) -> Response:
        """Show which policy decides for a node, and what its shadow policies would have decided last."""
        require(request.scope, node)
        line = _history(runtime, node).summary
        assert line is not None  # noqa: S101 - a history begins with an interval
        group = runtime.rollout.plan.group_of(node)
        named = [] if group is None else group.shadow  # others were removed from the rollout file
        shadows = [one for one in runtime.shadow_tally.of_node(node) if one.policy in named]
        return uncached_json(msgspec.json.encode(NodeRollout(node, line.group, line.canary, line.policy, shadows)))

    @routes.get("/v1/nodes/{node}/blame", name="blame", openapi_extra=BLAME, response_class=Response)
    async def blame(request: Request, node: NodeName) -> Response:
        """Say who slows the services of a node, by its twin (simulated) and its last intervals.

        The answer takes some seconds, and holds for 30 s. It needs a server with `--twins`.
        """
        require(request.scope, node)
        _history(runtime, node)
        return uncached_json(msgspec.json.encode(await runtime.blamer.ask(node, grant_of(request.scope))))

    @routes.get("/v1/events", openapi_extra=EVENTS, response_class=Response)
    async def events(request: Request, node: WatchedNode) -> Response:
        """Send the events of one node: `hello`, an `observation` per interval, and `heartbeat`."""
        require(request.scope, node)
        try:
            viewer = runtime.broker.subscribe(node, most_viewers(request.scope))
        except TooManyViewersError:
            raise too_many_viewers() from None
        grant, hello = grant_of(request.scope), msgspec.json.encode({"version": __version__})
        return EventStream(runtime.broker, viewer, hello, is_over=lambda: grant.expired)

    return routes


def most_viewers(scope: Scope) -> int:
    """How many event streams of one node the request's token may open."""
    return MAX_VIEWERS if grant_of(scope).all_nodes else MAX_OWN_VIEWERS


def too_many_viewers() -> ApiError:
    """The answer to one event stream too many."""
    return ApiError(503, "overloaded", "the limit of open event streams is reached", headers={"retry-after": "10"})


def _history(runtime: Runtime, node: str) -> NodeHistory:
    """The history of a node, or 404."""
    history = runtime.history.get(node)
    if history is None:
        hint = "GET /v1/nodes lists the known nodes"
        message = f"node '{node}' sent no observation since the server started"
        raise ApiError(404, "not_found", message, field="node", hint=hint)
    return history
