"""Routes that agents call in every interval are answered before the framework's routing; all others go on to it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest
from fastapi import Response
from osml_serving.api import inference
from osml_serving.api.direct import DirectRoutes, of_json
from osml_serving.errors import ApiError, ClientGoneError

if TYPE_CHECKING:
    from osml_serving.runtime import Runtime

PATH = "/v1/decisions"


def asked(method: str, path: str, message: dict[str, Any], content_type: bytes = b"application/json") -> list[Any]:
    """What is sent for a request; "inner" where the application below was called."""
    sent: list[Any] = []

    async def inner(_scope: Any, _receive: Any, _send: Any) -> None:
        sent.append("inner")

    async def answer(_scope: Any, body: bytes) -> Response:
        return Response(body[::-1])

    async def receive() -> dict[str, Any]:
        return message

    async def send(part: Any) -> None:
        sent.append(part.get("body", part.get("status")))

    scope = {"type": "http", "method": method, "path": path, "headers": [(b"content-type", content_type)]}
    asyncio.run(DirectRoutes(inner, {PATH: of_json(answer)}.get)(scope, receive, send))
    return sent


BODY = {"type": "http.request", "body": b"abc"}


def test_a_body_gets_its_answer() -> None:
    assert asked("POST", PATH, BODY) == [200, b"cba"]


@pytest.mark.parametrize(("method", "path"), [("GET", PATH), ("POST", f"{PATH}/"), ("POST", "/v1/other")])
def test_others_go_on_to_the_framework(method: str, path: str) -> None:
    assert asked(method, path, BODY) == ["inner"]


def test_a_client_that_is_gone_is_no_fault() -> None:
    with pytest.raises(ClientGoneError):
        asked("POST", PATH, {"type": "http.disconnect"})


def test_another_content_type_is_refused_as_the_framework_would() -> None:
    assert asked("POST", PATH, BODY, b"Application/JSON; charset=utf-8") == [200, b"cba"]
    with pytest.raises(ApiError, match="the Content-Type of the body is 'text/plain', expected application/json"):
        asked("POST", PATH, BODY, b"text/plain")


@pytest.mark.parametrize(
    ("path", "direct"),
    [
        ("/v2/models/a2/infer", True),
        ("/v2/models/a2/versions/3/infer", True),
        ("/v2/models/a2", False),
        ("/v2/models//infer", False),
        ("/v2/models/a2/versions//infer", False),
        ("/v2/models/a/b/infer", False),
        (f"/v2/models/{'a' * 129}/infer", False),
        (f"/v2/models/a2/versions/{'1' * 33}/infer", False),
        ("/v1/decisions", False),
    ],
)
def test_models_run_without_the_framework_where_the_path_is_sound(path: str, direct: bool) -> None:
    assert (inference.find(cast("Runtime", None))(path) is not None) == direct
