"""An API server as the agent meets it: HTTPS, a token, the status of one node, events, and lists of LatencyTargets.

It takes what a real one takes and refuses the rest: method, path, content type and every field of what it stores.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import kubernetes_validate

from tests.kit.http_thread import HttpThread, Quiet

Document = dict[str, Any]
MERGE = "application/strategic-merge-patch+json"
EVENTS = "/api/v1/namespaces/default/events"
LATEST = kubernetes_validate.latest_version()
TARGETS = re.compile(r"/apis/osml\.dev/v1alpha1/(?:namespaces/([a-z0-9-]+)/)?latencytargets\?(.+)")
BODIES = {"huge": b"[" * (5 << 20), "nonsense": b"<html>\x1b[31mWelcome</html>"}


def latency_target(name: str, namespace: str = "shop", **spec: Any) -> Document:
    """For the pods with the label app=web, as an API server keeps it."""
    return {
        "apiVersion": "osml.dev/v1alpha1",
        "kind": "LatencyTarget",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"00000000-0000-4000-8000-{len(name):012}",
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:selector": {}}}}],
        },
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


def check(document: Document) -> None:
    """Raises where the API does not know a field, or wants another type."""
    kubernetes_validate.validate(document, LATEST, strict=True)


@dataclass
class FakeApiServer:
    """What it answers can be changed while it runs. For use in a `with` block."""

    folder: Path
    node_name: str
    token: str = "first"  # noqa: S105 - of this test
    fault: str = ""
    asked: int = 0
    elsewhere: int = 0  # requests that followed the redirect
    refused: list[str] = field(default_factory=list[str])
    targets: list[Document] = field(default_factory=list[Document])
    lists: list[str] = field(default_factory=list[str])  # what was asked of them
    events: dict[str, Document] = field(default_factory=dict[str, Document])
    history: list[str] = field(default_factory=list[str])  # reasons of the condition, as they changed
    capacity: list[str | None] = field(default_factory=list["str | None"])  # of the resource, as it was written

    def __post_init__(self) -> None:
        ready = {"type": "Ready", "status": "True"}
        self.node: Document = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.node_name},
            "status": {"capacity": {"cpu": "36", "memory": "64Gi"}, "conditions": [ready]},
        }

    @property
    def condition(self) -> Document:
        """The condition of osml; empty where there is none."""
        found = [one for one in self.node["status"]["conditions"] if one["type"].startswith("osml.dev/")]
        return found[0] if found else {}

    def patch_status(self, patch: Document) -> None:
        """Strategic merge: conditions by their type, capacity by its key; null takes a key away."""
        assert patch.keys() == {"status"}
        assert patch["status"].keys() <= {"conditions", "capacity"}
        status = self.node["status"]
        for one in patch["status"].get("conditions", []):
            kept = [each for each in status["conditions"] if each["type"] != one["type"]]
            status["conditions"] = [*kept, one]
            if not self.history or self.history[-1] != one["reason"]:
                self.history.append(one["reason"])
        for key, value in patch["status"].get("capacity", {}).items():
            self.capacity.append(value)
            status["capacity"] = {name: old for name, old in status["capacity"].items() if name != key}
            if value is not None:
                status["capacity"][key] = value
        check(self.node)

    def store_event(self, method: str, path: str, body: Document) -> int:
        """Status; an event of a node belongs to the namespace default."""
        if method == "POST":
            check(body)
            assert body["metadata"]["namespace"] == "default"
            assert body["involvedObject"]["name"] == self.node_name
            name = body["metadata"]["name"]
            if name in self.events:
                return 409
            self.events[name] = body
            return 201
        name = path.removeprefix(f"{EVENTS}/")
        if name not in self.events:
            return 404
        self.events[name] |= body
        check(self.events[name])
        return 200

    def list_targets(self, path: str) -> bytes:
        """A list from the cache is whole, whatever the limit is."""
        found = TARGETS.fullmatch(path)
        assert found is not None
        namespace, query = found.groups()
        assert query == "limit=500&resourceVersion=0"
        self.lists.append(path)
        items = [one for one in self.targets if namespace in {None, one["metadata"]["namespace"]}]
        head = {"apiVersion": "osml.dev/v1alpha1", "kind": "LatencyTargetList", "metadata": {"resourceVersion": "812"}}
        return json.dumps(head | {"items": items}).encode()

    def take(self, method: str, path: str, kind: str, body: bytes) -> int:
        """Status of a request that may come in."""
        if (method, path, kind) == ("PATCH", f"/api/v1/nodes/{self.node_name}/status", MERGE):
            self.patch_status(json.loads(body))
            return 200
        known = (method, kind) in {("POST", "application/json"), ("PATCH", MERGE)}
        if known and path.startswith(EVENTS):
            return self.store_event(method, path, json.loads(body))
        raise AssertionError(f"{method} {path} as {kind}")

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, bytes]:
        """Status and body."""
        if path == "/elsewhere":
            self.elsewhere += 1
        if headers.get("authorization") != f"Bearer {self.token}":
            return 401, b"{}"
        if self.fault.isdigit():
            return int(self.fault), b'{"kind":"Status","status":"Failure"}'
        if self.fault == "slow":
            time.sleep(8)
            return 200, b"{}"
        if self.fault in BODIES:
            return 200, BODIES[self.fault]
        try:
            if method == "GET":
                return 200, self.list_targets(path)
            return self.take(method, path, headers.get("content-type", ""), body), b'{"kind":"Node"}'
        except (AssertionError, ValueError, KeyError, kubernetes_validate.ValidationError) as error:
            self.refused.append(str(error))
            return 422, b"{}"

    def __enter__(self) -> Self:
        owner = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do(self) -> None:
                owner.asked += 1
                body = self.rfile.read(int(self.headers.get("content-length", "0")))
                status, answer = owner.answer(self.command, self.path, self.headers, body)
                headers = {"content-type": "application/json"}
                if status == 429:
                    headers["retry-after"] = "1"
                if 300 <= status < 400:
                    headers["location"] = "/elsewhere"
                self.tell(status, answer, headers)

            do_GET = do_PATCH = do_POST = do  # noqa: N815 - the names of http.server

        self._server = HttpThread(Handler, certificate=(self.folder / "api.pem", self.folder / "api.key"))
        self.port = self._server.port
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop()
