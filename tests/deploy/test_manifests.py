"""What lies in deploy/ fits to what the server and the agent read: names of settings, paths, rights."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from osml_serving.addresses.peer import parse

from tests.deploy.agent_yaml import complaints, read_agent_yaml

settings = pytest.importorskip("osml_serving.settings", reason="needs osml-serving")

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
OLDEST_KUBERNETES = "1.27"
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


def test_replicas_find_and_reach_each_other() -> None:
    [server] = containers("Deployment")
    [peers] = [one["value"] for one in server["env"] if one["name"] == "OSML_PEERS"]
    wanted = parse(peers)
    service = find("Service", wanted.host)["spec"]
    labels = find("Deployment", "osml-server")["spec"]["template"]["metadata"]["labels"]
    assert wanted.every
    assert service["clusterIP"] == "None", "else the name has one address, and one replica would answer for all"
    assert service["selector"].items() <= labels.items()
    assert [port["port"] for port in service["ports"]] == [wanted.port]
    policy = find("NetworkPolicy", "osml-server")["spec"]
    for others in (policy["ingress"][0]["from"][1], policy["egress"][0]["to"][0]):
        assert others["podSelector"]["matchLabels"].items() <= labels.items()


def test_agents_configuration_is_good_and_its_paths_are_mounted() -> None:
    text = find("ConfigMap", "osml-agent")["data"]["agent.yaml"]
    config = read_agent_yaml(as_the_pod_starts(text))
    assert complaints(config) == []
    assert config["services"] == [], "nobody's services are ours to guess"
    example = re.sub(r"^# {3}", "", "".join(re.findall(r"^# {3}.*\n", text, re.MULTILINE)), flags=re.MULTILINE)
    assert complaints(config | {"services": read_agent_yaml(example)}) == []
    service = find("Service", "osml-server")
    assert config["server"]["url"] == f"http://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    agent = pod("DaemonSet", "osml-agent")["containers"][0]
    mounted = [Path(mount["mountPath"]) for mount in agent["volumeMounts"]]
    paths = [config["server"]["token_file"], config["state_dir"], config["metrics"]["textfile"]]
    paths += [*config["roots"].values(), agent["args"][2]]
    paths += [config["kubelet"]["token_file"], config["kubelet"]["ca_file"]]
    for path in paths:
        assert any(Path(path).is_relative_to(directory) for directory in mounted), path
    [token] = [mount for mount in agent["volumeMounts"] if mount["name"] == "tokens"]
    assert token["subPathExpr"] == "$(NODE_NAME)", "a pod sees the token of its own node alone"
    assert token["mountPath"] == config["server"]["token_file"]
    assert [entry["name"] for entry in agent["env"]] == ["NODE_NAME"]
    assert 'node: "NODE_NAME"' in text
    [configure] = pod("DaemonSet", "osml-agent")["initContainers"]
    assert [entry["name"] for entry in configure["env"]] == ["NODE_NAME", "NODE_IP"]


def as_the_pod_starts(text: str, node_ip: str = "192.0.2.17") -> str:
    """What the init container's script makes of the configuration."""
    [configure] = pod("DaemonSet", "osml-agent")["initContainers"]
    script = configure["command"][-1].replace("/config/agent.yaml", "-").replace("> /etc/osml/agent.yaml", "")
    environment = {"NODE_NAME": "node-17", "NODE_IP": node_ip, "PATH": "/usr/bin:/bin"}
    command = [*configure["command"][:-1], script]
    return subprocess.run(command, input=text, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("node_ip", "host"), [("192.0.2.17", "192.0.2.17"), ("2001:db8::17", "[2001:db8::17]")])
def test_the_kubelet_is_asked_at_the_address_of_the_node(node_ip: str, host: str) -> None:
    text = as_the_pod_starts(find("ConfigMap", "osml-agent")["data"]["agent.yaml"], node_ip)
    kubelet = read_agent_yaml(text)["kubelet"]
    assert kubelet["url"] == f"https://{host}:10250/pods"
    assert kubelet["server_name"] == read_agent_yaml(text)["node"] == "node-17"
    egress = find("NetworkPolicy", "osml-agent")["spec"]["egress"]
    assert {"ports": [{"port": 10250, "protocol": "TCP"}]} in egress


def test_the_agents_account_may_read_pods_of_kubelets_and_nothing_else() -> None:
    spec = pod("DaemonSet", "osml-agent")
    account = find("ServiceAccount", spec["serviceAccountName"])
    assert account["automountServiceAccountToken"] is False
    assert spec["automountServiceAccountToken"] is False
    role = find("ClusterRole", "osml-agent")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["nodes/pods"], "verbs": ["get"]}]
    binding = find("ClusterRoleBinding", "osml-agent")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    kustomization = yaml.safe_load((DEPLOY / "kubernetes/kustomization.yaml").read_text())
    name, namespace = account["metadata"]["name"], kustomization["namespace"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
    [volume] = [one for one in spec["volumes"] if one["name"] == "kubelet"]
    assert volume["projected"]["defaultMode"] == 0o400, "the agent refuses a token that all users can read"


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_kubernetes_knows_every_field(path: Path) -> None:
    for document in documents(path):
        if not document["apiVersion"].startswith("kustomize."):
            kubernetes_validate.validate(document, OLDEST_KUBERNETES, strict=True)
            kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


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
    removed = " ".join(re.findall(r"rm -rf (.+)$", purge, re.MULTILINE)).split()
    assert removed == ["/etc/osml/agent.yaml", "/etc/osml/latency", f"/var/lib/{places['agent'][0]}"]


def test_prometheus_finds_the_server_with_a_token_under_the_name_of_the_alerts() -> None:
    monitor = yaml.safe_load((DEPLOY / "prometheus/servicemonitor.yaml").read_text())
    service = find("Service", "osml-server")
    labels = service["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    assert monitor["spec"]["endpoints"][0]["authorization"]["credentials"]["key"] == "token"
    [plain] = yaml.safe_load((DEPLOY / "prometheus/scrape.yaml").read_text())["scrape_configs"]
    [inside] = yaml.safe_load((DEPLOY / "prometheus/scrape-kubernetes.yaml").read_text())["scrape_configs"]
    for scrape in (plain, inside):
        assert "credentials_file" in scrape["authorization"]
    [kept] = [one for one in inside["relabel_configs"] if one.get("action") == "keep"]
    port = containers("Deployment")[0]["ports"][0]["name"]
    assert kept["regex"] == f"{labels['app.kubernetes.io/name']};{port}"
    for job in (labels[monitor["spec"]["jobLabel"]], plain["job_name"], inside["job_name"]):
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
