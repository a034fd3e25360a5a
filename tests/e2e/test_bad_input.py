"""Wrong decisions and configurations: one clear sentence from the real agent, and nothing half-applied."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from osml.lab.trials.children import OSML
from tests.e2e.divided_node import Change, Document, Node, decision, node

__all__ = ["node"]  # the fixture
FILES = pytest.mark.parametrize("node", ["files"], indirect=True)
BOTH_EXPORTS = pytest.mark.parametrize("node", ["files", "fuse"], indirect=True)


def only_sentence(text: str) -> str:
    lines = text.splitlines()
    assert len(lines) == 1, text
    assert lines[0].startswith("osml-agent: "), text
    return lines[0]


def assignment(**values: object) -> Change:
    return lambda document: document["assignments"][-1].update(values)


def region(**values: object) -> Change:
    return lambda document: document["partition"]["regions"][-1].update(values)


ONE_RUN = "is not contiguous, expected one run of ways such as 7; this cache accepts only contiguous masks"
BAD_DECISIONS: dict[str, tuple[Change, str]] = {
    "unknown-service": (
        assignment(service="steam"),
        "assignments[3].service: 'steam' is not a service of this node; its services are moses, img-dnn, xapian, "
        "stream",
    ),
    "unknown-owner": (
        region(owners=["steam"]),
        "region owner 'steam' is not a service of this node; its services are moses",
    ),
    "cpu-that-is-not-there": (assignment(cpus="27-40"), "cpus 27-40 are not all CPUs of this node (0-35)"),
    "more-cores": (region(cores=10), "the regions sum up to 37 cores, expected at most the 36 of this node"),
    "more-quota": (assignment(cpu_quota=37), "cpu_quota 37 is outside 0.01..36 CPUs"),
    "more-ways": (region(ways=6), "the regions sum up to 21 ways, expected at most the 20 of this node"),
    "empty-mask": (assignment(way_mask="0"), 'assignments[3].way_mask: "0", expected at least one way'),
    "region-without-ways": (region(ways=0), "the regions give service 'stream' 0 ways, expected at least 1"),
    "region-without-cores": (region(cores=0), "the regions give service 'stream' 0 cores, expected at least 1"),
    "holes": (assignment(way_mask="15"), "service 'stream': way_mask 15 " + ONE_RUN),
    "wide": (assignment(way_mask="1f0000"), "way_mask 1f0000 is wider than the cache, which has 20 ways"),
    "named-twice": (assignment(service="moses"), "service 'moses' has two assignments, expected one per service"),
    "left-out": (lambda document: document["assignments"].pop(), "service 'stream' has no assignment"),
    "other-node": (
        lambda document: document.update(node="n2"),
        "the decision is for node 'n2', but this node is 'node'",
    ),
}


@BOTH_EXPORTS
@pytest.mark.parametrize("case", BAD_DECISIONS)
def test_a_bad_decision_is_refused_whole(node: Node, case: str) -> None:
    spoil, words = BAD_DECISIONS[case]
    # The mistake is in the last service; everything before it would be a change.
    bad = decision(shift=1)
    spoil(bad)
    before = node.kernel_state()
    refused = node.apply(bad)
    assert refused.returncode == 2
    assert words in only_sentence(refused.stderr)
    assert refused.stdout == ""
    assert node.kernel_state() == before


@BOTH_EXPORTS
def test_the_same_decision_without_a_mistake_is_applied(node: Node) -> None:
    before = node.kernel_state()
    for _ in range(10):
        applied = node.apply(decision(shift=1))
        if applied.returncode != 1:  # plain files answer late on a busy machine
            break
    assert applied.stdout == "applied\n"
    assert node.kernel_state() != before
    node.divide()


@FILES
@pytest.mark.parametrize("text", ["", "<html>", '{"schema": "osml/deci', "[]", "nul"])
def test_a_file_that_is_no_decision_is_refused(node: Node, text: str) -> None:
    before = node.kernel_state()
    refused = node.apply(text)
    assert refused.returncode == 2
    assert re.search(
        r"decision\.json: (the decision is not valid JSON: .+|the document: .+, expected an object)",
        only_sentence(refused.stderr),
    )
    assert node.kernel_state() == before


def service(index: int, **values: object) -> Change:
    return lambda document: document["services"][index].update(values)


def server(url: str) -> Change:
    return lambda document: document["server"].update(url=url)


def misspell(document: Document) -> None:
    document["services"][0]["taget_ms"] = document["services"][0].pop("target_ms")


AN_ADDRESS = "expected an address like http://127.0.0.1:8080"
BAD_CONFIGS: dict[str, tuple[Change, str]] = {
    "typo": (lambda config: config.update(intervall_s=1), "intervall_s: unknown key; did you mean 'interval_s'?"),
    "typo-in-a-required-key": (misspell, "services[0].taget_ms: unknown key; did you mean 'target_ms'?"),
    "target-of-zero": (service(0, target_ms=0), "services[0].target_ms: '0', expected milliseconds above 0"),
    "two-of-one-name": (
        service(1, name="moses"),
        "services[1].name: 'moses' is also the name of services[0], expected a different name for each service",
    ),
    "no-scheme": (server("localhost:8080"), f"server.url: 'localhost:8080', {AN_ADDRESS}"),
    "no-http": (server("ftp://localhost"), f"server.url: 'ftp://localhost', {AN_ADDRESS}"),
    "no-port": (server("http://127.0.0.1:99999"), f"server.url: 'http://127.0.0.1:99999', {AN_ADDRESS}"),
    "endpoint": (server("http://127.0.0.1:1/v1/decisions"), "expected the address without /v1"),
    "empty": (lambda config: config.clear(), "expected keys such as node"),
}


@FILES
@pytest.mark.parametrize("command", ["run", "apply"])
@pytest.mark.parametrize("case", BAD_CONFIGS)
def test_a_bad_configuration_ends_the_command_before_anything_is_touched(node: Node, command: str, case: str) -> None:
    spoil, words = BAD_CONFIGS[case]
    path = node.config(spoil)
    if case == "empty":
        path.write_text("")
    before = node.kernel_state()
    good = node.scratch / "good.json"
    good.write_text(json.dumps(decision(shift=1)))
    ended = node.run(command, *([good] if command == "apply" else ["--ticks", "3"]), "--config", path)
    assert ended.returncode == 2
    assert re.match(rf"osml-agent: {re.escape(str(path))}:\d+:\d+: ", only_sentence(ended.stderr))
    assert words in ended.stderr
    assert node.kernel_state() == before


BAD_NODES = {
    "two-of-one-name": (["--lc", "moses=0.4", "--lc", "moses=0.6"], "--lc has a service twice"),
    "unknown-service": (["--lc", "mosse=0.4"], "unknown LC service 'mosse', known are ads, "),
    "no-address": (
        ["--lc", "moses=0.4", "--server-url", "localhost"],
        "--server-url is 'localhost', expected an address",
    ),
}


@pytest.mark.parametrize("case", BAD_NODES)
def test_a_bad_virtual_node_is_refused_before_its_folder_is_made(tmp_path: Path, case: str) -> None:
    arguments, words = BAD_NODES[case]
    command = [*OSML, "virtual", "mount", str(tmp_path / "node"), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert words in ended.stderr
    assert not (tmp_path / "node").exists()
