"""The live view of all nodes: their list, and what happened on them."""

# pyright: reportUnusedFunction=false
# FastAPI calls the routes.
from __future__ import annotations

import time
from itertools import islice
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response

from osml_serving.api.document import FLEET_EVENTS, NODES
from osml_serving.api.messages import FleetEvents, NodeList, uncached_json
from osml_serving.guards.access import grant_of
from osml_serving.runtime import Runtime
from osml_serving.view.history import MAX_EVENTS

DEFAULT_EVENTS = 100  # where a request names no limit
Newest = Annotated[int, Query(ge=1, le=MAX_EVENTS, description="Number of events; the newest is first.")]


def router(runtime: Runtime) -> APIRouter:
    """The routes, bound to one server's parts."""
    routes = APIRouter()

    @routes.get("/v1/nodes", openapi_extra=NODES, response_class=Response)
    async def nodes(request: Request) -> Response:
        """List the nodes that sent observations since the start and for which the token is valid."""
        grant = grant_of(request.scope)
        visible = [line for line in runtime.history.summaries() if grant.is_for(line.node)]
        return uncached_json(msgspec.json.encode(NodeList(time.time(), visible, runtime.blamer.there)))

    @routes.get("/v1/fleet/events", openapi_extra=FLEET_EVENTS, response_class=Response)
    async def fleet_events(request: Request, limit: Newest = DEFAULT_EVENTS) -> Response:
        """List what happened on the nodes: targets missed, agents that started anew, and more."""
        grant = grant_of(request.scope)
        visible = (event for event in reversed(runtime.history.events) if grant.is_for(event.node))
        return uncached_json(msgspec.json.encode(FleetEvents(list(islice(visible, limit)))))

    return routes
