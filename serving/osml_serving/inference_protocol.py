"""The shapes of the Open Inference Protocol, version 2, and tensors in and out of them: as JSON, and binary."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain
from math import isnan
from typing import Annotated, Any, cast

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from osml_serving.errors import ApiError

DATATYPE = "FP32"
MAX_ROWS = 4096
BINARY_SIZE = "binary_data_size"
LENGTH_HEADER = "inference-header-content-length"
EXTENSIONS = ["binary_tensor_data"]
_NUMBERS = frozenset((float, int, type(None)))  # exactly: to Python, a bool is an int
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
    """A tensor. `data` is flat, row by row, or nested; null is a value that was not measured.

    A binary tensor has no `data`, and its length in bytes in `parameters.binary_data_size`.
    """

    name: str
    shape: Annotated[list[Annotated[int, Meta(ge=0, le=2**31)]], Meta(min_length=1, max_length=4)]
    datatype: str
    data: list[Any] | None = None
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


class InferOutput(Struct, omit_defaults=True):
    """A tensor, flat, row by row; where it is binary, `parameters.binary_data_size` instead of `data`."""

    name: str
    shape: list[int]
    datatype: str
    data: list[float] | None = None
    parameters: dict[str, int] = {}


class InferResponse(Struct, omit_defaults=True):
    """The outputs of a model."""

    model_name: str
    model_version: str
    outputs: list[InferOutput]
    id: str | None = None


def wrong(message: str) -> ApiError:
    """400 with a sentence."""
    return ApiError(400, "bad_request", message)


def features_of(request: InferRequest, columns: int, binary: bytes = b"") -> NDArray[np.float32]:
    """The tensor `features`, (rows, columns), NaN for null. Raises ApiError for any other input.

    `binary` is what follows the JSON of the body. NaN in it is a value that was not measured, as null is in JSON.
    """
    tensor = request.inputs[0]
    if len(request.inputs) != 1 or tensor.name != "features":
        names = ", ".join(given.name for given in request.inputs)
        raise wrong(f"inputs are [{names[:200]}], expected one input 'features'")
    if tensor.datatype != DATATYPE:
        raise wrong(f"input features has datatype '{tensor.datatype[:20]}', expected {DATATYPE}")
    if len(tensor.shape) != 2 or tensor.shape[1] != columns or not 1 <= tensor.shape[0] <= MAX_ROWS:
        raise wrong(f"input features has shape {tensor.shape}, expected [1 to {MAX_ROWS}, {columns}]")
    size = tensor.shape[0] * columns
    if BINARY_SIZE in tensor.parameters:
        return _from_bytes(binary, tensor.parameters[BINARY_SIZE], size).reshape(tensor.shape)
    if tensor.data is None or binary:
        raise wrong(f"input features has no data, expected `data` or `parameters.{BINARY_SIZE}`, and only one of them")
    found = _plain_numbers(tensor.data, size)
    if found is None:
        values: list[float] = []
        _flatten(tensor.data, values, size)
        found = np.array(values, np.float32)
    if len(found) != size:
        raise wrong(f"input features has {len(found)} values, expected {size} for shape {tensor.shape}")
    lengths = {len(cast(list[Any], row)) if isinstance(row, list) else 0 for row in tensor.data}
    if lengths not in ({0}, {columns}):
        raise wrong(f"input features has nested rows of other lengths than {columns}, the length in its shape")
    return found.reshape(tensor.shape)


def _plain_numbers(data: list[Any], size: int) -> NDArray[np.float32] | None:
    """What `_flatten` finds, without a look at each value by itself; None where one of them needs that look.

    Of a batch, looking at each took three quarters of the time.
    """
    flat: list[Any] = list(chain.from_iterable(data)) if set(map(type, data)) == {list} else data
    if len(flat) != size or not _NUMBERS.issuperset(map(type, flat)):
        return None
    try:
        values = np.array(flat, np.float64)  # null becomes NaN
    except OverflowError:  # an integer beyond all floats
        return None
    return None if (np.abs(values) > _LARGEST).any() else values.astype(np.float32)


def _from_bytes(binary: bytes, declared: object, size: int) -> NDArray[np.float32]:
    expected = 4 * size
    if declared != expected or len(binary) != expected:
        found = f"{str(declared)[:20]} and {len(binary)} bytes follow"
        raise wrong(f"{BINARY_SIZE} of input features is {found}, expected {expected} for its shape")
    values = np.frombuffer(binary, "<f4").astype(np.float32)
    if np.isinf(values).any():
        raise wrong("input features has an infinite value, expected numbers, or NaN for what was not measured")
    return values


def _flatten(data: list[Any], into: list[float], most: int, depth: int = 0) -> None:
    for value in data:
        if value is None or (isinstance(value, float) and isnan(value)):
            into.append(np.nan)
        elif isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST:
            into.append(float(value))
        elif isinstance(value, list) and depth == 0:
            _flatten(cast(list[Any], value), into, most, 1)
        else:
            shown = _shown(cast(object, value))
            raise wrong(f"input features has the value {shown}, expected {DATATYPE} numbers or null")
        if len(into) > most:
            raise wrong(f"input features has more than {most} values, expected {most} for its shape")


def _shown(value: object) -> str:
    if isinstance(value, float) and np.isinf(value):
        return "Infinity"
    if isinstance(value, int) and abs(value) > _LARGEST:  # beyond what the encoder writes
        return "(a number with more than 38 digits)"
    return msgspec.json.encode(value).decode()[:40]


def outputs_of(request: InferRequest, answers: dict[str, NDArray[np.float32]]) -> tuple[list[InferOutput], list[bytes]]:
    """The requested tensors, all if none is named, and the bytes of the binary ones. ApiError for an unknown name."""
    wanted = request.outputs or [WantedOutput(name) for name in answers]
    if len({output.name for output in wanted}) != len(wanted):
        raise wrong("outputs name a tensor twice, expected unique names")
    for output in wanted:
        if output.name not in answers:
            raise wrong(f"output '{output.name[:100]}' is unknown, expected one of {', '.join(answers)}")
        if not np.isfinite(answers[output.name]).all():
            raise ApiError(500, "internal", f"the model gave NaN or infinity for output '{output.name}'")
    binary_by_default = request.parameters.get("binary_data_output", False) is True
    outputs: list[InferOutput] = []
    raw: list[bytes] = []
    for output in wanted:
        values = answers[output.name]
        tensor = InferOutput(output.name, list(values.shape), DATATYPE)
        if output.parameters.get("binary_data", binary_by_default) is True:
            raw.append(values.astype("<f4").tobytes())
            tensor.parameters = {BINARY_SIZE: len(raw[-1])}
        else:
            tensor.data = values.ravel().tolist()
        outputs.append(tensor)
    return outputs, raw


def split_body(body: bytes, header_length: str | None) -> tuple[bytes, bytes]:
    """The JSON of a body and the binary tensors after it. Raises ApiError for a length that makes no sense."""
    if header_length is None:
        return body, b""
    is_number = header_length.isascii() and header_length.isdigit() and len(header_length) <= _DIGITS
    if not is_number or int(header_length) > len(body):
        expected = f"expected the length of the JSON, at most {len(body)}"
        raise wrong(f"the header {LENGTH_HEADER} is '{header_length[:40]}', {expected}")
    length = int(header_length)
    return body[:length], body[length:]


_DIGITS = 20  # Python converts no number of thousands of digits


def decode_request(text: bytes, decode: Callable[[bytes], InferRequest]) -> InferRequest:
    """The request in JSON. The word NaN, which is no JSON, is what clients in Python write for a missing value."""
    try:
        return decode(text)
    except ApiError as error:
        if error.status != 400 or b"NaN" not in text:
            raise
        try:
            plain = json.loads(text)
            return msgspec.convert(plain, InferRequest)
        except (ValueError, RecursionError, msgspec.ValidationError):
            raise error from None
