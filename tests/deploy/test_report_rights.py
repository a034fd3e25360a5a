"""What the agent needs to report to the cluster: off by default, no more than it uses, and held to its own node."""

from __future__ import annotations

import re
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.deploy.agent_yaml import complaints, read_agent_yaml
from tests.deploy.test_helm_chart import HELM, ROOT, SETTINGS, agent_config, by_name, render

Document = dict[str, Any]
Objects = dict[tuple[str, str], Document]

pytestmark = pytest.mark.skipif(HELM is None, reason="helm is not installed; with Go, scripts/setup test installs it")

REPORT = ROOT / "deploy/kubernetes/report/report.yaml"
STATUS = [{"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]}]
EVENTS = [{"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}]


def plain() -> Objects:
    return by_name(list(yaml.safe_load_all(REPORT.read_text())))


def added(*settings: str) -> Objects:
    """What these settings add to the objects of the default."""
    default = by_name(render())
    return {name: one for name, one in by_name(render(*settings)).items() if name not in default}


def constant(name: str) -> str:
    """A text constant of the agent."""
    found = re.search(rf'{name} = "([^"]+)"', (ROOT / "actuator/src/kubernetes/bodies.h").read_text())
    assert found is not None
    return found[1]


def test_nothing_of_it_is_there_by_default() -> None:
    default = by_name(render())
    assert "kubernetes" not in agent_config(default)
    assert not [name for name in default if "report" in name[1] or name[0].startswith("Validating")]
    kustomization = yaml.safe_load((ROOT / "deploy/kubernetes/kustomization.yaml").read_text())
    assert not [name for name in kustomization["resources"] if "report" in name]


def test_all_of_it_is_what_the_plain_file_has() -> None:
    made, wanted = added(*SETTINGS["reports"]), plain()
    assert made.keys() == wanted.keys()
    for name, document in wanted.items():
        if name[0] == "NetworkPolicy":
            assert document["metadata"].pop("namespace") == "osml"  # as the release has it
        assert made[name] == document, name


def test_each_report_gets_its_own_rights_alone() -> None:
    for setting in ("condition", "batchCpu"):
        made = added(f"agent.report.{setting}=true")
        assert made["ClusterRole", "osml-agent-report"]["rules"] == STATUS
        assert ("Role", "osml-agent-report") not in made
        assert ("ValidatingAdmissionPolicy", "osml-agent-own-node") in made
        assert ("ValidatingAdmissionPolicy", "osml-agent-own-events") not in made
    made = added("agent.report.events=true")
    assert ("ClusterRole", "osml-agent-report") not in made
    role = made["Role", "osml-agent-report"]
    assert role["rules"] == EVENTS
    assert role["metadata"]["namespace"] == constant("events_namespace")
    binding = made["RoleBinding", "osml-agent-report"]
    assert binding["metadata"]["namespace"] == constant("events_namespace")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "osml-agent", "namespace": "osml"}]


def test_switches_and_ports_reach_the_agent() -> None:
    made = by_name(render("agent.report.condition=true", "agent.report.ports={8443}"))
    assert agent_config(made)["kubernetes"] == {
        "condition": "on",
        "events": "off",
        "batch_cpu": "off",
        "token_file": "/run/secrets/kubelet/token",
        "ca_file": "/run/secrets/kubelet/ca.crt",
    }
    egress = made["NetworkPolicy", "osml-agent-report"]["spec"]["egress"]
    assert egress == [{"ports": [{"port": 8443, "protocol": "TCP"}]}]
    text = (ROOT / "deploy/kubernetes/agent-config.yaml").read_text()
    [example] = re.findall(r"^    # kubernetes: (.+)$", text, re.MULTILINE)
    assert complaints(agent_config(made) | {"kubernetes": read_agent_yaml(example)}) == []


def test_the_token_and_the_clusters_certificates_are_mounted() -> None:
    for case in ("reports", "reports-without-kubelet", "reports-and-certificates-of-nodes"):
        spec = by_name(render(*SETTINGS[case]))["DaemonSet", "osml-agent"]["spec"]["template"]["spec"]
        [volume] = [one for one in spec["volumes"] if one["name"] == "kubelet"]
        assert volume["projected"]["defaultMode"] == 0o400, "the agent refuses a token that all users can read"
        paths = [
            one.get("path") or one["items"][0]["path"]
            for one in (next(iter(source.values())) for source in volume["projected"]["sources"])
        ]
        assert paths == ["token", "ca.crt"]


@pytest.mark.parametrize("policy", ["osml-agent-own-node", "osml-agent-own-events"])
def test_policies_hold_the_agent_to_its_own_node(policy: str) -> None:
    made = added(*SETTINGS["reports"])
    spec = made["ValidatingAdmissionPolicy", policy]["spec"]
    assert spec["failurePolicy"] == "Fail"
    account = "system:serviceaccount:osml:osml-agent"
    assert [one["expression"] for one in spec["matchConditions"]] == [f"request.userInfo.username == '{account}'"]
    [node] = [one["expression"] for one in spec["variables"] if one["name"] == "node"]
    assert "authentication.kubernetes.io/node-name" in node
    first = spec["validations"][0]["expression"]
    assert "variables.node != ''" in first
    assert "== variables.node" in first
    binding = made["ValidatingAdmissionPolicyBinding", policy]["spec"]
    assert binding == {"policyName": policy, "validationActions": ["Deny"]}
    without = added(*SETTINGS["reports"], "agent.report.ownNodeOnly=false")
    assert not [name for name in without if name[0].startswith("Validating")]


def test_the_policy_names_what_the_agent_writes() -> None:
    policy = plain()["ValidatingAdmissionPolicy", "osml-agent-own-node"]
    text = " ".join(one["expression"] for one in policy["spec"]["validations"])
    assert set(re.findall(r"'(osml\.dev/[^']+)'", text)) == {constant("condition_type"), constant("jobs_resource")}


def test_kubernetes_knows_every_field_of_it() -> None:
    for document in plain().values():
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
        kubernetes_validate.validate(document, "1.30", strict=True)
