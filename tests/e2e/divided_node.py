"""A virtual node on which a first decision is in force, so that anything half-applied shows."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from osml.lab.trials.children import Children, free_port
from osml.simulator.mount import fuse_files
from tests.e2e.conftest import start_node, start_server
from tests.kit.kernel_state import kernel_state, steady_state

SERVICES = ("moses", "img-dnn", "xapian", "stream")
CPUS = ("0-8", "9-17", "18-26", "27-35")
MASKS = ("1f", "3e0", "7c00", "f8000")
Document = dict[str, Any]
Change = Callable[[Document], object]


@dataclass
class Node:
    """A virtual node on which a first decision is in force."""

    agent: Path
    directory: Path
    scratch: Path
    url: str

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.agent, *arguments], capture_output=True, text=True, timeout=30, check=False)

    def apply(self, decision: Document | str) -> subprocess.CompletedProcess[str]:
        file = self.scratch / "decision.json"
        file.write_text(decision if isinstance(decision, str) else json.dumps(decision))
        return self.run("apply", file, "--config", self.directory / "agent.yaml")

    def divide(self) -> None:
        """Bring the first decision into force."""
        for _ in range(5):
            done = self.apply(decision())
            if done.returncode != 1:  # rolled back: on a busy machine the plain files follow too late at times
                break
        assert done.returncode == 0, done.stderr
        steady_state(self.directory)  # the plain files follow within milliseconds

    def config(self, change: Change) -> Path:
        document = yaml.safe_load((self.directory / "agent.yaml").read_text())
        # What a test finds afterwards is what the agent left while it ran, not what it restored at its end.
        document["on_exit"] = "leave"
        change(document)
        path = self.scratch / "agent.yaml"
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path

    def kernel_state(self) -> dict[str, str]:
        state = kernel_state(self.directory)
        assert any("osml-moses" in path for path in state), "the first decision is in force"
        return state


def decision(shift: int = 0) -> Document:
    """Nine CPUs and five ways for each service; another `shift` changes those of every service."""
    order = [(i + shift) % 4 for i in range(4)]
    return {
        "schema": "osml/decision/v1",
        "node": "node",
        "seq": 1 + shift,
        "policy": "by-hand",
        "partition": {"regions": [{"owners": [name], "cores": 9, "ways": 5} for name in SERVICES]},
        "assignments": [
            {"service": name, "cpus": CPUS[i], "way_mask": MASKS[i]} for name, i in zip(SERVICES, order, strict=True)
        ],
    }


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest, agent: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Parametrised by how the kernel files are exported (fuse, files), or as files and with a server (served)."""
    export: str = request.param
    if export == "fuse" and (reason := fuse_files.why_not()):
        pytest.skip(f"FUSE: {reason}")
    scratch = tmp_path_factory.mktemp("bad-input")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with Children(scratch / "logs") as children:
        if export == "served":
            start_server(children, port)
        start_node(children, scratch / "node", url, "arq", "on" if export == "fuse" else "off")
        made = Node(agent, scratch / "node", scratch, url)
        made.divide()
        yield made
