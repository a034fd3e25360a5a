"""A configured service that is not there: nobody gives anything up for it, and whoever looks is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from osml.lab.trials.children import Children, wait_until
from osml.simulator.mount import fuse_files
from tests.e2e.conftest import PATIENT_S
from tests.e2e.divided_node import SERVICES, Document, Node, node

__all__ = ["node"]  # the fixture
SERVED = pytest.mark.parametrize("node", ["served"], indirect=True)
ABSENT = "xapian"
WHY = "cgroup typo/xapian does not exist"


def misspelt(node: Node) -> Path:
    def change(document: Document) -> None:
        [service] = [one for one in document["services"] if one["name"] == ABSENT]
        service["match"] = {"cgroup": "typo/xapian"}
        document["metrics"] = {"textfile": str(node.scratch / "osml.prom")}

    return node.config(change)


@SERVED
def test_a_typo_in_match_takes_nothing_from_the_others_and_is_said_everywhere(node: Node) -> None:
    config = misspelt(node)
    record = node.scratch / "record.jsonl"
    once = node.run("run", "--once", "--record", record, "--config", config)
    assert once.returncode == 4, once.stderr
    [start] = [line for line in once.stderr.splitlines() if "manages node" in line]
    assert start.endswith(f"; not there: {ABSENT} ({WHY})")
    assert once.stderr.splitlines()[-1] == (
        f"osml-agent: services that are not there: {ABSENT} ({WHY}); start them, or correct their match"
    )
    [line] = record.read_text().splitlines()
    turn = json.loads(line)
    others = [name for name in SERVICES if name != ABSENT]
    assert sorted(service["name"] for service in turn["observation"]["services"]) == sorted(others)
    assert turn["observation"]["missing"][f"service.{ABSENT}"] == WHY
    given = {
        owner: region["cores"] for region in turn["decision"]["partition"]["regions"] for owner in region["owners"]
    }
    assert ABSENT not in given
    assert sum(region["cores"] for region in turn["decision"]["partition"]["regions"]) == 36
    shown = node.run("show", "--config", config)
    assert shown.stdout.splitlines()[0] == f"not there: {ABSENT} ({WHY})"
    document = json.loads(node.run("show", "--json", "--config", config).stdout)
    assert document["absent"] == {ABSENT: WHY}
    assert ABSENT not in {one["service"] for one in document["assignments"]}
    metrics = (node.scratch / "osml.prom").read_text()
    for name in SERVICES:
        assert f'osml_agent_service_absent{{node="node",service="{name}"}} {int(name == ABSENT)}' in metrics
    state_dir = Path(yaml.safe_load(config.read_text())["state_dir"])
    audit = [json.loads(entry) for entry in (state_dir / "audit.jsonl").read_text().splitlines()]
    assert audit[-1]["absent"] == [ABSENT]


@SERVED
def test_a_longer_run_without_a_service_ends_well(node: Node) -> None:
    ran = node.run("run", "--ticks", "2", "--dry-run", "--config", misspelt(node))
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count(f"service '{ABSENT}' is not there") == 1


@SERVED
def test_an_agent_without_services_waits(node: Node) -> None:
    path = node.config(lambda document: document.update(services=[]))
    ran = node.run("run", "--ticks", "3", "--dry-run", "--record", node.scratch / "empty.jsonl", "--config", path)
    assert ran.returncode == 0, ran.stderr
    assert "no decision" not in ran.stderr
    assert not (node.scratch / "empty.jsonl").exists(), "nobody was asked"


@pytest.fixture
def kernel_like(children: Children, agent: Path, tmp_path: Path) -> Iterator[Node]:
    """A node whose groups can be removed as the kernel's can."""
    if reason := fuse_files.why_not():
        pytest.skip(f"FUSE: {reason}")
    directory = tmp_path / "node"
    command = ["osml", "virtual", "mount", str(directory), "--lc", "moses=0.4", "--be", "stream", "--fuse", "on"]
    child = children.start("node", command)
    ready = directory / "node.json"
    wait_until(
        lambda: ready.exists() and json.loads(ready.read_text())["ready"], "the virtual node", [child], PATIENT_S
    )
    yield Node(agent, directory, tmp_path, "")


def test_the_cache_group_of_a_service_goes_with_it_and_comes_with_it(kernel_like: Node) -> None:
    pid_file = kernel_like.scratch / "stream.pid"
    document = yaml.safe_load((kernel_like.directory / "agent.yaml").read_text())
    [stream] = [one for one in document["services"] if one["name"] == "stream"]
    pids = (kernel_like.directory / "cgroup" / stream["match"]["cgroup"] / "cgroup.procs").read_text().split()
    stream["match"] = {"pid_file": str(pid_file)}
    document["on_exit"] = "leave"
    (kernel_like.directory / "agent.yaml").write_text(yaml.safe_dump(document))
    groups = kernel_like.directory / "resctrl"

    def divide(masks: dict[str, str], seq: int) -> None:
        done = kernel_like.apply(
            {
                "schema": "osml/decision/v1",
                "node": "node",
                "seq": seq,
                "policy": "by-hand",
                "partition": {"regions": [{"owners": list(masks), "cores": 20, "ways": 20}]},
                "assignments": [{"service": name, "way_mask": mask} for name, mask in masks.items()],
            }
        )
        assert done.returncode == 0, done.stderr

    def look() -> None:
        """One turn of the daemon; nobody answers it."""
        ran = kernel_like.run("run", "--ticks", "1", "--config", kernel_like.directory / "agent.yaml")
        assert ran.returncode == 0, ran.stderr

    pid_file.write_text(pids[0])
    divide({"moses": "ff", "stream": "ff00"}, 1)
    assert {path.name for path in groups.glob("osml-*")} == {"osml-moses", "osml-stream"}
    pid_file.unlink()
    look()
    assert {path.name for path in groups.glob("osml-*")} == {"osml-moses"}
    pid_file.write_text(pids[0])
    look()  # nobody decided anything meanwhile
    assert {path.name for path in groups.glob("osml-*")} == {"osml-moses", "osml-stream"}
    assert pids[0] in (groups / "osml-stream/tasks").read_text().split()
    pid_file.unlink()
    look()
    divide({"moses": "fffff"}, 2)
    pid_file.write_text(pids[0])
    look()
    assert {path.name for path in groups.glob("osml-*")} == {"osml-moses"}
    restored = kernel_like.run("restore", "--config", kernel_like.directory / "agent.yaml")
    assert restored.returncode == 0, restored.stderr
    assert not list(groups.glob("osml-*"))
