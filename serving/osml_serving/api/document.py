"""What `/openapi.json` says about routes that read and write msgspec structs: FastAPI can't see those by itself."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.routing import APIRoute

from osml.decide.outlook import BlameNow
from osml.domain import Decision, Experiences, Observation
from osml_serving.api.descriptions import describe
from osml_serving.api.messages import (
    DAMAGED,
    BatchAnswer,
    BatchRequest,
    DayDocument,
    FleetEvents,
    NodeDocument,
    NodeList,
    NodeRollout,
    NodeSeen,
    Receipt,
    RolloutDocument,
    StoredExperiences,
)
from osml_serving.api.portable import VERSION, portable
from osml_serving.datasets.shelf import DatasetList, DatasetRecord
from osml_serving.errors import CODES, ErrorEnvelope
from osml_serving.example import EXAMPLE
from osml_serving.inference_protocol import (
    InferRequest,
    InferResponse,
    ModelDescription,
    ModelReady,
    ProtocolError,
    ServerMetadata,
)
from osml_serving.view.explain import Explanation

Json = dict[str, Any]


_ROOTS = (
    *(Observation, Decision, BatchRequest, BatchAnswer, Experiences, Receipt, StoredExperiences),
    *(DatasetRecord, DatasetList, NodeList, NodeDocument, Explanation, ErrorEnvelope),
    *(RolloutDocument, NodeRollout, NodeSeen, DayDocument, FleetEvents, BlameNow),
    *(ServerMetadata, ModelDescription, ModelReady, InferRequest, InferResponse, ProtocolError),
)
_REF = "#/components/schemas/{name}"
STATUS = {
    400: ("bad_json", "bad_request"),
    401: ("unauthorized",),
    403: ("forbidden",),
    404: ("not_found",),
    405: ("method_not_allowed",),
    408: ("timeout",),
    413: ("too_large",),
    415: ("unsupported_media_type",),
    422: (
        "invalid_observation",
        "invalid_experience",
        "invalid_dataset",
        "request_refused",
        "policy_unavailable",
        "bad_request",
    ),
    429: ("rate_limited",),
    500: ("policy_failed", "internal"),
    503: ("overloaded", "policy_late", "not_ready", "store_unavailable"),
}
CHALLENGE = {"WWW-Authenticate": {"schema": {"type": "string"}, "description": "Bearer"}}
RETRY = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait."}}
HEADERS = {401: CHALLENGE, 429: RETRY, 503: RETRY}


def _ref(root: type) -> Json:
    return {"$ref": _REF.format(name=root.__name__)}


def _errors(*statuses: int) -> Json:
    responses: Json = {}
    for status in statuses:
        meaning = " ".join(f"`{code}`: {CODES[code]}" for code in STATUS[status])
        content = {"application/json": {"schema": _ref(ErrorEnvelope)}}
        responses[str(status)] = {"description": meaning, "content": content}
        if status in HEADERS:
            responses[str(status)]["headers"] = HEADERS[status]
    return responses


def _answer(description: str, media_type: str, schema: Json, status: str = "200") -> Json:
    return {status: {"description": description, "content": {media_type: {"schema": schema}}}}


BEARER: list[Json] = [{"bearer": []}, {}]
DECISIONS: Json = {
    "tags": ["decisions"],
    "security": BEARER,
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": _ref(Observation),
                "examples": {"first": {"summary": "First interval of a node", "value": msgspec.to_builtins(EXAMPLE)}},
            }
        },
    },
    "responses": {
        **_answer("The decision.", "application/json", _ref(Decision)),
        **_errors(400, 401, 403, 408, 413, 415, 422, 429, 500, 503),
    },
}
BATCH: Json = {
    "tags": ["decisions"],
    "security": BEARER,
    "requestBody": {"required": True, "content": {"application/json": {"schema": _ref(BatchRequest)}}},
    "responses": {
        **_answer("A decision or an error for each observation.", "application/json", _ref(BatchAnswer)),
        **_errors(400, 401, 403, 408, 413, 415, 422, 429, 503),
    },
}
EXPERIENCES: Json = {
    "tags": ["learning"],
    "security": BEARER,
    "requestBody": {"required": True, "content": {"application/json": {"schema": _ref(Experiences)}}},
    "responses": {
        **_answer("The server stored the experiences.", "application/json", _ref(Receipt), "202"),
        **_errors(400, 401, 403, 404, 408, 413, 415, 422, 429, 503),
    },
}
STORED_EXPERIENCES: Json = {
    "tags": ["learning"],
    "security": BEARER,
    "responses": {
        "200": {
            **_answer("The experiences.", "application/json", _ref(StoredExperiences))["200"],
            "headers": {DAMAGED: {"description": "Number of unreadable rows.", "schema": {"type": "integer"}}},
        },
        **_errors(401, 403, 404, 422, 503),
    },
}
NEW_DATASET: Json = {
    "tags": ["datasets"],
    "security": BEARER,
    "requestBody": {
        "required": True,
        # Bytes by their general name, which the server takes, too: generators do not know that of packages.
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    },
    "responses": {
        **_answer("The server has the package and checks it.", "application/json", _ref(DatasetRecord), "202"),
        **_errors(401, 403, 404, 408, 413, 415, 422, 503),
    },
}
DATASETS: Json = {
    "tags": ["datasets"],
    "security": BEARER,
    "responses": {
        **_answer("The contributions.", "application/json", _ref(DatasetList)),
        **_errors(401, 403, 404),
    },
}
DATASET: Json = {
    "tags": ["datasets"],
    "security": BEARER,
    "responses": {
        **_answer("The contribution.", "application/json", _ref(DatasetRecord)),
        **_errors(401, 403, 404, 422),
    },
}
PACKAGE: Json = {
    "tags": ["datasets"],
    "security": BEARER,
    "responses": {
        "200": {
            "description": "The package.",
            "content": {"application/x-tar": {"schema": {"type": "string", "format": "binary"}}},
        },
        **_errors(401, 403, 404, 422),
    },
}
NODES: Json = {
    "tags": ["live view"],
    "security": BEARER,
    "responses": {**_answer("The nodes.", "application/json", _ref(NodeList)), **_errors(401, 403)},
}
ROLLOUT: Json = {
    "tags": ["rollout"],
    "security": BEARER,
    "responses": {**_answer("The rollout.", "application/json", _ref(RolloutDocument)), **_errors(401, 403)},
}
NODE_ROLLOUT: Json = {
    "tags": ["rollout"],
    "security": BEARER,
    "responses": {
        **_answer("The rollout at this node.", "application/json", _ref(NodeRollout)),
        **_errors(401, 403, 404, 422),
    },
}
NODE: Json = {
    "tags": ["live view"],
    "security": BEARER,
    "responses": {**_answer("The intervals.", "application/json", _ref(NodeDocument)), **_errors(401, 403, 404, 422)},
}
DAY: Json = {
    "tags": ["live view"],
    "security": BEARER,
    "responses": {**_answer("The day.", "application/json", _ref(DayDocument)), **_errors(401, 403, 404, 422)},
}
SEEN: Json = {
    "tags": ["live view"],
    "security": BEARER,
    "responses": {**_answer("The age.", "application/json", _ref(NodeSeen)), **_errors(401, 403, 404, 422)},
}
BLAME: Json = {
    "tags": ["live view"],
    "security": BEARER,
    "responses": {
        **_answer("The blame.", "application/json", _ref(BlameNow)),
        **_errors(401, 403, 404, 422, 429, 500, 503),
    },
}
FLEET_EVENTS: Json = {
    "tags": ["live view"],
    "security": BEARER,
    "responses": {**_answer("The events.", "application/json", _ref(FleetEvents)), **_errors(401, 403, 422)},
}
EXPLAIN: Json = {
    "tags": ["live view"],
    "security": BEARER,
    "responses": {
        **_answer("The explanation.", "application/json", _ref(Explanation)),
        **_errors(401, 403, 404, 422, 429),
    },
}
EVENTS: Json = {
    "tags": ["live view"],
    "security": BEARER,
    "responses": {
        **_answer("The stream.", "text/event-stream", {"type": "string"}),
        **_errors(401, 403, 422, 503),
    },
}


def _protocol(description: str, schema: type | None, *statuses: int) -> Json:
    """Responses of the Open Inference Protocol."""
    responses = {} if schema is None else _answer(description, "application/json", _ref(schema))
    content = {"application/json": {"schema": _ref(ProtocolError)}}
    for status in statuses:
        responses[str(status)] = {"description": "The error.", "content": content}
        if status in HEADERS:
            responses[str(status)]["headers"] = HEADERS[status]
    return {"tags": ["inference"], "security": BEARER, "responses": responses}


V2: Json = _protocol("The server.", ServerMetadata)
V2_READY: Json = _protocol("", None, 503)
V2_MODEL: Json = _protocol("The model.", ModelDescription, 401, 403, 404, 422)
V2_MODEL_READY: Json = _protocol("The model is in use.", ModelReady, 401, 403, 404, 422)
INFER: Json = {
    **_protocol("The answer.", InferResponse, 400, 401, 403, 404, 408, 413, 422, 429, 500, 503),
    "requestBody": {"required": True, "content": {"application/json": {"schema": _ref(InferRequest)}}},
}
METRICS: Json = {
    "tags": ["operation"],
    "security": BEARER,
    "responses": {**_answer("The metrics.", "text/plain", {"type": "string"}), **_errors(401, 403)},
}
READY: Json = {"tags": ["operation"], "responses": _errors(503)}


def complete(app: FastAPI, document: Json) -> Json:
    """Add the schemas of the structs with their meaning, a real answer as example, and how to log in."""
    _, schemas = msgspec.json.schema_components(_ROOTS, ref_template=_REF)
    components: Json = document.setdefault("components", {})
    known: Json = components.setdefault("schemas", {})
    known.update(schemas)
    for unused in ("HTTPValidationError", "ValidationError"):
        known.pop(unused, None)
    for schema in known.values():
        for part in schema.get("properties", {}).values():
            part.pop("title", None)
    describe(known)
    components["schemas"] = portable(known)
    components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            operation["parameters"] = [
                _never_null(one)
                for one in operation.get("parameters", [])
                if one["in"] != "path" or f"{{{one['name']}}}" in path
            ]
    document["paths"] = portable(document["paths"])
    example = getattr(app.state, "example_decision", None)
    if example is not None:
        content = document["paths"]["/v1/decisions"]["post"]["responses"]["200"]["content"]["application/json"]
        content["examples"] = {"first": {"summary": "Answer to the example", "value": example}}
    document["openapi"] = VERSION
    return document


def _never_null(parameter: Json) -> Json:
    """A part of a path is always there, though one function may serve a path with it and a path without."""
    choices = parameter["schema"].get("anyOf", [])
    if parameter["in"] == "path" and {"type": "null"} in choices:
        rest = {key: value for key, value in parameter["schema"].items() if key != "anyOf"}
        [only] = [choice for choice in choices if choice != {"type": "null"}]
        return {**parameter, "schema": {**rest, **only}}
    return parameter


def operation_id(route: APIRoute) -> str:
    """Name of an operation, from which generators make the names of functions."""
    return f"{route.name}_of_version" if "{version}" in route.path else route.name
