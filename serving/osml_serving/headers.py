"""Headers of a request, as ASGI has them."""

from __future__ import annotations

from starlette.types import Scope


def header_of(scope: Scope, name: bytes) -> bytes | None:
    """The value of the first header `name` (lower case); None where the request has none."""
    return next((value for key, value in scope["headers"] if key == name), None)
