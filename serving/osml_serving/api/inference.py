"""`/v2`: the models by themselves, for clients of the Open Inference Protocol (KServe, Triton)."""

# pyright: reportUnusedFunction=false
# FastAPI calls the routes.
from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Annotated, Any

import msgspec
import numpy as np
from fastapi import APIRouter, Path, Request, Response
from numpy.typing import NDArray
from starlette.datastructures import Headers
from starlette.types import Scope

from osml.base.failure import InputError
from osml.predictors import Predictor
from osml.predictors.q_function import QFunction
from osml_serving import __version__
from osml_serving.api.decoding import Body
from osml_serving.api.direct import Answer, Find
from osml_serving.api.document import INFER, V2, V2_MODEL, V2_MODEL_READY, V2_READY
from osml_serving.errors import ApiError
from osml_serving.inference_protocol import (
    DATATYPE,
    EXTENSIONS,
    LENGTH_HEADER,
    InferRequest,
    InferResponse,
    ModelDescription,
    ModelReady,
    ServerMetadata,
    TensorMetadata,
    decode_request,
    features_of,
    outputs_of,
    split_body,
    wrong,
)
from osml_serving.runtime import Runtime

MODELS = "/v2/models/"
MAX_NAME, MAX_VERSION = 128, 32
Name = Annotated[str, Path(max_length=MAX_NAME, description="Name of a model, as in /readyz.")]
Version = Annotated[str, Path(max_length=MAX_VERSION, description="Version of the model.")]
Model = Predictor | QFunction
SHORT = 16 * 1024
"""Bytes of a body whose rows take less time than to hand them to a thread and back: 0.3 ms, and 3 ms at worst."""
_body = Body(InferRequest, "bad_request", "an inference request")


def router(runtime: Runtime) -> APIRouter:
    """The routes, bound to one server's parts."""
    routes = APIRouter()

    @routes.post("/v2/models/{name}/infer", name="run_inference", openapi_extra=INFER, response_class=Response)
    @routes.post(
        "/v2/models/{name}/versions/{version}/infer", name="run_inference", openapi_extra=INFER, response_class=Response
    )
    async def infer(request: Request, name: Name, version: Version | None = None) -> Response:
        """Run a model on one tensor `features`; its rows have the order of the inputs.

        Null (JSON) or NaN (binary) means not measured. The binary tensor extension is supported.
        """
        return await _infer(runtime, name, version, request.scope, await request.body())

    @routes.get("/v2", name="inference_server", openapi_extra=V2, response_class=Response)
    async def server() -> Response:
        """Name the server and its version."""
        return _json(ServerMetadata("osml", __version__, EXTENSIONS))

    @routes.get("/v2/health/live", name="inference_live")
    async def live() -> dict[str, bool]:
        """Answer 200 while the process runs."""
        return {"live": True}

    @routes.get("/v2/health/ready", name="inference_ready", openapi_extra=V2_READY)
    async def ready() -> dict[str, bool]:
        """Answer 200 if the server is ready."""
        if runtime.readiness.reason is not None:
            raise ApiError(503, "not_ready", runtime.readiness.reason, headers={"retry-after": "1"})
        return {"ready": True}

    @routes.get("/v2/models/{name}", openapi_extra=V2_MODEL, response_class=Response)
    @routes.get("/v2/models/{name}/versions/{version}", openapi_extra=V2_MODEL, response_class=Response)
    async def model(name: Name, version: Version | None = None) -> Response:
        """Describe a model: raw features as input, raw units as output."""
        return _json(_describe(_find(runtime, name, version)))

    @routes.get("/v2/models/{name}/ready", openapi_extra=V2_MODEL_READY, response_class=Response)
    @routes.get("/v2/models/{name}/versions/{version}/ready", openapi_extra=V2_MODEL_READY, response_class=Response)
    async def model_ready(name: Name, version: Version | None = None) -> Response:
        """Answer 200 if the model is in use."""
        return _json(ModelReady(_find(runtime, name, version).metadata.name, True))

    return routes


def find(runtime: Runtime) -> Find:
    """The answers of `infer` by path, bound to one server's parts."""

    def answer_of(path: str) -> Answer | None:
        if not path.startswith(MODELS):
            return None
        match path[len(MODELS) :].split("/"):
            case [name, "infer"] if 0 < len(name) <= MAX_NAME:
                return partial(_infer, runtime, name, None)
            case [name, "versions", version, "infer"] if 0 < len(name) <= MAX_NAME and 0 < len(version) <= MAX_VERSION:
                return partial(_infer, runtime, name, version)
            case _:  # whatever it is, the framework says what is wrong with it
                return None

    return answer_of


async def _infer(runtime: Runtime, name: str, version: str | None, scope: Scope, body: bytes) -> Response:
    model = _find(runtime, name, version)
    headers = Headers(scope=scope)
    if headers.get("content-encoding", "identity") != "identity":
        raise wrong("the body is compressed, expected one without Content-Encoding")
    length = headers.get(LENGTH_HEADER)
    runtime.share.check(scope)
    if len(body) <= SHORT:
        seconds, answer = _timed(model, body, length)
    else:  # thousands of rows take tens of milliseconds, in which decisions must not wait
        seconds, answer = await asyncio.to_thread(_timed, model, body, length)
    runtime.share.spend(scope, seconds)
    if isinstance(answer, Exception):
        raise answer
    return answer


def _find(runtime: Runtime, name: str, version: str | None) -> Model:
    model = None if runtime.shelf is None else runtime.shelf.find(name)
    if model is None:
        raise ApiError(404, "not_found", f"model '{name}' is unknown; /readyz lists the models")
    if version not in (None, model.metadata.version):
        message = f"version {version} of model '{name}' is unknown, expected {model.metadata.version}"
        raise ApiError(404, "not_found", message)
    return model


def _timed(model: Model, body: bytes, header_length: str | None) -> tuple[float, Response | Exception]:
    """The CPU time that it took, and the answer or what was raised instead: refusals take time, too."""
    began_s = time.thread_time()
    try:
        answer: Response | Exception = _answer(model, body, header_length)
    except Exception as error:
        answer = error
    return time.thread_time() - began_s, answer


def _answer(model: Model, body: bytes, header_length: str | None) -> Response:
    text, binary = split_body(body, header_length)
    request = decode_request(text, _body.decode)
    answers = _run(model, features_of(request, len(model.metadata.inputs), binary))
    outputs, raw = outputs_of(request, answers)
    answer = InferResponse(model.metadata.name, model.metadata.version, outputs, request.id)
    if not raw:
        return _json(answer)
    head = msgspec.json.encode(answer)
    headers = {LENGTH_HEADER: str(len(head))}
    return Response(b"".join([head, *raw]), headers=headers, media_type="application/octet-stream")


def _run(model: Model, features: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
    try:
        if isinstance(model, QFunction):
            return {"q": model.q(features)}
        prediction = model.predict(features)
    except InputError as error:
        raise wrong(str(error)) from None
    return {"points": prediction.points, "spread": prediction.spread}


def _describe(model: Model) -> ModelDescription:
    metadata = model.metadata
    names = ("q",) if isinstance(model, QFunction) else ("points", "spread")
    return ModelDescription(
        metadata.name,
        [metadata.version],
        "onnxruntime_onnx",
        [TensorMetadata("features", DATATYPE, [-1, len(metadata.inputs)])],
        [TensorMetadata(name, DATATYPE, [-1, len(metadata.outputs)]) for name in names],
    )


def _json(answer: Any) -> Response:
    return Response(msgspec.json.encode(answer), media_type="application/json")
