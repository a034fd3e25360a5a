"""Sends each new interval to the open event streams of its node; a slow reader does not delay the others."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from osml_serving.metrics import Metrics

QUEUE = 64  # frames: a viewer that is a minute behind at 1 Hz reconnects and reads the history instead
MAX_VIEWERS = 64
MAX_OWN_VIEWERS = 8  # of one node, for a token of this node


class TooManyViewersError(Exception):
    """The limit of open event streams is reached."""


class Viewer:
    """One open event stream. None in the queue ends it."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue(QUEUE)

    def end(self) -> None:
        """Close the stream now; what still waits is not sent."""
        while not self.queue.empty():
            self.queue.get_nowait()
        self.queue.put_nowait(None)


class Broker:
    """All open event streams, also those that are passed on from another server."""

    def __init__(self, metrics: Metrics) -> None:
        self._viewers: set[Viewer] = set()
        self._passed_on: list[str] = []  # nodes
        self._metrics = metrics
        self._closed = False

    def subscribe(self, node: str, most: int = MAX_VIEWERS) -> Viewer:
        """A new viewer of a node, which may have `most` of them. Raises TooManyViewersError."""
        self._refuse_too_many(node, most)
        viewer = Viewer(node)
        self._viewers.add(viewer)
        self._count()
        if self._closed:
            viewer.end()
        return viewer

    def unsubscribe(self, viewer: Viewer) -> None:
        """Forget a viewer."""
        self._viewers.discard(viewer)
        self._count()

    @contextmanager
    def passing_on(self, node: str, most: int = MAX_VIEWERS) -> Generator[None]:
        """Count a stream of another server, which has the node. Raises TooManyViewersError."""
        self._refuse_too_many(node, most)
        self._passed_on.append(node)
        self._count()
        try:
            yield
        finally:
            self._passed_on.remove(node)
            self._count()

    def _refuse_too_many(self, node: str, most: int) -> None:
        of_node = sum(viewer.node == node for viewer in self._viewers) + self._passed_on.count(node)
        if len(self._viewers) + len(self._passed_on) >= MAX_VIEWERS or of_node >= most:
            raise TooManyViewersError

    def _count(self) -> None:
        self._metrics.viewers.set(len(self._viewers) + len(self._passed_on))

    def publish(self, node: str, frame: bytes) -> None:
        """Give a frame to the node's viewers. Those whose queue is full are dropped."""
        for viewer in [viewer for viewer in self._viewers if viewer.node == node]:
            try:
                viewer.queue.put_nowait(frame)
            except asyncio.QueueFull:
                self._metrics.viewers_dropped.inc()
                self.unsubscribe(viewer)
                viewer.end()

    @property
    def closed(self) -> bool:
        """True once the server stops."""
        return self._closed

    def watched(self, node: str) -> bool:
        """True where the node has an open event stream: otherwise no frame is needed."""
        return any(viewer.node == node for viewer in self._viewers)

    def close(self) -> None:
        """End every stream, so that the server can stop."""
        self._closed = True
        self.end_all()

    def end_all(self) -> None:
        """End every stream; a reader with a valid token reconnects."""
        for viewer in list(self._viewers):
            viewer.end()
