"""Which backends are under interference, as the osml server sees their nodes (`GET /v1/nodes`)."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from typing import Literal

import httpx
import msgspec

from osml.dispatch.haproxy.interference_signal import Level, Reading

Measure = Literal["e_s", "slowdown"]
MAX_ANSWER = 4 << 20
_NAMED = 5
"""Most backends without a reading that a message has."""


class _Node(msgspec.Struct):
    node: str
    at: float
    e_s: float | None = None


class _Nodes(msgspec.Struct):
    server_time: float
    nodes: list[_Node]


class _Service(msgspec.Struct):
    speed: float | None = None


class _Point(msgspec.Struct):
    services: list[_Service]


class _History(msgspec.Struct):
    points: list[_Point]


class ServerSignal:
    """Polls the server from a thread. A reading is as old as the node's last observation, plus the time since.

    nodes: backend to node. measure: `e_s`, system entropy 0 to 1, or `slowdown`, the worst of the node's
    best-effort jobs (1 = none). A node that did not report the measure is unknown.
    """

    def __init__(
        self,
        url: str,
        nodes: Mapping[str, str],
        measure: Measure,
        level: Level,
        max_age_s: float,
        token: str | None = None,
        interval_s: float = 1.0,
    ) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._client = httpx.Client(base_url=url, headers=headers, timeout=min(2.0, max_age_s))
        self._nodes, self._measure, self._level = dict(nodes), measure, level
        self._max_age_s, self._interval_s = max_age_s, interval_s
        self._known: dict[str, tuple[bool, float]] = {}  # backend: (interfered, monotonic time of the observation)
        self._stop = threading.Event()
        self.problem: str | None = "no answer yet"
        self._thread = threading.Thread(target=self._run, name="interference", daemon=True)
        self._thread.start()

    def read(self, now: float) -> Reading:
        """Backends whose node reported lately."""
        return {name: state for name, (state, at) in self._known.items() if now - at <= self._max_age_s}

    def stop(self) -> None:
        """End the thread; it may take the time of a request."""
        self._stop.set()

    def _run(self) -> None:
        while True:
            try:
                found, unknown = self._fetch()
                self._known = {**self._known, **found}
                more = [f"{len(unknown) - _NAMED} more"] if len(unknown) > _NAMED else []
                self.problem = "; ".join([*unknown[:_NAMED], *more]) or None
            except (httpx.HTTPError, httpx.InvalidURL, msgspec.MsgspecError, ValueError) as error:
                self.problem = f"{type(error).__name__}: {error}"
            if self._stop.wait(self._interval_s):
                self._client.close()
                return

    def _fetch(self) -> tuple[dict[str, tuple[bool, float]], list[str]]:
        """Readings, and in words of which backends there is none that is fresh: else a typing error would pass for a
        server without interference.
        """
        answer, now = msgspec.json.decode(self._get("/v1/nodes"), type=_Nodes), time.monotonic()
        reported = {node.node: node for node in answer.nodes}
        found: dict[str, tuple[bool, float]] = {}
        unknown: list[str] = []
        for backend, name in self._nodes.items():
            if name not in reported:
                unknown.append(f"{backend}: the server knows no node '{name}'")
                continue
            value = reported[name].e_s if self._measure == "e_s" else self._slowdown(name)
            age_s = max(0.0, answer.server_time - reported[name].at)
            if value is None:
                unknown.append(f"{backend}: node '{name}' reports no {self._measure}")
                continue
            if age_s > self._max_age_s:
                unknown.append(f"{backend}: node '{name}' was silent for {age_s:.0f} s")
            found[backend] = (self._level.reached(value), now - age_s)
        return found, unknown

    def _slowdown(self, node: str) -> float | None:
        history = msgspec.json.decode(self._get(f"/v1/nodes/{node}?points=1"), type=_History)
        speeds = [service.speed for point in history.points[-1:] for service in point.services]
        known = [speed for speed in speeds if speed is not None]
        if not known:
            return None
        # A job that stands still is as slow as can be.
        return 1.0 / min(known) if min(known) > 0 else math.inf

    def _get(self, path: str) -> bytes:
        response = self._client.get(path)
        response.raise_for_status()
        if len(response.content) > MAX_ANSWER:
            raise ValueError(f"{path} returned {len(response.content)} bytes, expected at most {MAX_ANSWER}")
        return response.content
