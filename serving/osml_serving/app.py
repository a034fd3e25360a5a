"""The ASGI application: routes, the layers around them, and its document."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException

from osml_serving import __version__, renewal
from osml_serving.addresses.peer import parse
from osml_serving.api import (
    dashboard,
    datasets,
    decisions,
    document,
    experiences,
    fleet,
    health,
    inference,
    nodes,
    rollout,
)
from osml_serving.api.direct import DirectRoutes, Find
from osml_serving.decider import PolicyFailedError
from osml_serving.errors import ApiError
from osml_serving.example import EXAMPLE
from osml_serving.guards.access import Access
from osml_serving.guards.error_boundary import ErrorBoundary
from osml_serving.guards.host_names import HostNames
from osml_serving.guards.request_limits import RequestLimits
from osml_serving.models.watch import watch
from osml_serving.peers.layer import PeerViews
from osml_serving.peers.peers import SIBLING, Peers
from osml_serving.peers.worker_merge import MERGES_OF_WORKERS
from osml_serving.peers.worker_metrics import WorkerMetrics
from osml_serving.rollout.rollout import tend
from osml_serving.runtime import Runtime

FRAMEWORK_CODES = {404: "not_found", 405: "method_not_allowed"}
DESCRIPTION = """Decides which cores, cache ways and memory bandwidth each service of a node gets.
Every error is `{"error": {"code", "message", "field"?, "hint"?}}`; below `/v2` it is `{"error": "message"}`."""


def create_app(runtime: Runtime) -> FastAPI:
    """Build the application.

    The layers from the outside: error boundary, access, views of other servers, request limits, direct routes.
    """
    settings = runtime.settings
    sockets = [] if runtime.place is None else runtime.place.siblings
    shared = None if runtime.place is None else runtime.place.server_id
    peers = Peers(settings.wanted_peers, runtime.log, settings.peer_timeout_s, tls=runtime.peer_tls, own_id=shared)
    siblings = Peers(map(parse, sockets), runtime.log, settings.peer_timeout_s, SIBLING)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        if runtime.shelf is not None:
            runtime.shelf.reload()
        for process in runtime.slow.values():
            process.start()
        runtime.readiness.warm_up(runtime.decider, runtime.log)
        if runtime.experiences is not None:
            runtime.experiences.start()
        if runtime.datasets is not None:
            await runtime.datasets.start()
        watching = [
            asyncio.create_task(renewal.watch(runtime.watched, runtime.log)),
            asyncio.create_task(tend(runtime.rollout, runtime.log)),
        ]
        if runtime.shelf is not None:
            models = watch(runtime.shelf, runtime.settings.models_poll_s, runtime.metrics, runtime.log)
            watching.append(asyncio.create_task(models))
        app.state.example_decision = _example_decision(runtime)
        yield
        runtime.broker.close()
        for task in watching:
            task.cancel()
        if runtime.datasets is not None:
            await runtime.datasets.stop()
        for process in runtime.slow.values():
            await process.stop()
        await runtime.shadows.stop()
        await peers.close()
        await siblings.close()
        if runtime.experiences is not None:
            await asyncio.to_thread(runtime.experiences.stop)

    app = FastAPI(
        title="osml",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,  # the framework's own pages load scripts from a public host, which could read the token
        redoc_url=None,
        generate_unique_id_function=document.operation_id,
    )
    direct = decisions.answers(runtime) | experiences.answers(runtime)
    infer = inference.find(runtime)
    _add_layers(app, runtime, lambda path: direct.get(path) or infer(path), peers, siblings)
    app.add_exception_handler(HTTPException, _raise_framework_error)
    app.add_exception_handler(RequestValidationError, _raise_parameter_error)
    app.include_router(decisions.router(direct))
    app.include_router(experiences.router(runtime, direct))
    for part in (inference, datasets, fleet, nodes, rollout, health):  # tried in this order, each a few microseconds
        app.include_router(part.router(runtime))
    app.include_router(dashboard.router())
    app.mount("/static", dashboard.PageFiles(directory=dashboard.STATIC), name="static")

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            plain = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            app.openapi_schema = document.complete(app, plain)
        return app.openapi_schema

    app.openapi = openapi
    return app


def _add_layers(app: FastAPI, runtime: Runtime, find: Find, peers: Peers, siblings: Peers) -> None:
    """From the inside to the outside."""
    settings = runtime.settings
    app.add_middleware(DirectRoutes, find=find)
    app.add_middleware(
        RequestLimits,
        limit=settings.max_body_kib * 1024,
        timeout_s=settings.body_timeout_s,
        slots=settings.max_in_flight,
        metrics=runtime.metrics,
    )
    if runtime.place is not None:
        app.add_middleware(
            PeerViews, peers=siblings, broker=runtime.broker, history=runtime.history, merges=MERGES_OF_WORKERS
        )
        app.add_middleware(WorkerMetrics, place=runtime.place, siblings=siblings, metrics=runtime.metrics)
    if settings.wanted_peers:
        workers = None if runtime.place is None else siblings
        app.add_middleware(PeerViews, peers=peers, broker=runtime.broker, history=runtime.history, workers=workers)
    app.add_middleware(Access, tokens=runtime.tokens)
    if runtime.tokens is None:
        app.add_middleware(HostNames, names=settings.host_names)
    app.add_middleware(ErrorBoundary, log=runtime.log, metrics=runtime.metrics)


def _example_decision(runtime: Runtime) -> Any:
    """A true answer to the example of the document; None where the policy can't give one at once."""
    if runtime.decider.default_policy in runtime.slow:
        return None
    try:
        return msgspec.to_builtins(runtime.decider(EXAMPLE))
    except (ApiError, PolicyFailedError):
        return None


async def _raise_framework_error(request: Request, error: Exception) -> Any:
    """Give 404 and 405 of the framework the one error shape."""
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for nothing else
    code = FRAMEWORK_CODES.get(error.status_code, "bad_request")
    message = f"{request.method} {request.url.path[:200]}: {error.detail}"
    raise ApiError(error.status_code, code, message, headers=error.headers) from None


async def _raise_parameter_error(request: Request, error: Exception) -> Any:
    """Name the first wrong query or path parameter; the framework's own answer would echo the input."""
    del request
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for nothing else
    problem = error.errors()[0]
    raise ApiError(422, "bad_request", str(problem["msg"]), field=".".join(str(part) for part in problem["loc"][1:]))
