"""FastAPI and pydantic as most would write a scheduler's server, without a policy: what a framework costs by itself.

It checks an observation with the fields of ours, and answers with the same decision always, through a response model.
`python -m osml.lab.benchmarks.plain_app PORT`.
"""
# pyright: basic

from __future__ import annotations

import sys
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field, create_model

from osml.decide.decide import decide
from osml.domain import Decision, Observation, Platform, Service


@cache
def model_of(struct: type[msgspec.Struct]) -> type[BaseModel]:
    """The pydantic model with the fields of a struct, by their names on the wire."""
    hints = get_type_hints(struct)
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(struct):
        required = field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
        kept = Field(alias=field.encode_name) if required else Field(None, alias=field.encode_name)
        kind = _type_of(hints[field.name])
        name = f"{field.name}_" if hasattr(BaseModel, field.name) else field.name
        fields[name] = (kind if required else kind | None, kept)
    return create_model(struct.__name__, __config__=ConfigDict(populate_by_name=True), **fields)


def _type_of(kind: Any) -> Any:
    """The same type with models in the place of structs."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return model_of(kind)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is None or origin is Literal:
        return kind
    wanted = tuple(_type_of(one) for one in inner if one is not msgspec.UnsetType)
    if origin in (Union, UnionType):
        return Union[wanted]  # noqa: UP007 - as many as there are
    return origin[wanted]


def make_app() -> FastAPI:
    """The application."""
    example = Observation(
        node="node-17",
        seq=0,
        time_s=0.0,
        interval_s=1.0,
        platform=Platform(id="e5-2697v4", cores=36, cpus="0-35", ways=20),
        services=[Service(name, "lc", target_ms=10.0) for name in ("moses", "xapian", "img-dnn", "masstree")],
    )
    same = msgspec.to_builtins(decide(example))
    app, asked, told = FastAPI(), model_of(Observation), model_of(Decision)

    async def answer(observation: Any) -> Any:
        return {**same, "node": observation.node, "seq": observation.seq}

    answer.__annotations__ = {"observation": asked, "return": Any}
    app.post("/v1/decisions", response_model=told, response_model_exclude_unset=True)(answer)

    @app.get("/readyz")
    async def ready() -> str:
        return "ok"

    return app


if __name__ == "__main__":
    uvicorn.run(make_app(), port=int(sys.argv[1]), log_level="error", access_log=False)
