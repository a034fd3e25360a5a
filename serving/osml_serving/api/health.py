"""Probes and metrics, for orchestrators and Prometheus."""

# pyright: reportUnusedFunction=false
# FastAPI calls the routes.
from __future__ import annotations

import re

import msgspec
from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from osml_serving.api.document import METRICS, READY
from osml_serving.errors import ApiError
from osml_serving.runtime import Runtime

FOLDERS = re.compile(r"(?<![\w.:/])/(?:[^\s/'\"]+/)*")  # from the root down to the last name


class Health(BaseModel):
    """The process runs."""

    status: str = "ok"


class Model(BaseModel):
    """A model in use; `sha256` is the checksum of its ONNX file."""

    name: str
    kind: str
    version: str
    platform: str
    sha256: str


class Refused(BaseModel):
    """A model in the folder that was refused, and the reason. The old model stays in use."""

    name: str
    reason: str


class Unavailable(BaseModel):
    """An installed policy that cannot decide on this machine, and why."""

    name: str
    reason: str


class Ready(BaseModel):
    """The policies and models of a ready server; the process of a starting policy does not decide yet."""

    status: str = "ready"
    policies: list[str]
    starting_policies: list[str]
    unavailable_policies: list[Unavailable]
    default_policy: str
    models: list[Model]
    refused_models: list[Refused]


def router(runtime: Runtime) -> APIRouter:
    """The routes, bound to one server's parts."""
    routes = APIRouter()

    @routes.get("/healthz")
    async def healthz() -> Health:
        """Answer 200 while the process runs."""
        return Health()

    @routes.get("/readyz", openapi_extra=READY)
    async def readyz() -> Ready:
        """Answer 200 if the default policy passed its warm-up and decides, and the server is not stopping."""
        if runtime.readiness.reason is not None:
            raise ApiError(503, "not_ready", runtime.readiness.reason, headers={"retry-after": "1"})
        shelf = runtime.shelf
        models = [] if shelf is None else [Model(**msgspec.structs.asdict(model)) for model in shelf.in_use()]
        refused, folder = ((), "") if shelf is None else (shelf.refused, str(shelf.folder))
        return Ready(
            policies=runtime.decider.policies,
            starting_policies=[
                name
                for name, process in runtime.slow.items()
                if name in runtime.decider.policies and not process.ready.is_set()
            ],
            unavailable_policies=[Unavailable(name=n, reason=r) for n, r in runtime.decider.unavailable.items()],
            default_policy=runtime.decider.default_policy,
            models=models,
            refused_models=[Refused(name=model.name, reason=without_paths(model.reason, folder)) for model in refused],
        )

    @routes.get("/metrics", openapi_extra=METRICS, response_class=Response)
    async def metrics() -> Response:
        """Metrics in the text format of Prometheus."""
        return Response(runtime.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return routes


def without_paths(reason: str, folder: str) -> str:
    """The sentence with files by their names alone: a probe needs no token, and the log has the whole of it."""
    return FOLDERS.sub("", reason.replace(f"{folder}/", "") if folder else reason)
