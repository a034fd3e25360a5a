"""One answer out of those of all servers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import parse_qs

import msgspec

from osml_serving.api.fleet import DEFAULT_EVENTS
from osml_serving.api.messages import FleetEvents, NodeList
from osml_serving.view.interval import NodeSummary

T = TypeVar("T")
_nodes = msgspec.json.Decoder(NodeList)
_events = msgspec.json.Decoder(FleetEvents)


def merge_nodes(own: bytes, others: Sequence[bytes], silent: int, _query: str) -> bytes:
    """Each node once, as the server saw it that saw it last. Times are those of the own clock."""
    here = _nodes.decode(own)
    newest: dict[str, NodeSummary] = {line.node: line for line in here.nodes}
    blame, servers = here.blame, here.servers + silent
    silent += here.silent
    found, unread = _decoded(_nodes, others)
    servers, silent = servers + unread, silent + unread
    for there in found:
        servers, silent = servers + there.servers, silent + there.silent
        ahead_s = there.server_time - here.server_time
        blame = blame or there.blame
        for line in there.nodes:
            line.at -= ahead_s
            known = newest.get(line.node)
            if known is None or line.at > known.at:
                newest[line.node] = line
    lines = [line for _, line in sorted(newest.items())]
    return msgspec.json.encode(NodeList(here.server_time, lines, blame, servers, silent))


def merge_events(own: bytes, others: Sequence[bytes], _silent: int, query: str) -> bytes:
    """The events of all servers, newest first, as many as the query asks for.

    Each counts once: a server with two addresses in the list tells its events twice.
    """
    found, _ = _decoded(_events, others)
    lists = [_events.decode(own).events, *(there.events for there in found)]
    once = {(event.at, event.node, event.kind, event.text): event for events in lists for event in events}
    together = sorted(once.values(), key=lambda event: event.at, reverse=True)
    limit = int(float(parse_qs(query).get("limit", [str(DEFAULT_EVENTS)])[-1]))  # "2.0" is an integer to FastAPI, too
    return msgspec.json.encode(FleetEvents(together[:limit]))


def _decoded(decoder: msgspec.json.Decoder[T], bodies: Sequence[bytes]) -> tuple[list[T], int]:
    """What can be read, and how much can't: a server of another version counts as silent."""
    found: list[T] = []
    for body in bodies:
        with contextlib.suppress(msgspec.MsgspecError):
            found.append(decoder.decode(body))
    return found, len(bodies) - len(found)


Merge = Callable[[bytes, Sequence[bytes], int, str], bytes]
"""Own answer, those of the others, how many were silent, and the query, to which the own answer was given."""

MERGES: dict[str, Merge] = {"/v1/nodes": merge_nodes, "/v1/fleet/events": merge_events}
"""By path."""
