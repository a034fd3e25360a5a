"""Real processes: a server, a virtual node, the agent's binary."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml

from osml.base.agent_binary import find_agent
from osml.base.failure import Failure
from osml.lab.trials.children import Child, Children, free_port, wait_until

SPEED = 10.0
PATIENT_S = 120.0
"""For processes that start on a machine that is busy."""


@pytest.fixture(scope="session")
def agent() -> Path:
    try:
        return find_agent(None)
    except Failure as failure:
        pytest.skip(str(failure))


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    with Children(tmp_path / "logs") as owned:
        yield owned


@dataclass
class Bench:
    """A running server and virtual node, ready for an agent."""

    children: Children
    agent: Path
    port: int
    server: Child
    node: Child
    directory: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def config(self) -> Path:
        return self.directory / "agent.yaml"

    def start_server(self, name: str = "server-again") -> Child:
        self.server = start_server(self.children, self.port, name)
        return self.server

    def start_agent(self, *arguments: str, name: str = "agent", env: dict[str, str] | None = None) -> Child:
        return self.children.start(name, [str(self.agent), "run", "--config", str(self.config), *arguments], env)

    def change_config(self, **changes: object) -> None:
        document = yaml.safe_load(self.config.read_text())
        self.config.write_text(yaml.safe_dump(document | changes))


def start_server(children: Children, port: int, name: str = "server") -> Child:
    server = children.start(name, ["osml", "serve", "--port", str(port), "--store", "none"])

    def ready() -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=1).is_success
        except httpx.HTTPError:
            return False

    wait_until(ready, "the server", [server], PATIENT_S)
    return server


def start_node(children: Children, directory: Path, url: str, policy: str, fuse: str = "off") -> Child:
    command = ["osml", "virtual", "mount", str(directory), "--lc", "moses=0.4", "--lc", "img-dnn=0.6"]
    command += ["--lc", "xapian=0.5", "--be", "stream", "--speed", str(SPEED), "--fuse", fuse]
    node = children.start("node", [*command, "--server-url", url, "--policy", policy])
    ready = directory / "node.json"
    wait_until(lambda: ready.exists() and json.loads(ready.read_text())["ready"], "the virtual node", [node], PATIENT_S)
    # A tenth of the usual time per second of node time: on a busy machine a late answer is no answer otherwise.
    config = directory / "agent.yaml"
    document = yaml.safe_load(config.read_text())
    document["server"]["timeout_s"] = 8
    config.write_text(yaml.safe_dump(document))
    return node


def make_bench(children: Children, agent: Path, directory: Path, fuse: str) -> Bench:
    port = free_port()
    server = start_server(children, port)
    node = start_node(children, directory, f"http://127.0.0.1:{port}", "arq", fuse)
    return Bench(children, agent, port, server, node, directory)


@pytest.fixture
def bench(children: Children, agent: Path, tmp_path: Path) -> Bench:
    """The node's kernel files are plain files that are watched: possible everywhere."""
    return make_bench(children, agent, tmp_path / "node", "off")


@pytest.fixture
def exact_bench(children: Children, agent: Path, tmp_path: Path) -> Bench:
    """The node's kernel files answer at once and with the kernel's errno, where FUSE is possible."""
    return make_bench(children, agent, tmp_path / "node", "auto")
