"""Bodies and answers that are no types of the domain."""

from __future__ import annotations

from typing import Annotated

import msgspec
from starlette.responses import Response

from osml.domain import Decision, Experience, Observation
from osml_serving.errors import ErrorBody
from osml_serving.rollout.rollout import CanaryState
from osml_serving.shadow.messages import Shadowed
from osml_serving.shadow.tally import ShadowSums
from osml_serving.view.day import DayBin
from osml_serving.view.happenings import Event
from osml_serving.view.interval import Interval, NodeSummary, Now

UNKNOWN_KEYS = "osml-unknown-keys"  # header: paths of keys that the server does not know
MAX_UNKNOWN_SHOWN = 8
DAMAGED = "osml-damaged-rows"  # header of stored experiences
MAX_BATCH = 32  # beyond that a batch saves nothing more, and only holds up others


class BatchRequest(msgspec.Struct):
    """Observations of several nodes, or of one."""

    observations: Annotated[list[Observation], msgspec.Meta(min_length=1, max_length=MAX_BATCH)]


class BatchItem(msgspec.Struct, omit_defaults=True):
    """A decision, or the error of the observation."""

    decision: Decision | None = None
    error: ErrorBody | None = None


class BatchAnswer(msgspec.Struct):
    """One item for each observation, in their order."""

    decisions: list[BatchItem]


def uncached_json(content: bytes) -> Response:
    """An answer in JSON that nobody may keep: the next one differs."""
    return Response(content, media_type="application/json", headers={"cache-control": "no-store"})


class NodeList(msgspec.Struct):
    """Nodes that sent observations since the server started; `server_time` is the clock of their `at`.

    `blame`: whether the server has twins of nodes, and /v1/nodes/{node}/blame may answer. `servers` are those that the
    list is of, `silent` how many of them did not answer.
    """

    server_time: float
    nodes: list[NodeSummary]
    blame: bool = False
    servers: int = 1
    silent: int = 0


class NodeSeen(msgspec.Struct):
    """How long ago, s, a node was answered."""

    node: str
    age_s: float


class NodeDocument(msgspec.Struct):
    """The last intervals of one node, newest last."""

    node: str
    now: Now | None
    points: list[Interval]


class DayDocument(msgspec.Struct):
    """The last 24 hours of a node, as far as this server has seen them, and its events, newest first."""

    node: str
    bins: list[DayBin]
    events: list[Event]


class FleetEvents(msgspec.Struct):
    """The newest events of all nodes for which the token is valid, newest first."""

    events: list[Event]


class NodeGroup(msgspec.Struct):
    """Nodes whose name matches one of the patterns, with their policy (null: the server's) and shadow policies."""

    name: str
    nodes: list[str]
    policy: str | None
    shadow: list[str]


class RolloutDocument(msgspec.Struct):
    """Which policies decide where. `lost` counts intervals that the shadow policies did not see."""

    groups: list[NodeGroup]
    canaries: list[CanaryState]
    shadows: list[ShadowSums]
    lost: int


class NodeRollout(msgspec.Struct):
    """Which policy decides for a node, and what each shadow policy would have decided in its newest interval."""

    node: str
    group: str | None
    canary: str | None
    policy: str
    shadows: list[Shadowed]


class Receipt(msgspec.Struct):
    """The numbers of new experiences and of duplicates in a batch."""

    accepted: int
    duplicates: int


class StoredExperiences(msgspec.Struct):
    """Experiences of one node, newest first."""

    experiences: list[Experience]


def unknown_keys_header(unknown: list[str]) -> dict[str, str]:
    """The header that names keys which the server left out; none where it knows all. Keys come from outside."""
    if not unknown:
        return {}
    shown = ", ".join(key[:80] for key in unknown[:MAX_UNKNOWN_SHOWN])
    return {UNKNOWN_KEYS: shown.encode("ascii", "replace").decode().translate(_CONTROL)}


_CONTROL = dict.fromkeys([*range(32), 127], "?")
