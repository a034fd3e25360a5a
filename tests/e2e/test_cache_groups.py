"""A machine with fewer cache groups than services: equals share one, and what cannot fit is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from osml.lab.trials.children import Children, wait_until
from osml.simulator.mount import fuse_files
from tests.e2e.conftest import PATIENT_S
from tests.e2e.divided_node import Document, Node
from tests.kit.kernel_state import kernel_state, steady_state

LC = ("moses", "img-dnn")
BE = ("stream", "fluidanimate", "bayes", "blackscholes", "bodytrack", "ferret", "kmeans")


@pytest.fixture
def few_groups(children: Children, agent: Path, tmp_path: Path) -> Iterator[Node]:
    """Two services and seven jobs on a machine with eight groups, the default one included."""
    if reason := fuse_files.why_not():
        pytest.skip(f"FUSE: {reason}")
    directory = tmp_path / "node"
    command = ["osml", "virtual", "mount", str(directory), "--platform", "gold-6278c", "--fuse", "on", "--speed", "10"]
    for name in LC:
        command += ["--lc", f"{name}=0.3"]
    for name in BE:
        command += ["--be", name]
    child = children.start("node", command)
    ready = directory / "node.json"
    wait_until(
        lambda: ready.exists() and json.loads(ready.read_text())["ready"], "the virtual node", [child], PATIENT_S
    )
    yield Node(agent, directory, tmp_path, "")


def decision(masks: dict[str, str], seq: int = 1) -> Document:
    return {
        "schema": "osml/decision/v1",
        "node": "node",
        "seq": seq,
        "policy": "by-hand",
        "partition": {"regions": [{"owners": list(masks), "cores": 20, "ways": 11}]},
        "assignments": [{"service": name, "cpus": "0-19", "way_mask": mask} for name, mask in masks.items()],
    }


def groups(node: Node) -> set[str]:
    return {path.name for path in (node.directory / "resctrl").glob("osml-*")}


def tasks(node: Node, group: str) -> set[str]:
    return set((node.directory / f"resctrl/{group}/tasks").read_text().split())


def test_jobs_with_the_same_ways_share_one_group(few_groups: Node) -> None:
    found = steady_state(few_groups.directory)
    shared = dict.fromkeys(BE, "7")
    done = few_groups.apply(decision({LC[0]: "38", LC[1]: "7c0", **shared}))
    assert done.returncode == 0, done.stderr
    assert groups(few_groups) == {"osml-moses", "osml-img-dnn", f"osml-{min(BE)}"}
    before = tasks(few_groups, "osml-moses")
    # Who was apart comes together, and the other way round.
    done = few_groups.apply(decision({LC[0]: "7c0", LC[1]: "7c0", **shared, "stream": "38"}, seq=2))
    assert done.returncode == 0, done.stderr
    assert groups(few_groups) == {"osml-img-dnn", "osml-stream", f"osml-{min(BE)}"}
    assert before < tasks(few_groups, "osml-img-dnn")
    again = few_groups.apply(decision({LC[0]: "7c0", LC[1]: "7c0", **shared, "stream": "38"}, seq=3))
    assert again.stdout.strip() == "unchanged"
    restored = few_groups.run("restore", "--config", few_groups.directory / "agent.yaml")
    assert restored.returncode == 0, restored.stderr
    assert steady_state(few_groups.directory) == found


def test_what_needs_too_many_groups_is_refused_before_any_is_made(few_groups: Node) -> None:
    found = kernel_state(few_groups.directory)
    masks = ("1", "2", "4", "8", "10", "20", "40", "80", "100")
    refused = few_groups.apply(decision(dict(zip((*LC, *BE), masks, strict=True))))
    assert refused.returncode == 2
    assert "the assignments need 9 cache groups, but this node has room for 7" in refused.stderr
    assert kernel_state(few_groups.directory) == found
