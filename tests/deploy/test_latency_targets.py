"""The custom resource LatencyTarget: its schema takes what the agent takes, and the agent may list it and no more."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any, cast

import celpy
import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.deploy.agent_yaml import complaints
from tests.deploy.test_helm_chart import HELM, ROOT, SETTINGS, agent_config, by_name, helm, render
from tests.deploy.test_report_policies import evaluate

Document = dict[str, Any]

FOLDER = ROOT / "deploy/kubernetes/latency-targets"
CRD = yaml.safe_load((FOLDER / "crd.yaml").read_text())
SPEC = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
SAMPLES: dict[str, Document] = json.loads((ROOT / "actuator/tests/golden/latency_targets.json").read_text())
LIST = [{"apiGroups": ["osml.dev"], "resources": ["latencytargets"], "verbs": ["list"]}]

needs_helm = pytest.mark.skipif(HELM is None, reason="helm is not installed; with Go, scripts/setup test installs it")


def items_of(value: Any) -> list[Any] | None:
    return cast("list[Any]", value) if isinstance(value, list) else None


def mapping_of(value: Any) -> Document | None:
    return cast("Document", value) if isinstance(value, dict) else None


def as_kept(schema: Document, value: Any) -> Any:
    """What an API server keeps: without keys that the schema does not know, and with its defaults."""
    items, mapping = items_of(value), mapping_of(value)
    if items is not None and "items" in schema:
        return [as_kept(schema["items"], one) for one in items]
    if mapping is None or "additionalProperties" in schema or schema.get("type") != "object":
        return value
    properties = schema.get("properties", {})
    kept = {key: as_kept(properties[key], one) for key, one in mapping.items() if key in properties}
    return {key: one["default"] for key, one in properties.items() if "default" in one} | kept


def rules(schema: Document, value: Any) -> Iterator[tuple[str, Any]]:
    """Each CEL rule, with the value that it is about."""
    for rule in schema.get("x-kubernetes-validations", []):
        yield rule["rule"], value
    for one in items_of(value) or []:
        yield from rules(schema["items"], one)
    for key, one in (mapping_of(value) or {}).items():
        yield from rules(schema.get("properties", {}).get(key, {}), one)


def holds(rule: str, value: Any) -> bool:
    return bool(evaluate(rule, {"self": celpy.json_to_cel(value)}))


def open_schema(schema: Any) -> Any:
    """As JSON schema of today says it: OpenAPI 3.0 has exclusiveMinimum as a word beside minimum."""
    items, mapping = items_of(schema), mapping_of(schema)
    if items is not None:
        return [open_schema(one) for one in items]
    if mapping is None:
        return schema
    made: Document = {key: open_schema(one) for key, one in mapping.items()}
    if made.get("exclusiveMinimum") is True:
        made["exclusiveMinimum"] = made.pop("minimum")
    return made


def taken(spec: Document) -> bool:
    """Whether an API server takes an object with this spec."""
    kept = as_kept(SPEC, copy.deepcopy(spec))
    errors = list(jsonschema.Draft202012Validator(open_schema(SPEC)).iter_errors(kept))
    return not errors and all(holds(rule, value) for rule, value in rules(SPEC, kept))


@pytest.mark.parametrize("name", SAMPLES)
def test_the_schema_takes_what_the_agent_takes(name: str) -> None:
    """The agent reads the same samples in latency_target_test.cpp; it alone knows the operator's rules."""
    sample = SAMPLES[name]
    assert taken(sample["spec"]) == (sample["good"] or sample.get("agent_alone", False))


def structural(schema: Document, path: str) -> Iterator[str]:
    """What an API server refuses in a schema, as far as this one could have it."""
    if "type" not in schema:
        yield f"{path}: no type"
    if "properties" in schema and "additionalProperties" in schema:
        yield f"{path}: properties and additionalProperties"
    for key, one in schema.get("properties", {}).items():
        yield from structural(one, f"{path}.{key}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from structural(schema[key], f"{path}.{key}")
    if schema.get("type") == "array" and "maxItems" not in schema:
        yield f"{path}: no maxItems"
    if "additionalProperties" in schema and "maxProperties" not in schema:
        yield f"{path}: no maxProperties"
    if schema.get("type") == "string" and not {"enum", "maxLength"} & schema.keys():
        yield f"{path}: no maxLength"


def test_the_schema_is_structural_and_everything_in_it_has_bounds() -> None:
    assert list(structural(SPEC, "spec")) == []
    [version] = CRD["spec"]["versions"]
    assert version["schema"]["openAPIV3Schema"]["properties"].keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert CRD["metadata"]["name"] == f"{CRD['spec']['names']['plural']}.{CRD['spec']['group']}"
    paths = [column["jsonPath"] for column in version["additionalPrinterColumns"]]
    known = {f".spec.{key}" for key in SPEC["properties"]} | {".metadata.creationTimestamp"}
    assert set(paths) <= known


def test_kubernetes_knows_every_field() -> None:
    rights = list(yaml.safe_load_all((FOLDER / "rights.yaml").read_text()))
    for document in [CRD, *rights]:
        for version in (kubernetes_validate.latest_version(), "1.27"):
            kubernetes_validate.validate(document, version, strict=True)


def test_the_agent_may_list_and_nothing_else() -> None:
    rights = by_name(list(yaml.safe_load_all((FOLDER / "rights.yaml").read_text())))
    assert rights["ClusterRole", "osml-agent-latency-targets"]["rules"] == LIST
    bound = [one["roleRef"]["name"] for one in rights.values() if "roleRef" in one]
    assert bound == ["osml-agent-latency-targets"]
    component = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    assert component["kind"] == "Component"
    assert {*component["resources"], "kustomization.yaml"} == {path.name for path in FOLDER.iterdir()}
    kustomization = yaml.safe_load((ROOT / "deploy/kubernetes/kustomization.yaml").read_text())
    assert "components" not in kustomization, "off by default"


def added(*settings: str) -> dict[tuple[str, str], Document]:
    default = by_name(render())
    return {name: one for name, one in by_name(render(*settings)).items() if name not in default}


@needs_helm
def test_the_chart_makes_what_kustomize_makes() -> None:
    wanted = by_name([CRD, *yaml.safe_load_all((FOLDER / "rights.yaml").read_text())])
    made = added(*SETTINGS["latency-targets-of-all"])
    crd = made["CustomResourceDefinition", "latencytargets.osml.dev"]
    assert crd["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}, "the objects of all teams"
    assert made.keys() == wanted.keys()
    for name, document in wanted.items():
        if name[0] == "NetworkPolicy":
            assert document["metadata"].pop("namespace") == "osml"  # as the release has it
        assert made[name] == document, name
    copied = yaml.safe_load((ROOT / "deploy/helm/osml/files/latencytargets.yaml").read_text())
    assert copied == CRD


@needs_helm
def test_where_namespaces_are_named_the_agent_may_list_there_alone() -> None:
    documents = render("agent.discover.namespaces={shop,bank}", "agent.discover.latencyTargets=true")
    bindings = [
        one for one in documents if one["metadata"]["name"] == "osml-agent-latency-targets" and "roleRef" in one
    ]
    assert [(one["kind"], one["metadata"]["namespace"]) for one in bindings] == [
        ("RoleBinding", "shop"),
        ("RoleBinding", "bank"),
    ]
    for binding in bindings:
        assert binding["roleRef"]["name"] == "osml-agent-latency-targets"
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "osml-agent", "namespace": "osml"}]


@needs_helm
def test_the_switch_reaches_the_agent_and_is_off_by_default() -> None:
    config = agent_config(by_name(render(*SETTINGS["latency-targets"])))
    assert config["kubelet"]["discover"]["latency_targets"] == "on"
    assert config["kubernetes"]["token_file"] == "/run/secrets/kubelet/token"  # noqa: S105 - a path
    assert complaints(config) == []
    default = by_name(render())
    assert "kubernetes" not in agent_config(default)
    assert not [name for name in default if "latency-targets" in name[1] or name[0] == "CustomResourceDefinition"]
    done = helm("template", "osml", str(ROOT / "deploy/helm/osml"), "--set", "agent.discover.latencyTargets=true")
    assert done.returncode != 0
    assert "expected namespaces in agent.discover.namespaces" in done.stderr
