r"""JSON schemas as generators of clients read them: OpenAPI 3.0.

msgspec and FastAPI write JSON Schema 2020 (OpenAPI 3.1). Generators for Go, Rust and Java stop at its tuples and at
`anyOf` with null, and take numbers without a format for 32 bits.
"""

from __future__ import annotations

from typing import Any, cast

Json = dict[str, Any]
VERSION = "3.0.3"
DATA = ("default", "example", "examples")  # keys whose values are no schemas
FORMATS = {"number": "double", "integer": "int64"}


def portable(schema: Any) -> Any:
    """The same schema in OpenAPI 3.0. Objects may have further properties: a newer server or agent adds some."""
    if isinstance(schema, list):
        return [portable(item) for item in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    given: Json = dict(cast(Json, schema))
    if given.get("additionalProperties") is False:
        del given["additionalProperties"]
    if "prefixItems" in given:
        _loosen_tuple(given)
    if "const" in given:
        given["enum"] = [given.pop("const")]
    if "enum" in given and "type" not in given:
        given["type"] = "string"
    if given.get("type") in FORMATS:
        given.setdefault("format", FORMATS[given["type"]])
    if "exclusiveMinimum" in given and not isinstance(given["exclusiveMinimum"], bool):
        given["minimum"], given["exclusiveMinimum"] = given["exclusiveMinimum"], True
    if isinstance(given.get("pattern"), str):
        given["pattern"] = given["pattern"].replace("\\Z", "$")
    choices = given.get("anyOf")
    if isinstance(choices, list) and {"type": "null"} in choices:
        return _nullable(given, [one for one in cast(list[Json], choices) if one != {"type": "null"}])
    converted = {key: value if key in DATA else portable(value) for key, value in given.items()}
    if "$ref" in converted and len(converted) > 1:  # beside a reference nothing else counts
        return {"allOf": [{"$ref": converted.pop("$ref")}], **converted}
    return converted


def _loosen_tuple(given: Json) -> None:
    """A tuple of equal types as an array of so many; 3.0 knows no tuples of different ones."""
    kinds: list[Json] = given.pop("prefixItems")
    given["items"] = kinds[0] if all(kind == kinds[0] for kind in kinds) else {}


def _nullable(given: Json, choices: list[Json]) -> Json:
    rest = {key: value for key, value in given.items() if key != "anyOf" and not (key == "default" and value is None)}
    if len(choices) > 1:
        return portable({**rest, "anyOf": choices, "nullable": True})
    [only] = choices
    if "$ref" in only:
        return portable({**rest, "allOf": [only], "nullable": True})
    return portable({**only, **rest, "nullable": True})
