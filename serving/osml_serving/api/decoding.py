"""Decodes request bodies into structs; an error names the field."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Generic, TypeVar, cast

import msgspec
from starlette.types import Scope

from osml_serving.api.tolerance import known_part
from osml_serving.errors import ApiError
from osml_serving.headers import header_of

PATH = re.compile(r" - at `\$\.?(.*)`$")
STEP = re.compile(r"[^.\[\]]+")
UNKNOWN = "contains unknown field"  # as msgspec says it
MAX_VALUE_SHOWN = 60
JSON = b"application/json"
T = TypeVar("T")


class Body(Generic[T]):
    """Bodies of one route: JSON of `kind`, called `name` in words, refused with `code`."""

    def __init__(self, kind: type[T], code: str, name: str) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(kind)
        self._code = code
        self._name = name

    def decode(self, body: bytes | msgspec.Raw, note_unknown: Callable[[list[str]], None] | None = None) -> T:
        """The struct in a body. Raises ApiError, which names the field.

        Unknown keys are left out where `note_unknown` is given, which gets their paths.
        """
        try:
            return self._decoder.decode(body) if note_unknown is None else self._tolerant(body, note_unknown)
        except msgspec.ValidationError as error:
            message = str(error)
            path = PATH.search(message)
            field = path[1] if path else None
            hint = f"the schema of {self._name} is in /openapi.json"
            text = _sentence(PATH.sub("", message), field, bytes(body))
            raise ApiError(422, self._code, text, field=field, hint=hint) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ApiError(400, "bad_json", f"the body is not JSON in UTF-8: {error}") from None
        except RecursionError:  # msgspec counts on Python's stack limit, and does not wrap it
            raise ApiError(400, "bad_json", "the JSON of the body has too many levels") from None

    def _tolerant(self, body: bytes | msgspec.Raw, note_unknown: Callable[[list[str]], None]) -> T:
        """Most bodies have no unknown key, and are decoded once."""
        try:
            return self._decoder.decode(body)
        except msgspec.ValidationError as error:
            if UNKNOWN not in str(error):
                raise
        known, unknown = known_part(msgspec.json.decode(body), self._kind)
        decoded = msgspec.convert(known, self._kind)
        note_unknown(unknown)
        return decoded


def _sentence(expected: str, field: str | None, body: bytes) -> str:
    """The decoder's words with the field and, where there is one, its value: an agent's log shows the message alone."""
    if not field:
        return expected
    try:
        value: object = msgspec.json.decode(body)
        for step in STEP.findall(field):
            value = _below(value, step)
        if not isinstance(value, int | float | str):
            return f"{field}: {expected}"
        shown = msgspec.json.encode(value).decode()[:MAX_VALUE_SHOWN]
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        return f"{field}: {expected}"  # the rest of the body is no JSON, or the number is beyond every type
    return f"{field} is {shown}, {expected[:1].lower()}{expected[1:]}"


def _below(value: object, step: str) -> object:
    """The member or element `step` of a JSON value, None where there is none."""
    if isinstance(value, dict):
        return cast(dict[str, object], value).get(step)
    if isinstance(value, list) and step.isdigit():
        return dict(enumerate(cast(list[object], value))).get(int(step))
    return None


def require_json(scope: Scope) -> None:
    """Raise 415 for another Content-Type: a browser sends JSON to another origin only after a preflight request."""
    header = header_of(scope, b"content-type")
    declared = (JSON if header is None else header).partition(b";")[0].strip().lower()
    if declared != JSON:
        hint = "send the header 'Content-Type: application/json'"
        message = f"the Content-Type of the body is '{declared.decode('latin-1')[:100]}', expected application/json"
        raise ApiError(415, "unsupported_media_type", message, hint=hint)
