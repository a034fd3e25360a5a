"""Refuses requests for names that are not ours, where no token guards the server.

A page of a stranger can point its own name at 127.0.0.1 (DNS rebinding). The browser then takes our answers for that
page's own, but it still sends the stranger's name in the header Host.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

from osml_serving.errors import ApiError
from osml_serving.headers import header_of

PROBES = frozenset({"/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"})  # they tell no secrets


class HostNames:
    """ASGI layer: the header Host must be an IP address, localhost, or one of `names`."""

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self.app = app
        self.names = frozenset(name.lower() for name in names) | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or raise 403."""
        if scope["type"] == "http" and scope["path"] not in PROBES:
            given = header_of(scope, b"host") or b""
            name = host_of(given.decode("latin-1"))
            if name and name not in self.names and not is_address(name):
                message = f"the header Host names '{name[:100]}', expected an IP address, localhost or a known name"
                raise ApiError(403, "forbidden", message, hint=f"start the server with --allowed-hosts {name[:100]}")
        await self.app(scope, receive, send)


def host_of(header: str) -> str:
    """The host in a header Host, without port, brackets and final dot; in lower case."""
    header = header.strip().lower()
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].removesuffix(".")


def is_address(name: str) -> bool:
    """True for an IP address, which no stranger's name server can point elsewhere."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
