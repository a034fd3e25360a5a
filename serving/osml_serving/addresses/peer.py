"""Where the other servers are: fixed addresses, all addresses of a DNS name, and Unix sockets."""

from __future__ import annotations

import asyncio
import re
import socket
from typing import NamedTuple

EXPECTED = "expected http(s)://HOST:PORT, dns+http(s)://NAME:PORT or unix:/PATH"
_URL = re.compile(
    r"(?P<dns>dns\+)?(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>\d{1,5})/?\Z"
)


class Address(NamedTuple):
    """One server. `host` is the name for TLS and the header Host; `socket` a Unix socket."""

    url: str
    host: str | None = None
    socket: str | None = None


class Wanted(NamedTuple):
    """One entry of the setting `peers`."""

    scheme: str
    host: str
    port: int
    every: bool = False
    """All addresses of the name, each a server of its own."""
    socket: str | None = None


def parse(text: str) -> Wanted:
    """One entry. Raises ValueError in one sentence."""
    if text.startswith("unix:/"):
        return Wanted("http", "localhost", 0, socket=text.removeprefix("unix:"))
    found = _URL.match(text)
    if found is None or not 0 < int(found["port"]) < 65536:
        raise ValueError(f"--peers (or OSML_PEERS) has '{text}', {EXPECTED}")
    return Wanted(found["scheme"], found["host"], int(found["port"]), every=found["dns"] is not None)


def address_by_name(wanted: Wanted) -> Address:
    """The server that has the name or the socket of an entry."""
    if wanted.socket is not None:
        return Address("http://localhost", socket=wanted.socket)
    return Address(f"{wanted.scheme}://{wanted.host}:{wanted.port}")


async def addresses_of(wanted: Wanted) -> list[Address]:
    """The servers that an entry stands for, now. Raises OSError where nobody knows its name."""
    if not wanted.every:
        return [address_by_name(wanted)]
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(wanted.host, wanted.port, type=socket.SOCK_STREAM)
    hosts = sorted({str(address[0]) for *_, address in found})
    return [Address(f"{wanted.scheme}://{_bracketed(host)}:{wanted.port}", wanted.host) for host in hosts]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
