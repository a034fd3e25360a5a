"""`/v1/datasets`: data sets of contributors (`osml learn data contribute --server`), taken in, checked, kept."""

# pyright: reportUnusedFunction=false
# FastAPI calls the routes.
from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import IO, Annotated

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse

from osml_serving.api.document import DATASET, DATASETS, NEW_DATASET, PACKAGE
from osml_serving.datasets.shelf import IDENTITY, DatasetList, DatasetShelf
from osml_serving.errors import ApiError, ClientGoneError
from osml_serving.guards.request_limits import CLOSE
from osml_serving.runtime import Runtime

PATH = "/v1/datasets"
MEDIA_TYPE = "application/x-tar"
TAKEN = (MEDIA_TYPE, "application/octet-stream")  # generated clients know the second only
AT_ONCE = 2
CHUNK_TIMEOUT_S = 30.0
GRACE_S = 60.0
SLOWEST = 128 * 1024  # bytes a second, over all that has arrived
LOOK_EVERY = 64 * 2**20  # bytes between two looks at the room on the disk
Identity = Annotated[
    str, PathParameter(pattern=IDENTITY, description="Checksum of the package, from the answer of the upload.")
]


def router(runtime: Runtime) -> APIRouter:
    """The routes, bound to one server's parts."""
    routes = APIRouter()
    places = asyncio.Semaphore(AT_ONCE)

    @routes.post(PATH, name="contribute_dataset", openapi_extra=NEW_DATASET, response_class=Response, status_code=202)
    async def contribute(request: Request) -> Response:
        """Take a package of `osml learn data contribute` and check it.

        `GET /v1/datasets/{id}` has the result. A separate process with limits reads the package.
        """
        shelf = _shelf(runtime)
        declared = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if declared not in TAKEN:
            message = f"the Content-Type of the body is '{declared[:100]}', expected {' or '.join(TAKEN)}"
            hint = f"send a package of `osml learn data contribute` with 'Content-Type: {MEDIA_TYPE}'"
            raise ApiError(415, "unsupported_media_type", message, hint=hint, headers=CLOSE)
        limit = runtime.settings.max_dataset_mib * 2**20
        length = request.headers.get("content-length", "0")
        if not length.isdigit() or int(length[:20]) > limit:
            raise _too_large(limit)
        await _need_room(shelf, int(length))
        if places.locked():
            message = f"the server already receives {AT_ONCE} data sets, which is its limit"
            raise ApiError(503, "overloaded", message, headers={"retry-after": "30", **CLOSE})
        async with places:
            incoming, identity, size = await _receive(request, shelf, limit)
        try:
            expected = request.headers.get("x-content-sha256")
            if expected is not None and expected.lower() != identity:
                origin = "(header x-content-sha256)"
                message = f"the package has sha256 {identity}, expected {expected[:64]} {origin}; send it again"
                raise ApiError(422, "invalid_dataset", message, field="x-content-sha256")
            record = await shelf.take(incoming, identity, size)
        except OSError as error:
            raise _unavailable(f"the server cannot store the package: {error.strerror}") from None
        finally:
            await asyncio.to_thread(incoming.unlink, missing_ok=True)
        return Response(msgspec.json.encode(record), 202, media_type="application/json")

    @routes.get(PATH, openapi_extra=DATASETS, response_class=Response)
    async def datasets() -> Response:
        """List the contributions, newest first."""
        records = await asyncio.to_thread(_shelf(runtime).records)
        short = [msgspec.structs.replace(record, findings=[]) for record in records]
        return Response(msgspec.json.encode(DatasetList(short)), media_type="application/json")

    @routes.get(f"{PATH}/{{identity}}", openapi_extra=DATASET, response_class=Response)
    async def dataset(identity: Identity) -> Response:
        """Show one contribution with its findings."""
        record = await asyncio.to_thread(_shelf(runtime).find, identity)
        if record is None:
            raise ApiError(404, "not_found", f"data set '{identity}' is unknown", field="identity")
        return Response(msgspec.json.encode(record), media_type="application/json")

    @routes.get(f"{PATH}/{{identity}}/package", openapi_extra=PACKAGE, response_class=Response)
    async def dataset_package(identity: Identity) -> Response:
        """Send the package of an accepted contribution; its sha256 is the id."""
        file = await asyncio.to_thread(_shelf(runtime).package, identity)
        if file is None:
            message = f"the server has no accepted data set '{identity}'"
            raise ApiError(404, "not_found", message, field="identity", hint="GET /v1/datasets lists them")
        return FileResponse(file, media_type=MEDIA_TYPE, filename=f"{identity[:12]}.tar")

    return routes


def _shelf(runtime: Runtime) -> DatasetShelf:
    if runtime.datasets is None:
        message = "the server takes no data sets, because it runs without --datasets FOLDER"
        raise ApiError(404, "not_found", message, headers=CLOSE)
    return runtime.datasets


async def _receive(request: Request, shelf: DatasetShelf, limit: int) -> tuple[Path, str, int]:
    """Write the body into a file of the folder as it comes, and onto the disk: its path, checksum and length."""
    digest, size, looked_at = hashlib.sha256(), 0, 0
    try:
        file = await asyncio.to_thread(tempfile.NamedTemporaryFile, dir=shelf.folder, prefix=".incoming-", delete=False)
    except OSError as error:
        raise _unavailable(f"the server cannot store the package: {error.strerror}") from None
    with file:
        path = Path(file.name)
        try:
            async for chunk in _chunks(request):
                size += len(chunk)
                if size > limit:
                    raise _too_large(limit)
                if size - looked_at > LOOK_EVERY:  # the header Content-Length may be missing
                    await _need_room(shelf, 0)
                    looked_at = size
                digest.update(chunk)
                await asyncio.to_thread(_write, file.file, chunk)
            await asyncio.to_thread(_sync, file.file)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    return path, digest.hexdigest(), size


async def _need_room(shelf: DatasetShelf, length: int) -> None:
    try:
        if await asyncio.to_thread(shelf.room_for, length):
            return
        message = "the disk of the data set folder is full"
    except OSError as error:
        message = f"the server cannot read the data set folder: {error.strerror}"
    raise _unavailable(message)


def _unavailable(message: str) -> ApiError:
    return ApiError(503, "store_unavailable", message, headers={"retry-after": "600", **CLOSE})


def _write(file: IO[bytes], chunk: bytes) -> None:
    try:
        file.write(chunk)
        file.flush()
    except OSError as error:
        raise _unavailable(f"the server cannot store the package: {error.strerror}") from None


def _sync(file: IO[bytes]) -> None:
    try:
        os.fsync(file.fileno())
    except OSError as error:
        raise _unavailable(f"the server cannot store the package: {error.strerror}") from None


def allowance_s(received: int) -> float:
    """Time that a package may take of which so many bytes have arrived: a slower upload gets a timeout."""
    return GRACE_S + received / SLOWEST


async def _chunks(request: Request) -> AsyncGenerator[bytes]:
    """The body in pieces: each within CHUNK_TIMEOUT_S, all of them at SLOWEST bytes a second at least."""
    began_s, received = time.monotonic(), 0
    while True:
        left_s = began_s + allowance_s(received) - time.monotonic()
        try:
            async with asyncio.timeout(min(CHUNK_TIMEOUT_S, max(left_s, 0))):
                message = await request.receive()
        except TimeoutError:
            if left_s < CHUNK_TIMEOUT_S:
                text = f"the upload is too slow: {received} bytes in {time.monotonic() - began_s:.0f} s"
            else:
                text = f"the upload stopped for {CHUNK_TIMEOUT_S:g} s"
            raise ApiError(408, "timeout", text, headers=CLOSE) from None
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        chunk: bytes = message.get("body", b"")
        received += len(chunk)
        yield chunk
        if not message.get("more_body", False):
            return


def _too_large(limit: int) -> ApiError:
    message = f"the package is longer than {limit // 2**20} MiB, the limit of the server"
    hint = "send one package per platform, or raise --max-dataset-mib"
    return ApiError(413, "too_large", message, hint=hint, headers=CLOSE)
