"""Asks the other servers. One that does not answer, or refuses, is left out, and the log says so once."""

from __future__ import annotations

import asyncio
import math
import secrets
import ssl
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import httpx
import msgspec

from osml_serving.addresses.peer import Address, Wanted, address_by_name, addresses_of
from osml_serving.errors import ErrorEnvelope
from osml_serving.log import Log
from osml_serving.view.broker import MAX_VIEWERS

PEER, SIBLING = "osml-peer", "osml-sibling"
"""Headers with the asker's id: who is asked by a server asks no other server, who is asked by a worker no other worker.
"""

ITSELF = 421
"""Status of an answer to one's own question: an address in the list is the server's own."""

USABLE = (200, 404, ITSELF)  # 404: it does not know the node
MOST_WORDS = 200  # characters of an error that are shown: it comes from outside
LOOK_S = 10.0  # between two looks at a DNS name
ASKING = httpx.Limits(max_connections=100, max_keepalive_connections=20)
RELAYING = httpx.Limits(max_connections=2 * MAX_VIEWERS, max_keepalive_connections=20)
"""Event streams, and as many answers that may take minutes: none of them may keep a question waiting."""

MOST_BYTES = 64 * 2**20


_error = msgspec.json.Decoder(ErrorEnvelope)


class Told(NamedTuple):
    """What one server answered; `fault` says why it is no answer to use."""

    address: Address
    status: int
    body: bytes
    fault: str | None = None


class Peers:
    """The other servers of the setting `peers`, or the other workers. `header` says that one of them asks.

    `own_id` names the asker: all workers of a server share one, for they are one server to the others.
    """

    def __init__(
        self,
        wanted: Iterable[Wanted],
        log: Log,
        timeout_s: float,
        header: str = PEER,
        tls: ssl.SSLContext | None = None,
        own_id: str | None = None,
    ) -> None:
        self.timeout_s = timeout_s
        self.id = own_id or secrets.token_hex(8)
        self.header = header
        self._tls = tls
        self._wanted = list(wanted)
        self._log = log
        self._known: dict[Wanted, list[Address]] = {}
        self._looked_s = -math.inf
        self._looking = asyncio.Lock()
        self._clients: dict[tuple[str | None, bool], httpx.AsyncClient] = {}
        self._silent: set[Address] = set()

    async def ask(self, target: str, authorization: bytes | None) -> list[Told]:
        """What each of the others says to GET `target`."""
        addresses = await self._look()
        found = await asyncio.gather(*(self._ask(one, target, authorization) for one in addresses))
        return [one for one in found if one.status != ITSELF]

    def note(self, found: Iterable[Told]) -> None:
        """Log who does not answer, and who does again: not for a request that this server itself refuses."""
        for one in found:
            if one.fault is None and one.address in self._silent:
                self._silent.discard(one.address)
                self._log.event("info", "peer", f"server {_name(one.address)} answers again")
            elif one.fault is not None and one.address not in self._silent:
                self._silent.add(one.address)
                self._log.event("warning", "peer", f"server {_name(one.address)} does not answer: {one.fault}")

    def request(self, address: Address, target: str, authorization: bytes | None) -> httpx.Request:
        """GET `target` of one server, in the name of who asks this one."""
        headers = {PEER: self.id, self.header: self.id, "accept-encoding": "identity"}
        if authorization is not None:
            headers["authorization"] = authorization.decode("latin-1")
        extensions: Mapping[str, str] = {}
        if address.host is not None:
            headers["host"] = address.host
            extensions = {"sni_hostname": address.host}
        return self.client(address).build_request("GET", address.url + target, headers=headers, extensions=extensions)

    def client(self, address: Address, *, relays: bool = False) -> httpx.AsyncClient:
        """The client for an address; a Unix socket has its own. Answers that `relays` pass on leave others room."""
        found = self._clients.get((address.socket, relays))
        if found is None:
            limits = RELAYING if relays else ASKING
            transport = None if address.socket is None else httpx.AsyncHTTPTransport(uds=address.socket, limits=limits)
            verify = True if self._tls is None else self._tls
            found = httpx.AsyncClient(
                transport=transport, verify=verify, timeout=self.timeout_s, limits=limits, trust_env=False
            )
            self._clients[address.socket, relays] = found
        return found

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()

    async def _look(self) -> list[Address]:
        async with self._looking:  # who comes during the first look has no addresses without it
            if time.monotonic() - self._looked_s >= LOOK_S:
                found = await asyncio.gather(*map(self._resolved, self._wanted))
                self._known = dict(zip(self._wanted, found, strict=True))
                self._looked_s = time.monotonic()
        addresses = [address for group in self._known.values() for address in group]
        self._silent.intersection_update(addresses)
        return addresses

    async def _resolved(self, wanted: Wanted) -> list[Address]:
        """The addresses of an entry. While nobody knows its name: those of before, else the name, which is silent."""
        try:
            async with asyncio.timeout(self.timeout_s):
                return await addresses_of(wanted)
        except (OSError, TimeoutError):
            return self._known.get(wanted) or [address_by_name(wanted)]

    async def _ask(self, address: Address, target: str, authorization: bytes | None) -> Told:
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self._told(address, target, authorization)
        except (httpx.HTTPError, OSError, TimeoutError, ValueError) as error:
            return Told(address, 0, b"", str(error) or type(error).__name__)

    async def _told(self, address: Address, target: str, authorization: bytes | None) -> Told:
        answer = await self.client(address).send(self.request(address, target, authorization), stream=True)
        try:
            parts: list[bytes] = []
            length = 0
            async for part in answer.aiter_bytes():
                length += len(part)
                if length > MOST_BYTES:
                    raise ValueError(f"its answer is longer than {MOST_BYTES} bytes")
                parts.append(part)
        finally:
            await answer.aclose()
        status, body = answer.status_code, b"".join(parts)
        return Told(address, status, body, None if status in USABLE else _refusal(status, body))


def _refusal(status: int, body: bytes) -> str:
    """Why a server refuses, in its own words where it has some."""
    try:
        words = f": {_error.decode(body).error.message[:MOST_WORDS]}"
    except msgspec.MsgspecError:
        words = ""
    return f"it answers HTTP {status}{words}"


def _name(address: Address) -> str:
    return address.socket or address.url
