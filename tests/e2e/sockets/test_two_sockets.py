"""A node with two sockets under the real agent and server: each service on one socket, its mask in both domains."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import httpx
import pytest

from osml.domain.cpulist import parse_cpulist
from osml.lab.trials.children import Children, free_port, wait_until
from osml.simulator.mount import fuse_files
from tests.e2e.conftest import PATIENT_S, Bench, start_server
from tests.e2e.divided_node import Document, Node
from tests.kit.kernel_state import kernel_state, steady_state

SOCKETS = ("0-17,36-53", "18-35,54-71")
LC = ("moses", "img-dnn", "xapian")


def start_node(children: Children, directory: Path, fuse: str, url: str = "http://127.0.0.1:1") -> None:
    command = ["osml", "virtual", "mount", str(directory), "--sockets", "2", "--fuse", fuse, "--speed", "10"]
    for name in LC:
        command += ["--lc", f"{name}=0.4"]
    node = children.start("node", [*command, "--be", "stream", "--server-url", url, "--policy", "parties"])
    ready = directory / "node.json"
    wait_until(lambda: ready.exists() and json.loads(ready.read_text())["ready"], "the virtual node", [node], PATIENT_S)


def cpus_of(directory: Path, service: str) -> set[int]:
    kind = "lc" if service in LC else "be"
    return set(parse_cpulist((directory / "cgroup" / kind / service / "cpuset.cpus").read_text().strip()))


def masks_of(directory: Path, service: str) -> dict[str, str]:
    lines = (directory / f"resctrl/osml-{service}/schemata").read_text().splitlines()
    [line] = [line.strip() for line in lines if line.strip().startswith("L3:")]
    return dict(part.split("=") for part in line.removeprefix("L3:").split(";"))


@pytest.mark.parametrize("fuse", ["off", "auto"])
def test_each_service_is_on_one_socket_and_its_mask_is_in_both_domains(
    children: Children, agent: Path, tmp_path: Path, fuse: str
) -> None:
    port, directory = free_port(), tmp_path / "node"
    server = start_server(children, port)
    start_node(children, directory, fuse, f"http://127.0.0.1:{port}")
    bench = Bench(children, agent, port, server, server, directory)
    daemon = bench.start_agent()

    def placed() -> bool:
        found = [cpus_of(directory, name) for name in (*LC, "stream")]
        sockets = [set(parse_cpulist(cpus)) for cpus in SOCKETS]
        inside = [[own <= socket for socket in sockets] for own in found if own]
        return len(inside) == len(found) and all(map(any, inside)) and all(map(any, zip(*inside, strict=True)))

    wait_until(placed, "services on both sockets", [daemon, server], timeout_s=40)
    [node] = httpx.get(f"http://127.0.0.1:{port}/v1/nodes", timeout=5).json()["nodes"]
    assert node["node"] == "node"
    for name in (*LC, "stream"):
        masks = masks_of(directory, name)
        assert set(masks) == {"0", "1"}
        assert masks["0"] == masks["1"]


def test_placement_is_offered_where_it_is_off_and_the_virtual_node_has_it_on(
    children: Children, agent: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "node"
    start_node(children, directory, "off")
    text = (directory / "agent.yaml").read_text()
    plain = directory / "plain.yaml"
    plain.write_text(text.replace("  cache_domains: place\n", ""))
    assert plain.read_text() != text
    for config, on in ((directory / "agent.yaml", True), (plain, False)):
        done = subprocess.run([str(agent), "probe", "--json", "--config", str(config)], capture_output=True, check=True)
        found = json.loads(done.stdout)
        [placement] = [one for one in found["mechanisms"] if one["name"] == "cache_domains"]
        assert placement["available"] is found["platform"].get("regions_in_domains", False) is on
        assert "measured in simulation only" in placement["reason"]
        assert on or placement["how_to_enable"] == "set cpu.cache_domains: place"


def decision(regions: list[Document], **cpus: str) -> Document:
    names = (*LC, "stream")
    return {
        "schema": "osml/decision/v1", "node": "node", "seq": 1, "policy": "by-hand",
        "partition": {"regions": regions},
        "assignments": [{"service": name, "cpus": cpus[name.replace("-", "_")], "way_mask": "fffff"} for name in names],
    }  # fmt: skip


def test_regions_in_domains_are_applied_and_a_wrong_one_changes_nothing(
    children: Children, agent: Path, tmp_path: Path
) -> None:
    if reason := fuse_files.why_not():
        pytest.skip(f"FUSE: {reason}")
    directory = tmp_path / "node"
    start_node(children, directory, "on")
    node = Node(agent, directory, tmp_path, "")
    found = steady_state(directory)
    regions = [
        {"owners": ["moses"], "cores": 36, "ways": 20, "domain": 0},
        {"owners": ["img-dnn", "xapian", "stream"], "cores": 36, "ways": 20, "domain": 1},
    ]
    second = dict.fromkeys(("img_dnn", "xapian", "stream"), SOCKETS[1])
    wrong = node.apply(decision(regions, moses="0-18,36-53", **second))
    assert wrong.returncode == 2
    assert "cpus 0-18,36-53 are not all in its domain, expected CPUs of cache domain 0" in wrong.stderr
    elsewhere = node.apply(decision([{**regions[0], "domain": 2}, regions[1]], moses=SOCKETS[0], **second))
    assert "domain 2 is no cache domain with usable CPUs of this node; known are 0, 1" in elsewhere.stderr
    assert kernel_state(directory) == found
    done = node.apply(decision(regions, moses=SOCKETS[0], **second))
    assert done.returncode == 0, done.stderr
    assert cpus_of(directory, "moses") == set(parse_cpulist(SOCKETS[0]))
    assert masks_of(directory, "moses") == {"0": "fffff", "1": "fffff"}
