"""An agent that finds its services by a kubelet."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from osml.lab.trials.children import Child, Children
from tests.e2e.cluster.fake_kubelet import FakeKubelet


@dataclass
class Host:
    """An agent on this machine; a second of node time is a tenth of a second."""

    children: Children
    folder: Path
    kubelet: FakeKubelet
    command: list[str]
    config: dict[str, Any]
    agent: Child | None = None

    def write_config(self) -> None:
        self.set_token(self.kubelet.token)
        (self.folder / "agent.yaml").write_text(yaml.safe_dump(self.config))

    def start(self) -> Child:
        self.write_config()
        self.agent = self.children.start(f"agent{time.monotonic_ns()}", self.command)
        return self.agent

    def set_token(self, token: str) -> None:
        fresh = self.folder / "token.new"
        fresh.write_text(token)
        fresh.chmod(0o600)
        fresh.rename(self.folder / "token")

    def metric(self, name: str) -> float:
        text = (self.folder / "osml.prom").read_text()
        [line] = [line for line in text.splitlines() if line.startswith(f"osml_agent_{name}")]
        return float(line.rpartition(" ")[2])

    def log(self) -> str:
        assert self.agent is not None
        return self.agent.log.read_text()
