"""One shape for everything that goes wrong: `{"error": {"code", "message", "field"?, "hint"?}}`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

# Every code a client can meet, with what it means; metrics have a series for each from the start.
CODES = {
    "bad_json": "The body is not JSON in UTF-8.",
    "bad_request": "The request cannot be understood.",
    "unauthorized": "No bearer token, or one the server does not know.",
    "forbidden": "The token belongs to another node.",
    "not_found": "No such path, or a node that has not reported since the server started.",
    "method_not_allowed": "The path exists, the method does not.",
    "timeout": "The body did not arrive in time.",
    "too_large": "The body is longer than the server accepts.",
    "unsupported_media_type": "The body is declared as something other than JSON.",
    "invalid_observation": "The JSON is not an observation; `field` says where.",
    "invalid_experience": "The JSON is no batch of experiences, or one of them contradicts itself; `field` says where.",
    "invalid_dataset": "The package did not arrive as it was sent.",
    "request_refused": "The observation contradicts itself, or names something unknown.",
    "rate_limited": "This node posts more often, or its token takes more of the server, than is its share.",
    "overloaded": "The server has too much to do; come back after `Retry-After` seconds.",
    "not_ready": "The server is starting or stopping.",
    "store_unavailable": "The experience store can't be written or read now; decisions go on.",
    "policy_failed": "The policy raised, or answered with an illegal decision; the log has the details.",
    "internal": "A fault of the server; the log has the details.",
}


class ErrorBody(msgspec.Struct, omit_defaults=True):
    """What happened, in words a person can act on. `field` is the path in the request, such as services[0].name."""

    code: str
    message: str
    field: str | None = None
    hint: str | None = None


class ErrorEnvelope(msgspec.Struct):
    """Body of every answer with a status of 400 or more."""

    error: ErrorBody


class ApiError(Exception):
    """Anything a client must be told. Raised anywhere, answered in one place (`boundary.Boundary`)."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        field: str | None = None,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = ErrorBody(code, message, field, hint)
        self.headers = dict(headers or {})

    def response(self) -> Response:
        """The answer to send."""
        content = msgspec.json.encode(ErrorEnvelope(self.body))
        return Response(content, self.status, self.headers, "application/json")


class ClientGoneError(Exception):
    """The client closed the connection before its body was complete: nobody is left to answer."""
