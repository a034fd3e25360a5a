"""A kubelet as the agent meets it: HTTPS, a token, and its pods in the schema of the API (v1 PodList)."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.kit.http_thread import HttpThread, Quiet

NAME = "node-17"  # in the certificate, which has no address: as kubelets sign for themselves
Document = dict[str, Any]


def make_certificate(folder: Path, who: str = "kubelet", alternative: str = f"DNS:{NAME}") -> None:
    """`WHO.pem` with its key, signed by itself."""
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    command += ["-subj", f"/CN={NAME}", "-addext", f"subjectAltName={alternative}"]
    subprocess.run(
        [*command, "-keyout", f"{who}.key", "-out", f"{who}.pem"], cwd=folder, check=True, capture_output=True
    )


def pod(
    name: str, uid: str, container_id: str | None, labels: dict[str, str], asks: dict[str, str] | None = None
) -> Document:
    """A running pod of the namespace shop with one container `app`, as a kubelet of version 1.33 tells it.

    `asks`: annotations of osml.dev, without that prefix.
    """
    state = {"running": {"startedAt": "2026-11-24T10:00:01Z"}} if container_id else {"waiting": {"reason": "Starting"}}
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": uid,
            "resourceVersion": "812",
            "creationTimestamp": "2026-11-24T10:00:00Z",
            "labels": labels,
            "annotations": {
                "kubernetes.io/config.seen": "2026-11-24T10:00:00.1Z",
                "kubernetes.io/config.source": "api",
                **{f"osml.dev/{key}": value for key, value in (asks or {}).items()},
            },
            "managedFields": [{"manager": "kube-controller-manager", "fieldsV1": {"f:metadata": {"f:labels": {}}}}],
        },
        "spec": {
            "nodeName": NAME,
            "containers": [
                {
                    "name": "app",
                    "image": "registry.example/web:1",
                    "env": [{"name": "MODE", "value": "fast"}],
                    "resources": {"requests": {"cpu": "500m"}},
                }
            ],
        },
        "status": {
            "phase": "Running",
            "hostIP": "192.0.2.17",
            "podIP": "10.1.2.3",
            "podIPs": [{"ip": "10.1.2.3"}],
            "qosClass": "Burstable",
            "containerStatuses": [
                {
                    "name": "app",
                    "state": state,
                    "ready": container_id is not None,
                    "restartCount": 0,
                    "containerID": f"containerd://{container_id}" if container_id else "",
                }
            ],
        },
    }


@dataclass
class FakeKubelet:
    """What it answers can be changed while it runs. For use in a `with` block."""

    folder: Path
    token: str = "first"  # noqa: S105 - of this test
    pods: list[Document] = field(default_factory=list[Document])
    fault: str = ""
    asked: int = 0
    port: int = 0

    def answer(self, token: str) -> tuple[int, bytes]:
        """Status and body."""
        if token != f"Bearer {self.token}" or self.fault == "401":
            return 401, b"Unauthorized"
        if self.fault == "403":
            return 403, b"Forbidden (user=system:serviceaccount:osml:osml-agent, verb=get, resource=nodes)"
        if self.fault == "slow":
            time.sleep(8)
        if self.fault == "huge":
            return 200, b"[" * (20 << 20)
        if self.fault == "nonsense":
            return 200, b"<html>\x1b[31mWelcome</html>"
        if self.fault == "half":
            return 200, json.dumps({"kind": "PodList", "items": self.pods}).encode()[:-20]
        return 200, json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": self.pods}).encode()

    def __enter__(self) -> Self:
        owner = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.asked += 1
                status, body = owner.answer(self.headers.get("authorization", ""))
                self.tell(status, body, {"content-type": "application/json"})

        self._server = HttpThread(Handler, self.port, (self.folder / "kubelet.pem", self.folder / "kubelet.key"))
        self.port = self._server.port
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop()
