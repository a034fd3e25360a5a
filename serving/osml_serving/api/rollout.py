"""`GET /v1/rollout`: groups, canaries with their figures, and what the shadow policies would have done."""

# pyright: reportUnusedFunction=false
# FastAPI calls the routes.
from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response

from osml_serving.api.document import ROLLOUT
from osml_serving.api.messages import NodeGroup, RolloutDocument, uncached_json
from osml_serving.errors import ApiError
from osml_serving.guards.access import grant_of
from osml_serving.runtime import Runtime


def router(runtime: Runtime) -> APIRouter:
    """The route, bound to one server's parts."""
    routes = APIRouter()

    @routes.get("/v1/rollout", name="rollout", openapi_extra=ROLLOUT, response_class=Response)
    async def rollout(request: Request) -> Response:
        """Show which policies decide where: groups of nodes, canaries, and shadow policies.

        The figures are of this server with its workers, since their start. The token must be valid for all nodes.
        """
        if not grant_of(request.scope).all_nodes:
            raise ApiError(403, "forbidden", "the rollout is about all nodes, and the token is valid for some only")
        tally = runtime.shadow_tally
        plan = runtime.rollout.plan
        shadows = {policy for group in plan.groups for policy in group.shadow}  # others were removed from the file
        with runtime.share.of(request.scope):
            document = RolloutDocument(
                groups=[NodeGroup(group.name, group.nodes, group.policy, group.shadow) for group in plan.groups],
                canaries=runtime.rollout.states(),
                shadows=[sums for policy, sums in sorted(tally.sums.items()) if policy in shadows],
                lost=tally.lost,
            )
            return uncached_json(msgspec.json.encode(document))

    return routes
