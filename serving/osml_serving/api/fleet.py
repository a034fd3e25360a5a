"""The live view of all nodes: their list, and what happened on them."""

# pyright: reportUnusedFunction=false
# FastAPI calls the routes.
from __future__ import annotations

import math
import time
from itertools import islice
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response

from osml_serving.api.document import FLEET_EVENTS, NODES
from osml_serving.api.messages import FleetEvents, NodeList, uncached_json
from osml_serving.guards.access import grant_of
from osml_serving.guards.grants import Grant
from osml_serving.runtime import Runtime
from osml_serving.view.history import MAX_EVENTS

LARGE = 1000  # nodes; from here on the list of all is made once in LISTED_S, whoever asks
LISTED_S = 1.0
DEFAULT_EVENTS = 100  # where a request names no limit
Newest = Annotated[int, Query(ge=1, le=MAX_EVENTS, description="Number of events; the newest is first.")]


def router(runtime: Runtime) -> APIRouter:
    """The routes, bound to one server's parts."""
    routes = APIRouter()
    whole = (-math.inf, b"")  # the list of all nodes, and when it was made

    def listed(grant: Grant) -> bytes:
        nonlocal whole
        if not grant.all_nodes:
            return _list_of(runtime, grant.nodes)
        now_s = time.monotonic()
        if len(runtime.history) < LARGE or now_s - whole[0] > LISTED_S:
            whole = now_s, _list_of(runtime, None)
        return whole[1]

    @routes.get("/v1/nodes", openapi_extra=NODES, response_class=Response)
    async def nodes(request: Request) -> Response:
        """List the nodes that sent observations since the start and for which the token is valid."""
        with runtime.share.of(request.scope):
            return uncached_json(listed(grant_of(request.scope)))

    @routes.get("/v1/fleet/events", openapi_extra=FLEET_EVENTS, response_class=Response)
    async def fleet_events(request: Request, limit: Newest = DEFAULT_EVENTS) -> Response:
        """List what happened on the nodes: targets missed, agents that started anew, and more."""
        grant = grant_of(request.scope)
        with runtime.share.of(request.scope):
            visible = (event for event in reversed(runtime.history.events) if grant.is_for(event.node))
            return uncached_json(msgspec.json.encode(FleetEvents(list(islice(visible, limit)))))

    return routes


def _list_of(runtime: Runtime, names: frozenset[str] | None) -> bytes:
    """The list of these nodes, or of all."""
    return msgspec.json.encode(NodeList(time.time(), list(runtime.history.summaries(names)), runtime.blamer.there))
