"""Leaves keys out that a type does not know: a newer agent works with an older server of the same major version."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from msgspec import inspect

Json = dict[str, Any]


def known_part(value: Any, kind: type) -> tuple[Any, list[str]]:
    """What `kind` knows of a JSON value, and the paths of the keys that it does not know."""
    unknown: list[str] = []
    return _known(value, _type_of(kind), "", unknown), unknown


@cache
def _type_of(kind: type) -> inspect.Type:
    return inspect.type_info(kind)


@cache
def _fields(kind: type) -> dict[str, inspect.Type]:
    struct = _type_of(kind)
    assert isinstance(struct, inspect.StructType)  # noqa: S101 - called for nothing else
    return {field.encode_name: field.type for field in struct.fields}


def _known(value: Any, kind: inspect.Type, path: str, unknown: list[str]) -> Any:
    if isinstance(kind, inspect.UnionType):
        wanted = (
            (inspect.StructType, inspect.DictType) if isinstance(value, dict) else (inspect.ListType, inspect.TupleType)
        )
        kind = next((one for one in kind.types if isinstance(one, wanted)), kind)
    if isinstance(value, dict):
        members = cast(Json, value)
        if isinstance(kind, inspect.StructType):
            fields = _fields(kind.cls)
            unknown.extend(f"{path}{key}" for key in members if key not in fields)
            return {k: _known(v, fields[k], f"{path}{k}.", unknown) for k, v in members.items() if k in fields}
        if isinstance(kind, inspect.DictType):
            return {k: _known(v, kind.value_type, f"{path}{k}.", unknown) for k, v in members.items()}
    if isinstance(value, list) and isinstance(kind, inspect.ListType):
        stem = path.removesuffix(".")
        items = enumerate(cast(list[Any], value))
        return [_known(item, kind.item_type, f"{stem}[{index}].", unknown) for index, item in items]
    return cast(Any, value)
