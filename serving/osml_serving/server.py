"""One uvicorn process: its socket, its start and its stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import resource
import signal
import socket
import time
from collections.abc import Generator
from types import FrameType

import uvicorn

from osml.base.failure import Failure
from osml_serving.addresses.place import Place
from osml_serving.app import create_app
from osml_serving.guards.slow_clients import SlowClientProtocol, set_unread_timeout
from osml_serving.log import Bridge
from osml_serving.runtime import Runtime

BACKLOG = 2048
MAX_FILES = 65_536
SIGNALS = (signal.SIGINT, signal.SIGTERM)
PORT_HINT = "; another program uses this port: stop it, or choose another --port"
PAGES = "the dashboard is at /, the API documentation at /docs"


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A listening socket, `shared` with other workers. Raises Failure where the address can't be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise Failure(f"the server cannot resolve host {host}: {error.strerror}") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        set_unread_timeout(listener)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        hint = PORT_HINT if error.errno == errno.EADDRINUSE else ""
        raise Failure(f"the server cannot listen on {host} port {port}: {error.strerror}{hint}") from None
    return listener


def address_of(listener: socket.socket, scheme: str) -> str:
    """The address to put into a browser or an agent's configuration."""
    host, port = listener.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def raise_file_limit() -> None:
    """Every agent holds a connection: as many files as the system allows, up to MAX_FILES."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(MAX_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


LAST_S = 5.0
"""Seconds for what is left to do after a second signal: a store that hangs must not keep the process alive."""


class DrainingServer(uvicorn.Server):
    """Stops in steps: not ready at SIGTERM, `drain_s` later no new connections, open requests finish.

    SIGINT comes from a person and skips the waiting. A second signal waits for no request, and for no more than
    `LAST_S` for the application to store what it has.
    """

    def __init__(self, config: uvicorn.Config, runtime: Runtime, address: str) -> None:
        super().__init__(config)
        self._runtime = runtime
        self._address = address
        self._stop_at: float | None = None
        self._reload = False
        self._settling: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, move what exists by now out of the garbage collector's way, and say where we are."""
        await super().startup(sockets=sockets)
        if self._runtime.place is not None:
            await self._listen_to_workers(self._runtime.place)
        gc.collect()
        gc.freeze()  # else every full collection walks all modules and delays the answers by tens of milliseconds
        readiness = self._runtime.readiness
        reason = readiness.reason
        if reason is None:
            self._say_ready()
        else:
            level = "warning" if readiness.blocked is None else "error"  # a slow default policy starts
            self._runtime.log.event(
                level, "not_ready", f"the server listens on {self._address}, but takes no decisions: {reason}"
            )
            self._settling = asyncio.create_task(self._say_ready_later())

    def _say_ready(self) -> None:
        self._runtime.log.event("info", "ready", f"the server listens on {self._address}; {PAGES}")

    async def _say_ready_later(self) -> None:
        """Say so once a slow default policy decides. One that cannot start has its own line in the log."""
        default = self._runtime.slow.get(self._runtime.decider.default_policy)
        if default is not None:
            await default.settled.wait()
            if self._runtime.readiness.reason is None:
                self._say_ready()

    async def _listen_to_workers(self, place: Place) -> None:
        """The other workers ask without TLS, on a socket that only their user can reach."""

        def protocol() -> asyncio.Protocol:
            return SlowClientProtocol(self.config, self.server_state, self.lifespan.state)

        server = await asyncio.get_running_loop().create_unix_server(protocol, path=place.socket)
        self.servers.append(server)

    async def on_tick(self, counter: int) -> bool:
        """Every 100 ms: is there something to do, or is it time to stop?"""
        if self._reload:
            self._reload = False
            self._runtime.reload_tokens()
            self._runtime.reload_certificate()
        if self._stop_at is not None and time.monotonic() >= self._stop_at:
            self._runtime.broker.close()  # event streams never end by themselves
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's. After a second signal too, the application stores what it has and ends its processes."""
        if self._settling is not None:
            self._settling.cancel()
        await super().shutdown(sockets=sockets)
        if self.force_exit:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.lifespan.shutdown(), LAST_S)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Signal handler: only notes, the loop acts."""
        del frame
        if self._stop_at is not None:
            self.force_exit = True
        self._runtime.readiness.drain()
        wait_s = self._runtime.settings.drain_s if sig == signal.SIGTERM and self._stop_at is None else 0.0
        self._stop_at = time.monotonic() + wait_s

    def handle_reload(self, sig: int, frame: FrameType | None) -> None:
        """SIGHUP: tokens and certificate again, the next time that the loop looks."""
        del sig, frame
        self._reload = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """As uvicorn's, but a wanted stop is a success: the signal is not raised again at the end."""
        previous = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        previous[signal.SIGHUP] = signal.signal(signal.SIGHUP, self.handle_reload)
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def run(runtime: Runtime) -> None:
    """Serve until told to stop. Raises Failure where the address can't be had."""
    raise_file_limit()
    listener = listen(runtime.settings.host, runtime.settings.port, shared=runtime.place is not None)
    logging.basicConfig(handlers=[Bridge(runtime.log)], level=logging.WARNING, force=True)
    config = uvicorn.Config(
        create_app(runtime),
        http=SlowClientProtocol,
        loop="uvloop",
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,  # nothing here asks for the client's address
        timeout_keep_alive=75,  # longer than any agent's interval
        timeout_graceful_shutdown=10,
    )
    config.load()
    config.ssl = runtime.tls
    runtime.log.begin_background()
    try:
        address = address_of(listener, "http" if runtime.tls is None else "https")
        server = DrainingServer(config, runtime, address)
        server.run(sockets=[listener])
        left = "did not wait for open requests" if server.force_exit else "answered all open requests"
        runtime.log.event("info", "stopped", f"the server {left}")
    finally:
        runtime.log.end_background()
