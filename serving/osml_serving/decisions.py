"""`POST /v1/decisions`: one observation in, one decision out."""

from __future__ import annotations

import re
import time
from typing import cast

import msgspec
from fastapi import APIRouter, Request, Response

from osml.domain import Decision, Observation
from osml_serving import point
from osml_serving.access import require
from osml_serving.api_document import DECISIONS
from osml_serving.decider import PolicyFailedError
from osml_serving.errors import ApiError
from osml_serving.runtime import Runtime
from osml_serving.stream import frame

MAX_REASONS_LOGGED = 8
PATH = re.compile(r" - at `\$\.?(.*)`$")
STEP = re.compile(r"[^.\[\]]+")
MAX_VALUE_SHOWN = 60
_decoder = msgspec.json.Decoder(Observation)
_encoder = msgspec.json.Encoder()


def decode(body: bytes) -> Observation:
    """An observation out of a request body. Raises ApiError, which names the field."""
    try:
        observation = _decoder.decode(body)
    except msgspec.ValidationError as error:
        message = str(error)
        found = PATH.search(message)
        field = found[1] if found else None
        hint = "the schema of an observation is in /openapi.json"
        raise ApiError(
            422, "invalid_observation", _sentence(PATH.sub("", message), field, body), field=field, hint=hint
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError(400, "bad_json", f"the body is not JSON in UTF-8: {error}") from None
    except RecursionError:  # msgspec counts on Python's stack limit, and does not wrap it
        raise ApiError(400, "bad_json", "the body is nested too deeply") from None
    return observation


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


def require_json(request: Request) -> None:
    """Raise 415 for a body declared as something else: browsers can't post JSON to strangers without asking first."""
    declared = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if declared != "application/json":
        hint = "send the header 'Content-Type: application/json'"
        raise ApiError(415, "unsupported_media_type", f"the body is declared as '{declared[:100]}'", hint=hint)


def router(runtime: Runtime) -> APIRouter:
    """The route, bound to one server's parts."""
    routes = APIRouter()

    @routes.post("/v1/decisions", name="decide", openapi_extra=DECISIONS, response_class=Response)
    async def decide(request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        """Decide what a node does until its next observation.

        The answer depends on nothing but the request (and the server's default policy and seed): `policy_state` of the
        answer goes back with the next observation. So any replica can answer, and a restart loses nothing.
        """
        require_json(request)
        body = await request.body()
        started = time.perf_counter()
        observation = decode(body)
        require(request.scope, observation.node)
        if not runtime.rate.take(observation.node, started):
            message = (
                f"node '{observation.node}' posts more than {runtime.settings.max_node_rate:g} observations a second"
            )
            raise ApiError(429, "rate_limited", message, field="node", headers={"retry-after": "1"})
        decision = _decide(runtime, observation)
        answer = _encoder.encode(decision)
        elapsed_s = time.perf_counter() - started
        runtime.metrics.decision_seconds.observe(elapsed_s)
        _tell(runtime, observation, decision, elapsed_s * 1000)
        return Response(answer, media_type="application/json")

    return routes


def _decide(runtime: Runtime, observation: Observation) -> Decision:
    policy = observation.policy or runtime.decider.default_policy
    try:
        decision = runtime.decider(observation)
    except ApiError:
        runtime.metrics.decision(policy, "refused")
        raise
    except PolicyFailedError as error:
        runtime.metrics.decision(policy, "failed")
        runtime.log.fault("policy_failed", f"policy '{policy}': {error}", error.detail, node=observation.node)
        hint = "keep the allocation you have; the server's log has the details"
        raise ApiError(500, "policy_failed", f"policy '{policy}' failed: {error}", hint=hint) from error
    runtime.metrics.decision(decision.policy, "ok")
    return decision


def _tell(runtime: Runtime, observation: Observation, decision: Decision, duration_ms: float) -> None:
    """Log the decision, and show it on the page."""
    newest = point.make_point(observation, decision, time.time(), duration_ms)
    runtime.log.decision(
        decision.node,
        decision.seq,
        decision.policy,
        newest.e_s,
        sum(reason.change != 0 for reason in decision.reasons),
        [reason.text for reason in decision.reasons[:MAX_REASONS_LOGGED]],
        duration_ms,
    )
    encoded = point.encode(newest)
    now = point.encode(point.make_now(observation, decision))
    if not runtime.history.append(encoded, now, point.make_summary(decision.node, newest)):
        runtime.metrics.nodes_dropped.inc()
    if runtime.broker.watched(decision.node):
        runtime.broker.publish(decision.node, frame("observation", b'{"point":%s,"now":%s}' % (encoded, now)))
