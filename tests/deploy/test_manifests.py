"""What lies in deploy/ fits to what the server and the agent read: names of settings, paths, rights."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.agent_yaml import complaints, read_agent_yaml

settings = pytest.importorskip("osml_serving.settings", reason="needs osml-serving")

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
Document = dict[str, Any]


def documents(path: Path) -> Iterator[Document]:
    yield from yaml.safe_load_all(path.read_text())


def find(kind: str, name: str) -> Document:
    found = [
        document
        for path in MANIFESTS
        for document in documents(path)
        if document["kind"] == kind and document["metadata"]["name"] == name
    ]
    assert len(found) == 1, f"{kind} {name}"
    return found[0]


def pod(kind: str, name: str) -> Document:
    return find(kind, name)["spec"]["template"]["spec"]


def settings_of_server() -> set[str]:
    return {f"OSML_{name.upper()}" for name in settings.Settings.model_fields}


def test_kustomization_lists_all_manifests() -> None:
    kustomization = yaml.safe_load((DEPLOY / "kubernetes/kustomization.yaml").read_text())
    assert {*kustomization["resources"], "kustomization.yaml"} == {path.name for path in MANIFESTS}
    images = {image["name"] for image in kustomization["images"]}
    used = {container["image"] for kind in ("Deployment", "DaemonSet") for container in containers(kind)}
    assert used == images


def containers(kind: str) -> list[Document]:
    spec = pod(kind, "osml-server" if kind == "Deployment" else "osml-agent")
    return [*spec.get("initContainers", []), *spec["containers"]]


@pytest.mark.parametrize("kind", ["Deployment", "DaemonSet"])
def test_containers_have_no_more_than_they_need(kind: str) -> None:
    for container in containers(kind):
        rights = container["securityContext"]
        assert rights["readOnlyRootFilesystem"]
        assert not rights["allowPrivilegeEscalation"]
        assert not rights.get("privileged")
        assert rights["capabilities"]["drop"] == ["ALL"]
    volumes = pod(kind, "osml-server" if kind == "Deployment" else "osml-agent")["volumes"]
    known = {volume["name"] for volume in volumes}
    assert {mount["name"] for container in containers(kind) for mount in container["volumeMounts"]} == known


def test_servers_settings_in_the_manifest_exist_and_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    [server] = containers("Deployment")
    given = {entry["name"]: entry["value"] for entry in server["env"]}
    assert given.keys() <= settings_of_server()
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    read = settings.load_settings({})
    assert str(read.port) == str(server["ports"][0]["containerPort"])
    [tokens] = server["volumeMounts"]
    assert Path(given["OSML_TOKEN_FILE"]).parent == Path(tokens["mountPath"])
    grace_s = pod("Deployment", "osml-server")["terminationGracePeriodSeconds"]
    assert read.drain_s + 10 < grace_s, "open requests have ten seconds after the drain"


@pytest.mark.parametrize("file", ["osml-server.service", "Containerfile.server"])
def test_servers_settings_elsewhere_exist(file: str) -> None:
    named = set(re.findall(r"\bOSML_[A-Z_]+(?==)", (DEPLOY / file).read_text()))
    assert named
    assert named <= settings_of_server()


def test_probes_ask_for_what_the_server_answers() -> None:
    [server] = containers("Deployment")
    asked = {probe["httpGet"]["path"] for key, probe in server.items() if key.endswith("Probe")}
    health = (ROOT / "serving/osml_serving/api/health.py").read_text()
    assert asked < set(re.findall(r'@routes\.get\("([^"]+)"', health))


def test_selectors_find_their_pods() -> None:
    for kind, name in (("Service", "osml-server"), ("PodDisruptionBudget", "osml-server")):
        spec = find(kind, name)["spec"]
        selector = spec["selector"].get("matchLabels", spec["selector"])
        labels = find("Deployment", "osml-server")["spec"]["template"]["metadata"]["labels"]
        assert selector.items() <= labels.items()
    for name, kind in (("osml-server", "Deployment"), ("osml-agent", "DaemonSet")):
        labels = find(kind, name)["spec"]["template"]["metadata"]["labels"]
        assert find("NetworkPolicy", name)["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    asks = find("NetworkPolicy", "osml-server")["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
    assert asks.items() <= find("DaemonSet", "osml-agent")["spec"]["template"]["metadata"]["labels"].items()
    assert (
        find("Deployment", "osml-server")["spec"]["replicas"]
        > find("PodDisruptionBudget", "osml-server")["spec"]["minAvailable"]
    )


def test_agents_configuration_is_good_and_its_paths_are_mounted() -> None:
    text = find("ConfigMap", "osml-agent")["data"]["agent.yaml"]
    config = read_agent_yaml(text)
    assert complaints(config) == []
    service = find("Service", "osml-server")
    assert config["server"]["url"] == f"http://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    agent = pod("DaemonSet", "osml-agent")["containers"][0]
    mounted = [Path(mount["mountPath"]) for mount in agent["volumeMounts"]]
    paths = [config["server"]["token_file"], config["state_dir"], config["metrics"]["textfile"]]
    paths += [*config["roots"].values(), agent["args"][2]]
    paths += [one["latency"]["datagram"] for one in config["services"] if "datagram" in one.get("latency", {})]
    for path in paths:
        assert any(Path(path).is_relative_to(directory) for directory in mounted), path
    [token] = [mount for mount in agent["volumeMounts"] if mount["name"] == "tokens"]
    assert token["subPathExpr"] == "$(NODE_NAME)", "a pod sees the token of its own node alone"
    assert token["mountPath"] == config["server"]["token_file"]
    assert [entry["name"] for entry in agent["env"]] == ["NODE_NAME"]
    assert "NODE_NAME" in config["node"]
    [configure] = pod("DaemonSet", "osml-agent")["initContainers"]
    assert configure["env"][0]["name"] == "NODE_NAME"


def test_agent_has_the_same_rights_under_systemd_and_kubernetes() -> None:
    unit = (DEPLOY / "osml-agent.service").read_text()
    allowed = re.search(r"^CapabilityBoundingSet=(.+)$", unit, re.MULTILINE)
    assert allowed is not None
    [agent] = pod("DaemonSet", "osml-agent")["containers"]
    assert {f"CAP_{name}" for name in agent["securityContext"]["capabilities"]["add"]} == set(allowed[1].split())


def test_agent_and_server_on_one_machine_do_not_share_a_directory() -> None:
    """With a dynamic user systemd takes the directory over, and what removes the agent removes its directory."""
    places = {}
    for who in ("agent", "server"):
        unit = (DEPLOY / f"osml-{who}.service").read_text()
        places[who] = re.findall(r"^(?:State|Runtime|Cache|Logs)Directory=(.+)$", unit, re.MULTILINE)
    assert places["agent"][0] == "osml"
    assert not {*places["agent"]} & {*places["server"]}
    purge = (ROOT / "actuator/debian/postrm").read_text()
    assert re.findall(r"rm -rf (\S+)", purge) == [f"/var/lib/{places['agent'][0]}"]


def test_prometheus_finds_the_server_with_a_token_under_the_name_of_the_alerts() -> None:
    monitor = yaml.safe_load((DEPLOY / "prometheus/servicemonitor.yaml").read_text())
    service = find("Service", "osml-server")
    labels = service["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    assert monitor["spec"]["endpoints"][0]["authorization"]["credentials"]["key"] == "token"
    [plain] = yaml.safe_load((DEPLOY / "prometheus/scrape.yaml").read_text())["scrape_configs"]
    assert "credentials_file" in plain["authorization"]
    for job in (labels[monitor["spec"]["jobLabel"]], plain["job_name"]):
        assert f'up{{job="{job}"}}' in (DEPLOY / "prometheus/osml.rules.yaml").read_text()
    assert "prometheus.io" not in (DEPLOY / "kubernetes/server.yaml").read_text(), "an annotation has no token"


def test_alerts_say_what_to_do() -> None:
    rules = [
        rule
        for group in yaml.safe_load((DEPLOY / "prometheus/osml.rules.yaml").read_text())["groups"]
        for rule in group["rules"]
    ]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["annotations"].keys() == {"summary", "action"}, rule["alert"]
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
