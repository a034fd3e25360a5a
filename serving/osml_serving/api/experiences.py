"""`POST /v1/experiences`: results of decisions, stored for learning. Decisions never wait for it."""

# pyright: reportUnusedFunction=false
# FastAPI calls the routes.
from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response
from starlette.types import Scope

from osml.domain import Experiences
from osml.experiences.outcome import BusyError, StoreAwayError, StoreError
from osml.experiences.writer import Writer
from osml_serving.api.decoding import Body
from osml_serving.api.direct import Answer, of_framework, of_json
from osml_serving.api.document import EXPERIENCES, STORED_EXPERIENCES
from osml_serving.api.experience_checks import check_experience
from osml_serving.api.messages import DAMAGED, Receipt, unknown_keys_header
from osml_serving.api.nodes import WatchedNode
from osml_serving.errors import ApiError
from osml_serving.guards.access import require
from osml_serving.guards.rate_limit import NodeRate
from osml_serving.runtime import Runtime

MAX_SHOWN = 100
STORE_TIMEOUT_S = 10.0
Limit = Annotated[int, Query(ge=1, le=MAX_SHOWN, description="Number of experiences; the newest is first.")]
ADD = "/v1/experiences"
_body = Body(Experiences, "invalid_experience", "a batch of experiences")


def router(runtime: Runtime, direct: Mapping[str, Answer]) -> APIRouter:
    """The routes, bound to one server's parts; experiences are added as `direct` says."""
    routes = APIRouter()

    @routes.post(ADD, name="add_experiences", openapi_extra=EXPERIENCES, response_class=Response, status_code=202)
    async def add(request: Request) -> Response:
        """Store experiences: an observation, its decision and the next observation.

        The server answers after it stored them. A client may repeat a batch, because equal `node`, `seq` and `time_s`
        of `before` are stored once. One invalid experience refuses the batch.
        """
        return await of_framework(direct[ADD], request)

    @routes.get("/v1/experiences", name="experiences", openapi_extra=STORED_EXPERIENCES, response_class=Response)
    async def show(request: Request, node: WatchedNode, limit: Limit = 10) -> Response:
        """Show the newest experiences of a node.

        The header osml-damaged-rows counts unreadable rows, which are omitted.
        """
        require(request.scope, node)
        runtime.share.check(request.scope)
        store = _writer(runtime)
        try:
            async with asyncio.timeout(STORE_TIMEOUT_S):
                encoded, damaged, seconds = await store.newest(node, limit)
        except (BusyError, StoreError, TimeoutError) as error:
            if isinstance(error, StoreError) and not isinstance(error, StoreAwayError):  # all else the writer logs
                runtime.log.event("error", "experience_store", str(error))
            raise _unavailable(error) from None
        runtime.share.spend(request.scope, seconds)
        if damaged:
            runtime.metrics.experiences_damaged.inc(damaged)
            message = f"{damaged} of the {limit} newest rows are unreadable; the answer omits them"
            runtime.log.event("warning", "experience_store", message, node=node)
        content = b'{"experiences":[%s]}' % b",".join(encoded)
        headers = {"cache-control": "no-store", DAMAGED: str(damaged)}
        return Response(content, media_type="application/json", headers=headers)

    return routes


def answers(runtime: Runtime) -> dict[str, Answer]:
    """The answers by path, bound to one server's parts."""
    rate = NodeRate(runtime.settings.max_node_rate)  # separate from the rate limit of decisions

    async def add(scope: Scope, body: bytes) -> Response:
        store = _writer(runtime)
        unknown: list[str] = []
        with runtime.share.of(scope):
            experiences = _body.decode(body, unknown.extend).experiences
        runtime.metrics.unknown_keys.inc(len(unknown))
        nodes = {experience.before.node for experience in experiences}
        for node in sorted(nodes):
            require(scope, node)
        for node in nodes:
            if not rate.take(node, time.perf_counter()):
                rate_limit = f"{runtime.settings.max_node_rate:g} batches of experiences a second"
                message = f"node '{node}' exceeds the rate limit of {rate_limit}"
                raise ApiError(429, "rate_limited", message, headers={"retry-after": "1"})
        for index, experience in enumerate(experiences):
            with runtime.share.of(scope):
                check_experience(experience, f"experiences[{index}]")
            await asyncio.sleep(0)  # decisions come first
        try:
            async with asyncio.timeout(STORE_TIMEOUT_S):
                added = await store.add(experiences)
        except (BusyError, StoreError, TimeoutError) as error:
            runtime.metrics.experiences_failed.inc(len(experiences))
            raise _unavailable(error) from None
        runtime.metrics.experiences_accepted.inc(added.accepted)
        runtime.metrics.experiences_duplicate.inc(added.duplicates)
        headers = unknown_keys_header(unknown)
        return Response(msgspec.json.encode(Receipt(*added)), 202, headers, media_type="application/json")

    return {ADD: of_json(add)}


def _writer(runtime: Runtime) -> Writer:
    if runtime.experiences is None:
        message = "the server stores no experiences, because it runs with --store none"
        raise ApiError(404, "not_found", message, hint="stop sending experiences (server.experiences: off)")
    return runtime.experiences


def _unavailable(error: Exception) -> ApiError:
    """503: the client may send the batch again."""
    if isinstance(error, BusyError):
        message = "the queue of the experience store is full"
        return ApiError(503, "overloaded", message, headers={"retry-after": "2"})
    if isinstance(error, TimeoutError):
        cause = f"the database did not answer within {STORE_TIMEOUT_S:g} s"
    else:
        cause = str(error)
    message = f"the experience store failed: {cause}"
    return ApiError(503, "store_unavailable", message, headers={"retry-after": "30"})
