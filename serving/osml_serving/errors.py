"""One shape for everything that goes wrong: `{"error": {"code", "message", "field"?, "hint"?}}`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

# Every code a client can meet, with what it means; metrics have a series for each from the start.
CODES = {
    "bad_json": "The body is not JSON in UTF-8.",
    "bad_request": "A query parameter, a path parameter or an inference request is invalid.",
    "unauthorized": "The bearer token is missing or unknown.",
    "forbidden": "The token is not valid for this node or path, or the header Host names another server.",
    "not_found": "The path, node, model or data set is unknown.",
    "method_not_allowed": "The path does not support this method.",
    "timeout": "The body did not arrive in time.",
    "too_large": "The body is longer than the limit.",
    "unsupported_media_type": "The Content-Type of the body is wrong.",
    "invalid_observation": "The JSON is not a valid observation; `field` names the wrong part.",
    "invalid_experience": "The batch of experiences is invalid or contradictory; `field` names the wrong part.",
    "invalid_dataset": "The package differs from its checksum.",
    "request_refused": "The observation is contradictory, or names an unknown policy.",
    "policy_unavailable": "The policy is installed and cannot decide on this server.",
    "rate_limited": "The node or its token exceeds its rate limit.",
    "overloaded": "The server is overloaded; send the request again after `Retry-After` seconds.",
    "policy_late": "The policy did not decide before its deadline; keep the present allocation.",
    "not_ready": "The server, or the process of the policy, is starting or stopping.",
    "store_unavailable": "The database or the disk failed; decisions continue.",
    "policy_failed": "The policy failed, or its decision is illegal; see the log.",
    "internal": "The server has a fault; see the log.",
}


class ErrorBody(msgspec.Struct, omit_defaults=True):
    """The error and its remedy. `field` is the path in the request, such as services[0].name."""

    code: str
    message: str
    field: str | None = None
    hint: str | None = None


class ErrorEnvelope(msgspec.Struct):
    """Body of every answer with a status of 400 or more."""

    error: ErrorBody


class ApiError(Exception):
    """An error answer. Any layer raises it; `guards.error_boundary.ErrorBoundary` sends it."""

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
    """The client closed the connection before its body was complete, so no answer is possible."""
