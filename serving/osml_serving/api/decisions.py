"""`POST /v1/decisions`: one observation in, one decision out."""

# pyright: reportUnusedFunction=false
# FastAPI calls the routes.
from __future__ import annotations

import asyncio
import math
import time
import traceback
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Annotated

import msgspec
from fastapi import APIRouter, Request, Response
from starlette.types import Scope

from osml.domain import NOT_DONE, Decision, Observation
from osml.records import only_watched
from osml_serving.api.decoding import Body
from osml_serving.api.direct import Answer, of_framework, of_json
from osml_serving.api.document import BATCH, DECISIONS
from osml_serving.api.messages import MAX_BATCH, unknown_keys_header
from osml_serving.decider import PolicyFailedError
from osml_serving.errors import ApiError, ErrorBody
from osml_serving.guards.access import require
from osml_serving.rollout.rollout import Assigned
from osml_serving.runtime import Runtime
from osml_serving.view import interval
from osml_serving.view.event_stream import frame
from osml_serving.view.happenings import make_seen

MAX_REASONS_LOGGED = 8
_body = Body(Observation, "invalid_observation", "an observation")
_encoder = msgspec.json.Encoder()


ONE, MANY = "/v1/decisions", "/v1/decisions:batch"


def answers(runtime: Runtime) -> dict[str, Answer]:
    """The answers by path, bound to one server's parts."""

    async def decide(scope: Scope, body: bytes) -> Response:
        unknown: list[str] = []
        answer = await _answer(runtime, scope, body, unknown)
        return Response(answer, headers=unknown_keys_header(unknown), media_type="application/json")

    async def batch(scope: Scope, body: bytes) -> Response:
        with runtime.share.of(scope):
            observations = _batch.decode(body).observations
            unknown = [key for key in _members.decode(body) if key not in _Batch.__struct_fields__]
        runtime.metrics.unknown_keys.inc(len(unknown))
        items: list[asyncio.Task[bytes]] = []
        for raw in observations:
            items.append(asyncio.create_task(_item(runtime, scope, raw, unknown)))
            await asyncio.sleep(0)  # other requests run in between
        decided = b",".join([await item for item in items])
        answer = b'{"decisions":[%s]}' % decided
        return Response(answer, headers=unknown_keys_header(unknown), media_type="application/json")

    return {ONE: of_json(decide), MANY: of_json(batch)}


def router(direct: Mapping[str, Answer]) -> APIRouter:
    """The routes, which give the same answers."""
    routes = APIRouter()

    @routes.post(ONE, name="decide", openapi_extra=DECISIONS, response_class=Response)
    async def decide(request: Request) -> Response:
        """Decide the allocation of a node for the next interval.

        The decision depends only on the request, the models, the default policy, the seed, and the rollout file with
        the canaries that returned. Send its `policy_state` with the next observation. Any replica can answer.
        """
        return await of_framework(direct[ONE], request)

    @routes.post(MANY, name="decide_batch", openapi_extra=BATCH, response_class=Response)
    async def batch(request: Request) -> Response:
        """Decide up to 32 observations. Each observation gets its own decision or error."""
        return await of_framework(direct[MANY], request)

    return routes


async def _answer(runtime: Runtime, scope: Scope, body: bytes | msgspec.Raw, unknown: list[str]) -> bytes:
    """The encoded decision on one observation; `unknown` gets the keys that it left out. Raises ApiError."""
    started = time.perf_counter()
    with runtime.share.of(scope):
        given = _observation(runtime, scope, body, unknown)
        assigned = runtime.rollout.assign(given)
    instead = False
    try:
        decision = await _decided(runtime, scope, assigned, started)
    except ApiError as error:  # a canary harms no node: its own policy decides
        canary = assigned.choice.canary
        if canary is None or error.body.code == "request_refused":  # every policy refuses such a request
            raise
        runtime.log.event(
            "warning", "canary", f"canary '{canary.name}' did not decide, the node's policy does: {error}"
        )
        assigned, instead = runtime.rollout.without_canary(given, assigned.choice), True
        decision = await _decided(runtime, scope, assigned, time.perf_counter())
    return _finish(runtime, assigned, decision, started, instead=instead)


async def _decided(runtime: Runtime, scope: Scope, assigned: Assigned, started: float) -> Decision:
    """The decision of the policy that is assigned. Raises ApiError; what is the policy's fault counts against it."""
    observation = assigned.observation
    slow = runtime.slow.get(observation.policy or runtime.decider.default_policy)
    with _failures(runtime, assigned):
        if slow is not None:
            runtime.decider.refuse_unavailable(observation)
            longest_s = math.inf if assigned.choice.canary is None else runtime.settings.canary_timeout_s
            return await slow.decide(observation, lambda cpu_s: runtime.share.spend(scope, cpu_s), longest_s)
        with runtime.share.charged(scope):
            decision = (assigned.decider or runtime.decider)(observation)
        runtime.metrics.decision_seconds.observe(time.perf_counter() - started)
    return decision


def _observation(runtime: Runtime, scope: Scope, body: bytes | msgspec.Raw, unknown: list[str]) -> Observation:
    """The observation in a body, if the token is valid for its node and the node is within its rate."""
    observation = _body.decode(body, unknown.extend)
    runtime.metrics.unknown_keys.inc(len(unknown))
    require(scope, observation.node)
    if not runtime.rate.take(observation.node, time.perf_counter()):
        rate_limit = f"{runtime.settings.max_node_rate:g} observations a second"
        message = f"node '{observation.node}' exceeds the rate limit of {rate_limit}"
        raise ApiError(429, "rate_limited", message, field="node", headers={"retry-after": "1"})
    return observation


def _finish(runtime: Runtime, assigned: Assigned, decision: Decision, started: float, *, instead: bool) -> bytes:
    """The encoded decision, counted and shown. `instead`: of a canary that did not decide."""
    answer = _encoder.encode(decision)
    runtime.metrics.decision(decision.policy, "ok")
    _report(runtime, assigned, decision, (time.perf_counter() - started) * 1000, instead=instead)
    runtime.blamer.see(assigned.observation)
    group = assigned.choice.group
    if group is not None and group.shadow:
        runtime.shadows.look(group.shadow, assigned.observation, answer)
    return answer


async def _item(runtime: Runtime, scope: Scope, raw: msgspec.Raw, unknown: list[str]) -> bytes:
    """One item of a batch's answer; a fault of the server affects one item, too. `unknown` gets keys left out."""
    own: list[str] = []
    try:
        return b'{"decision":%s}' % await _answer(runtime, scope, raw, own)
    except ApiError as error:
        body = error.body
    except Exception as error:
        runtime.log.fault("internal", f"an observation of a batch failed: {error!r}", traceback.format_exc())
        body = ErrorBody("internal", "the server failed at this observation; see its log")
    finally:
        unknown += own
    runtime.metrics.error(body.code)
    return b'{"error":%s}' % _encoder.encode(body)


class _Batch(msgspec.Struct):
    """`wire.BatchRequest` before each observation is looked at by itself."""

    observations: Annotated[list[msgspec.Raw], msgspec.Meta(min_length=1, max_length=MAX_BATCH)]


_batch = Body(_Batch, "bad_request", "a batch of observations")
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


@contextmanager
def _failures(runtime: Runtime, assigned: Assigned) -> Generator[None]:
    """Count what a policy raises; its own fault becomes an ApiError and a line in the log."""
    observation = assigned.observation
    policy = observation.policy or runtime.decider.default_policy
    try:
        yield
    except ApiError as error:
        runtime.metrics.decision(policy, "late" if error.body.code == "policy_late" else "refused")
        runtime.rollout.count_failure(assigned.choice, observation.node, error)
        raise
    except PolicyFailedError as error:
        runtime.rollout.count_failure(assigned.choice, observation.node, error)
        runtime.metrics.decision(policy, "failed")
        message = f"policy '{policy}' failed: {error}"
        runtime.log.fault("policy_failed", message, error.detail, node=observation.node)
        hint = "keep the present allocation; see the server's log"
        raise ApiError(500, "policy_failed", message, hint=hint) from error


def _report(runtime: Runtime, assigned: Assigned, decision: Decision, duration_ms: float, *, instead: bool) -> None:
    """Log the decision, and show it on the page."""
    observation, choice = assigned.observation, assigned.choice
    newest = interval.make_interval(observation, decision, time.time(), duration_ms)
    runtime.log.decision(
        decision.node,
        decision.seq,
        decision.policy,
        newest.e_s,
        sum(reason.change != 0 for reason in decision.reasons),
        [reason.text for reason in decision.reasons[:MAX_REASONS_LOGGED]],
        duration_ms,
    )
    encoded = interval.encode(newest)
    now = interval.encode(interval.make_now(observation, decision))
    group = None if choice.group is None else choice.group.name
    canary = None if choice.canary is None else choice.canary.name
    summary = interval.make_summary(observation, decision, newest, group, canary)
    seconds = runtime.history.counted_s(decision.node, summary.interval_s)
    missed, unmeasured = summary.violations > 0, summary.unmeasured > 0
    unapplied = observation.outcome is not None and observation.outcome.status in NOT_DONE
    if not only_watched(observation):  # a dry run shows what no decision has caused
        runtime.rollout.count(
            choice, decision.node, seconds, missed=missed, unmeasured=unmeasured, unapplied=unapplied, e_s=newest.e_s
        )
    runtime.metrics.node(seconds, missed=missed, unmeasured=unmeasured, infeasible=summary.infeasible)
    seen = make_seen(observation, decision, newest, canary, instead=instead)
    if not runtime.history.append(encoded, now, summary, seen):
        runtime.metrics.nodes_dropped.inc()
    if runtime.broker.watched(decision.node):
        runtime.broker.publish(decision.node, frame("observation", b'{"point":%s,"now":%s}' % (encoded, now)))
