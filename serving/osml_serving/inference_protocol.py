"""The shapes of the Open Inference Protocol, version 2, as far as JSON goes, and tensors in and out of them."""

from __future__ import annotations

from typing import Annotated, Any, cast

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from osml_serving.errors import ApiError

DATATYPE = "FP32"
MAX_ROWS = 4096
_LARGEST = float(np.finfo(np.float32).max)  # a float of Python: it compares with integers of any length


class ProtocolError(Struct):
    """Body of every error of this protocol."""

    error: str


class ServerMetadata(Struct):
    """The server and its version."""

    name: str
    version: str
    extensions: list[str]


class TensorMetadata(Struct):
    """A tensor of a model; -1 is any length."""

    name: str
    datatype: str
    shape: list[int]


class ModelDescription(Struct):
    """The inputs and outputs of a model."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class ModelReady(Struct):
    """The model is in use."""

    name: str
    ready: bool


class InferInput(Struct):
    """A tensor. `data` is flat, row by row, or nested; null is a value that was not measured."""

    name: str
    shape: Annotated[list[Annotated[int, Meta(ge=0, le=2**31)]], Meta(min_length=1, max_length=4)]
    datatype: str
    data: list[Any]
    parameters: dict[str, Any] = {}


class WantedOutput(Struct):
    """An output of the model that the client requests."""

    name: str
    parameters: dict[str, Any] = {}


class InferRequest(Struct):
    """A request to run a model."""

    inputs: Annotated[list[InferInput], Meta(min_length=1, max_length=8)]
    id: str | None = None
    parameters: dict[str, Any] = {}
    outputs: Annotated[list[WantedOutput], Meta(max_length=64)] = []


class InferOutput(Struct):
    """A tensor, flat, row by row."""

    name: str
    shape: list[int]
    datatype: str
    data: list[float]


class InferResponse(Struct, omit_defaults=True):
    """The outputs of a model."""

    model_name: str
    model_version: str
    outputs: list[InferOutput]
    id: str | None = None


def wrong(message: str) -> ApiError:
    """400 with a sentence."""
    return ApiError(400, "bad_request", message)


def features_of(request: InferRequest, columns: int) -> NDArray[np.float32]:
    """The tensor `features`, (rows, columns), NaN for null. Raises ApiError for any other input."""
    tensor = request.inputs[0]
    if len(request.inputs) != 1 or tensor.name != "features":
        names = ", ".join(given.name for given in request.inputs)
        raise wrong(f"inputs are [{names[:200]}], expected one input 'features'")
    if tensor.datatype != DATATYPE:
        raise wrong(f"input features has datatype '{tensor.datatype[:20]}', expected {DATATYPE}")
    if len(tensor.shape) != 2 or tensor.shape[1] != columns or not 1 <= tensor.shape[0] <= MAX_ROWS:
        raise wrong(f"input features has shape {tensor.shape}, expected [1 to {MAX_ROWS}, {columns}]")
    values: list[float] = []
    size = tensor.shape[0] * columns
    _flatten(tensor.data, values, size)
    if len(values) != size:
        raise wrong(f"input features has {len(values)} values, expected {size} for shape {tensor.shape}")
    return np.array(values, np.float32).reshape(tensor.shape)


def _flatten(data: list[Any], into: list[float], most: int, depth: int = 0) -> None:
    for value in data:
        if value is None:
            into.append(np.nan)
        elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST:
            into.append(float(value))
        elif isinstance(value, list) and depth == 0:
            _flatten(cast(list[Any], value), into, most, 1)
        else:
            huge = isinstance(value, int) and abs(value) > _LARGEST  # beyond what the encoder writes
            shown = "(a number with more than 38 digits)" if huge else msgspec.json.encode(value).decode()[:40]
            raise wrong(f"input features has the value {shown}, expected {DATATYPE} numbers or null")
        if len(into) > most:
            raise wrong(f"input features has more than {most} values, expected {most} for its shape")


def outputs_of(request: InferRequest, answers: dict[str, NDArray[np.float32]]) -> list[InferOutput]:
    """The requested tensors; all if none is named. Raises ApiError for an unknown name."""
    names = [wanted.name for wanted in request.outputs] or list(answers)
    if len(set(names)) != len(names):
        raise wrong("outputs name a tensor twice, expected unique names")
    for name in names:
        if name not in answers:
            raise wrong(f"output '{name[:100]}' is unknown, expected one of {', '.join(answers)}")
    for name in names:
        if not np.isfinite(answers[name]).all():
            raise ApiError(500, "internal", f"the model gave NaN or infinity for output '{name}'")
    return [InferOutput(n, list(answers[n].shape), DATATYPE, answers[n].ravel().tolist()) for n in names]
