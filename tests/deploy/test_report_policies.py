"""The admission policies of the agent's reports, evaluated: what the agent writes passes, all else is denied."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import celpy
import pytest
import yaml
from celpy import celtypes

REPORT = Path(__file__).resolve().parents[2] / "deploy/kubernetes/report/report.yaml"
CLAIM = "authentication.kubernetes.io/node-name"
ALLOWED = "allowed"
SKIPPED = "not the agent"
Document = dict[str, Any]

NODE: Document = {
    "metadata": {"name": "node-17", "labels": {"osml": "managed"}},
    "status": {
        "images": [{"names": ["registry.example/app:1"], "sizeBytes": 7}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "capacity": {"cpu": "36"},
        "allocatable": {"cpu": "35"},
        "addresses": [{"type": "InternalIP", "address": "192.0.2.17"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {"kernelVersion": "6.1"},
    },
}
EVENT: Document = {
    "metadata": {"name": "node-17.1"},
    "involvedObject": {"kind": "Node", "name": "node-17"},
    "source": {"component": "osml-agent"},
}


def policy(name: str) -> Document:
    documents = yaml.safe_load_all(REPORT.read_text())
    kind = "ValidatingAdmissionPolicy"
    return next(one for one in documents if one["kind"] == kind and one["metadata"]["name"] == name)["spec"]


def evaluate(expression: str, context: dict[str, Any]) -> Any:
    environment = celpy.Environment()
    return environment.program(environment.compile(expression)).evaluate(context)


def verdict(name: str, new: Document, old: Document | None, node: str | None = "node-17", user: str = "") -> str:
    """The message of the first rule that denies it. `node`: of the token's claim; None: a token without one."""
    spec = policy(name)
    extra = {} if node is None else {CLAIM: [node]}
    request = {
        "userInfo": {"username": user or "system:serviceaccount:osml:osml-agent", "extra": extra},
        "operation": "CREATE" if old is None else "UPDATE",
    }
    documents = {"request": request, "object": new, "oldObject": old}
    context: dict[str, Any] = {key: celpy.json_to_cel(value) for key, value in documents.items()}
    if not all(evaluate(one["expression"], context) for one in spec["matchConditions"]):
        return SKIPPED
    values = {celtypes.StringType(one["name"]): evaluate(one["expression"], context) for one in spec["variables"]}
    context["variables"] = celtypes.MapType(values)
    denied = [one["message"] for one in spec["validations"] if not evaluate(one["expression"], context)]
    return denied[0] if denied else ALLOWED


def changed(change: Callable[[Document], object]) -> Document:
    """The node after a change of its status."""
    node = copy.deepcopy(NODE)
    change(node["status"])
    return node


def report(status: Document) -> None:
    """What the agent writes."""
    status["conditions"].append({"type": "osml.dev/LatencyTargetsMet", "status": "True"})
    status["capacity"]["osml.dev/batch-millicpu"] = "12000"


def test_what_the_agent_writes_of_its_own_node_passes() -> None:
    reported = changed(report)
    assert verdict("osml-agent-own-node", reported, NODE) == ALLOWED
    assert verdict("osml-agent-own-node", NODE, reported) == ALLOWED, "it takes both away again"
    assert verdict("osml-agent-own-events", EVENT, None) == ALLOWED
    assert verdict("osml-agent-own-events", EVENT | {"count": 2}, EVENT) == ALLOWED


@pytest.mark.parametrize("node", ["node-18", "", None])
def test_another_node_is_denied_and_so_is_a_token_without_a_node(node: str | None) -> None:
    assert verdict("osml-agent-own-node", changed(report), NODE, node).endswith("its own node only.")
    assert verdict("osml-agent-own-events", EVENT, None, node).endswith("its own node only.")


def test_other_users_are_not_its_business() -> None:
    kubelet = changed(lambda status: status["capacity"].update(cpu="35"))
    assert verdict("osml-agent-own-node", kubelet, NODE, None, "system:node:node-17") == SKIPPED
    assert verdict("osml-agent-own-events", EVENT, None, None, "system:node:node-17") == SKIPPED


CHANGES: dict[str, Callable[[Document], object]] = {
    "another-condition": lambda status: status["conditions"][0].update(status="False"),
    "a-new-condition": lambda status: status["conditions"].append({"type": "Sick", "status": "True"}),
    "a-condition-gone": lambda status: status.update(conditions=[]),
    "cpus": lambda status: status["capacity"].update(cpu="99"),
    "cpus-gone": lambda status: status.update(capacity={}),
    "another-resource": lambda status: status["capacity"].update({"example.com/gpu": "8"}),
    "allocatable": lambda status: status["allocatable"].update({"osml.dev/batch-millicpu": "1"}),
    "addresses": lambda status: status["addresses"][0].update(address="192.0.2.66"),
    "addresses-gone": lambda status: status.pop("addresses"),
    "port": lambda status: status["daemonEndpoints"]["kubeletEndpoint"].update(Port=1),
    "kernel": lambda status: status["nodeInfo"].update(kernelVersion="5.4"),
    "images": lambda status: status["images"][0].update(sizeBytes=1),
    "images-gone": lambda status: status.pop("images"),
    "volumes": lambda status: status.update(volumesAttached=[{"name": "x", "devicePath": "/dev/sda"}]),
    "volumes-in-use": lambda status: status.update(volumesInUse=["x"]),
    "config": lambda status: status.update(config={"error": "x"}),
    "phase": lambda status: status.update(phase="Terminated"),
}
METADATA: dict[str, Callable[[Document], object]] = {
    "labels": lambda metadata: metadata["labels"].update({"node-role.kubernetes.io/control-plane": ""}),
    "labels-gone": lambda metadata: metadata.pop("labels"),
    "annotations": lambda metadata: metadata.update(annotations={"example.com/x": "y"}),
    "finalizers": lambda metadata: metadata.update(finalizers=["example.com/x"]),
    "owners": lambda metadata: metadata.update(ownerReferences=[{"kind": "Node", "name": "node-18"}]),
}


@pytest.mark.parametrize("case", METADATA)
def test_nothing_of_its_metadata_may_change(case: str) -> None:
    node = copy.deepcopy(NODE)
    METADATA[case](node["metadata"])
    assert verdict("osml-agent-own-node", node, NODE).startswith("The agent of osml may not change labels")


@pytest.mark.parametrize("case", CHANGES)
def test_nothing_else_of_the_node_may_change(case: str) -> None:
    assert verdict("osml-agent-own-node", changed(CHANGES[case]), NODE).startswith("The agent of osml may")


def test_events_of_others_and_about_others_are_denied() -> None:
    about_a_pod = EVENT | {"involvedObject": {"kind": "Pod", "name": "node-17"}}
    of_the_kubelet = EVENT | {"source": {"component": "kubelet"}}
    assert verdict("osml-agent-own-events", about_a_pod, None).startswith("The agent of osml may")
    assert verdict("osml-agent-own-events", EVENT, of_the_kubelet).startswith("The agent of osml may")
