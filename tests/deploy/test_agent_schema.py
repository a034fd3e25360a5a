"""The published schema of agent.yaml and the agent agree. Keys, words and ranges: config_schema_test.cpp."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from osml.base.agent_binary import find_agent
from osml.base.failure import Failure
from tests.deploy.agent_yaml import SCHEMA, complaints, read_agent_yaml

EXAMPLE = Path(__file__).resolve().parents[2] / "actuator/agent.example.yaml"
Document = dict[str, Any]
Change = Callable[[Document], object]


def service(**changes: object) -> Change:
    return lambda document: document["services"][0].update(changes)


def without(key: str) -> Change:
    return lambda document: document["services"][0].pop(key)


def discover(**keys: object) -> Document:
    """`kubelet` with pods that may ask."""
    return {"discover": {"namespaces": ["shop"], **keys}}


BAD: dict[str, Change] = {
    "no-node": lambda document: document.pop("node"),
    "no-url": lambda document: document["server"].pop("url"),
    "credentials-in-url": lambda document: document["server"].update(url="http://u:p@h"),
    "no-list-of-services": lambda document: document.update(services={}),
    "unknown-key": lambda document: document.update(intervall_s=1),
    "unknown-key-below": lambda document: document["roots"].update(procfs="/proc"),
    "word": lambda document: document.update(fallback="panic"),
    "interval": lambda document: document.update(interval_s=0),
    "quantum": lambda document: document["cpu"].update(quantum=2),
    "cpus": lambda document: document["cpu"].update(cpus="3-"),
    "textfile": lambda document: document.update(metrics={"textfile": "/var/osml.txt"}),
    "lc-without-target": without("target_ms"),
    "lc-without-latency": without("latency"),
    "be-with-target": service(**{"class": "be"}),
    "no-match": without("match"),
    "two-matches": service(match={"cgroup": "a", "pids": [1]}),
    "absolute-cgroup": service(match={"cgroup": "/a"}),
    "unit-without-its-kind": service(match={"systemd": "redis"}),
    "unit-as-a-path": service(match={"systemd": "a/redis.service"}),
    "container-as-a-path": service(match={"docker": "../redis"}),
    "pod-without-namespace": service(match={"pod": {"name": "web-0"}}),
    "pod-by-nothing": service(match={"pod": {"namespace": "shop"}}),
    "pod-by-both": service(match={"pod": {"namespace": "shop", "name": "web-0", "labels": {"app": "web"}}}),
    "pod-without-labels": service(match={"pod": {"namespace": "shop", "labels": {}}}),
    "pod-with-a-strange-name": service(match={"pod": {"namespace": "shop", "name": "Web_0"}}),
    "pod-and-cgroup": service(match={"cgroup": "a", "pod": {"namespace": "shop", "name": "web-0"}}),
    "kubelet-without-tls": lambda document: document.update(kubelet={"url": "http://127.0.0.1:10255/pods"}),
    "kubelet-word": lambda document: document.update(kubelet={"guaranteed": "maybe"}),
    "discover-without-namespaces": lambda document: document.update(kubelet={"discover": {"per_namespace": 2}}),
    "discover-a-strange-namespace": lambda document: document.update(kubelet={"discover": {"namespaces": ["a.b"]}}),
    "discover-no-list": lambda document: document.update(kubelet={"discover": {"namespaces": "shop"}}),
    "discover-too-many": lambda document: document.update(kubelet=discover(per_namespace=65)),
    "discover-a-target-of-zero": lambda document: document.update(kubelet=discover(min_target_ms=0)),
    "discover-a-long-directory": lambda document: document.update(kubelet=discover(datagram_directory="/" + 38 * "a")),
    "discover-mode": lambda document: document.update(kubelet=discover(datagram_mode="0777")),
    "report-word": lambda document: document.update(kubernetes={"condition": "yes"}),
    "report-without-tls": lambda document: document.update(kubernetes={"url": "http://10.0.0.1"}),
    "report-a-strange-node": lambda document: document.update(kubernetes={"node_name": "Node_1"}),
    "report-a-short-heartbeat": lambda document: document.update(kubernetes={"heartbeat_s": 1}),
    "idle-word": lambda document: document.update(levers={"idle": "yes"}),
    "pid-of-zero": service(match={"pids": [0]}),
    "two-sources": service(latency={"file": "/t", "datagram": "/s"}),
    "no-source": service(latency={"max_age_s": 3}),
    "mode": service(latency={"datagram": "/s", "datagram_mode": "0777"}),
    "name": service(name="a b"),
    "cores-of-zero": service(limits={"min_cores": 0}),
}
GOOD: dict[str, Change] = {
    "as-it-is": lambda _document: None,
    "no-services": lambda document: document.update(services=[]),
    "nulls": service(ideal_ms=None, limits=None, percentile=None),
    "null-beside-a-source": service(latency={"file": None, "datagram": "/s", "max_age_s": None}),
    "unit": service(match={"systemd": "getty@tty1.service"}),
    "container": service(match={"docker": "search_1"}),
    "pod-by-name": service(match={"pod": {"namespace": "shop", "name": "web-0", "labels": None}}),
    "pod-by-labels": service(match={"pod": {"namespace": "shop", "labels": {"a.b/c": "d"}, "container": "app"}}),
    "kubelet": lambda document: document.update(kubelet={"ca_file": "/ca.pem", "server_name": "node-17"}),
    "discover": lambda document: document.update(
        kubelet=discover(datagram_directory="/" + 37 * "a", limits={"max_cores": 4}, per_namespace=None)
    ),
    "discover-off": lambda document: document.update(kubelet={"discover": {"namespaces": []}}),
    "discover-all": lambda document: document.update(kubelet={"discover": {"namespaces": ["*"]}}),
    "reports": lambda document: document.update(kubernetes={"condition": "on", "events": "on", "batch_cpu": "on"}),
    "idle": lambda document: document.update(levers={"idle": "on"}),
    "null-beside-a-match": service(match={"cgroup": "a", "pids": None}),
    "least": lambda document: [document.pop(key) for key in list(document) if key not in SCHEMA["required"]],
}


def example() -> Document:
    return copy.deepcopy(read_agent_yaml(EXAMPLE.read_text()))


@pytest.fixture(scope="module")
def agent() -> Path:
    try:
        return find_agent(None)
    except Failure as failure:
        pytest.skip(str(failure))


def says(agent: Path, document: Document, tmp_path: Path) -> str:
    """What the reader says against it: a dry `restore` reads the configuration and little else."""
    document = document | {"state_dir": str(tmp_path / "state")}
    config = tmp_path / "agent.yaml"
    config.write_text(yaml.safe_dump(document))
    done = subprocess.run(
        [agent, "restore", "--dry-run", "--config", config], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode in {0, 2}, done.stderr
    return done.stderr


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_binary_carries_it(agent: Path) -> None:
    printed = subprocess.run([agent, "schema"], capture_output=True, text=True, check=True, timeout=30).stdout
    assert json.loads(printed) == SCHEMA


@pytest.mark.parametrize("case", GOOD)
def test_what_is_good_is_good_for_both(case: str, agent: Path, tmp_path: Path) -> None:
    document = example()
    GOOD[case](document)
    assert complaints(document) == []
    assert says(agent, document, tmp_path) == ""


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_wrong_for_both(case: str, agent: Path, tmp_path: Path) -> None:
    document = example()
    BAD[case](document)
    assert complaints(document) != []
    assert "agent.yaml:" in says(agent, document, tmp_path)
