"""Shows on each server what all of them see: lists are merged, and questions about a node go to who answers it.

Nothing is shared between servers, and no decision waits for another server. A node's history is where its agent's
connection leads; so a question about it is passed on to the server that answered it last.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import time
from collections.abc import Mapping
from urllib.parse import parse_qs

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from osml_serving.addresses.peer import Address
from osml_serving.api.messages import NodeSeen
from osml_serving.api.nodes import NAME, most_viewers, too_many_viewers
from osml_serving.guards.access import grant_of
from osml_serving.headers import header_of
from osml_serving.peers.merge import MERGES, Merge
from osml_serving.peers.peers import ITSELF, Peers
from osml_serving.peers.relay import relay, until_gone
from osml_serving.view.broker import Broker, TooManyViewersError
from osml_serving.view.history import History

EVENTS = "/v1/events"
OF_NODE = re.compile(r"/v1/nodes/(?P<node>[^/]+)(?:/(?:explain|day|rollout|blame|seen))?\Z")
NEARLY_S = 1.0  # a node that another server saw so much later only is shown from here
MOVED_S = 10.0  # between two looks whether a watched node has moved to another server
_is_name = re.compile(NAME).fullmatch
_seen = msgspec.json.Decoder(NodeSeen)


class PeerViews:
    """ASGI layer below the check of tokens: other servers are asked with the token of the request.

    `merges` are the lists that are of all of them, by path. `history` is that of this process; `workers` are what else
    belongs to this server.
    """

    def __init__(
        self,
        app: ASGIApp,
        peers: Peers,
        broker: Broker,
        history: History,
        merges: Mapping[str, Merge] = MERGES,
        workers: Peers | None = None,
    ) -> None:
        self.merges = merges
        self.app = app
        self.peers = peers
        self.broker = broker
        self.history = history
        self.workers = workers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Merge, pass on, or hand to the application."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self.app(scope, receive, send)
            return
        asker = header_of(scope, self.peers.header.encode())
        if asker is not None:
            itself = asker == self.peers.id.encode()
            await (Response(status_code=ITSELF) if itself else self.app)(scope, receive, send)
            return
        merge, node = self.merges.get(scope["path"]), _node_of(scope)
        if merge is not None:
            await self._merged(merge, scope, receive, send)
        elif node is not None:
            await self._of_node(node, scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _merged(self, merge: Merge, scope: Scope, receive: Receive, send: Send) -> None:
        own = _Kept()
        found, _ = await asyncio.gather(
            self.peers.ask(_target(scope), header_of(scope, b"authorization")), self.app(scope, receive, own)
        )
        if own.status == 200:
            self.peers.note(found)
            bodies = [one.body for one in found if one.status == 200]
            own.body = merge(own.body, bodies, len(found) - len(bodies), _query(scope))
        await own.send(send)

    async def _of_node(self, node: str, scope: Scope, receive: Receive, send: Send) -> None:
        holder = await self._holder(node, scope)
        watched = scope["path"] == EVENTS
        moved = asyncio.create_task(self._moved(node, holder, scope)) if watched else None
        try:
            if holder is None:
                if moved is None:
                    await self.app(scope, receive, send)
                else:
                    await _until(moved, self.app, scope, receive, send)
                return
            request = self.peers.request(holder, _target(scope), header_of(scope, b"authorization"))
            counted = self.broker.passing_on(node, most_viewers(scope)) if watched else contextlib.nullcontext()
            try:
                with counted:
                    passed = await relay(self.peers.client(holder, relays=True), request, receive, send, moved)
            except TooManyViewersError:
                raise too_many_viewers() from None
            if not passed:
                await self.app(scope, receive, send)
        finally:
            if moved is not None:
                moved.cancel()

    async def _holder(self, node: str, scope: Scope) -> Address | None:
        """The server that saw the node last; None for this one, also where it refuses the request and says why."""
        if not grant_of(scope).is_for(node):
            return None
        path, token = f"/v1/nodes/{node}/seen", header_of(scope, b"authorization")
        found, own_s = await asyncio.gather(self.peers.ask(path, token), self._own_age_s(node, path, token))
        self.peers.note(found)
        best: tuple[float, Address | None] = (own_s, None)
        for one in found:
            age_s = _age_s(one.status, one.body)
            if age_s + NEARLY_S < best[0]:
                best = age_s, one.address
        return best[1]

    async def _own_age_s(self, node: str, path: str, token: bytes | None) -> float:
        """How long ago this server, with all of its workers, saw the node; infinite where it does not know it."""
        age_s = self.history.age_s(node)
        found = [] if self.workers is None else await self.workers.ask(path, token)
        return min([math.inf if age_s is None else age_s, *(_age_s(one.status, one.body) for one in found)])

    async def _moved(self, node: str, holder: Address | None, scope: Scope) -> None:
        """Return once another server has the node, or this one stops."""
        looked_s = time.monotonic()
        while not self.broker.closed:
            await asyncio.sleep(0.5)
            if time.monotonic() - looked_s < MOVED_S:
                continue
            looked_s = time.monotonic()
            if await self._holder(node, scope) != holder:
                return


def _age_s(status: int, body: bytes) -> float:
    """Out of the answer of one server; infinite where it does not know the node, or says something else."""
    try:
        return _seen.decode(body).age_s if status == 200 else math.inf
    except msgspec.MsgspecError:
        return math.inf


class _Kept:
    """Keeps an answer in place of sending it."""

    def __init__(self) -> None:
        self.status = 0
        self.body = b""
        self._headers: list[tuple[bytes, bytes]] = []

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self._headers = message["status"], list(message.get("headers", []))
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")

    async def send(self, send: Send) -> None:
        """Send it, with the length that it has now."""
        headers = [(name, value) for name, value in self._headers if name != b"content-length"]
        headers.append((b"content-length", str(len(self.body)).encode()))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


async def _until(moved: asyncio.Task[None], app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """The application's stream until the node has moved: the page then asks anew."""
    started = False

    async def watch(message: Message) -> None:
        nonlocal started
        started = True
        await send(message)

    work = asyncio.ensure_future(app(scope, receive, watch))
    await until_gone(work, moved)
    if work.cancelled() and started:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _node_of(scope: Scope) -> str | None:
    """The node that a request is about, where that is part of its history."""
    if scope["path"] == EVENTS:
        found = parse_qs(_query(scope)).get("node", [])
        return found[0] if len(found) == 1 and _is_name(found[0]) else None
    match = OF_NODE.match(scope["path"])
    return match["node"] if match is not None and _is_name(match["node"]) else None


def _target(scope: Scope) -> str:
    query = _query(scope)
    return scope["path"] + (f"?{query}" if query else "")


def _query(scope: Scope) -> str:
    query: bytes = scope["query_string"]
    return query.decode("latin-1")
