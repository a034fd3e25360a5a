"""The chart, rendered by helm: with its default values it makes what `kubectl apply -k` makes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from scripts import chart_schema
from tests.deploy.agent_yaml import complaints, read_agent_yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/osml"
HELM = shutil.which("helm", path=f"{ROOT / '.tools/bin'}:/usr/local/bin:/usr/bin:/bin")
Document = dict[str, Any]

pytestmark = pytest.mark.skipif(HELM is None, reason="helm is not installed; with Go, scripts/setup test installs it")


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    assert HELM is not None
    command = [HELM, *arguments, "--kube-version", "1.33.0"]  # what a helm built by hand takes for its own is old
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def render(*settings: str, values: Document | None = None, tmp_path: Path | None = None) -> list[Document]:
    arguments = [part for setting in settings for part in ("--set", setting)]
    if values is not None:
        assert tmp_path is not None
        (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
        arguments += ["--values", str(tmp_path / "values.yaml")]
    done = helm("template", "osml", str(CHART), "--namespace", "osml", *arguments)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def by_name(documents: list[Document]) -> dict[tuple[str, str], Document]:
    found = {(one["kind"], one["metadata"]["name"]): one for one in documents}
    assert len(found) == len(documents)
    return found


def kustomized() -> dict[tuple[str, str], Document]:
    folder = ROOT / "deploy/kubernetes"
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    tags = {image["name"]: image["newTag"] for image in kustomization["images"]}
    documents = [one for name in kustomization["resources"] for one in yaml.safe_load_all((folder / name).read_text())]
    for document in documents:
        spec = document.get("spec", {}).get("template", {}).get("spec", {})
        for container in [*spec.get("initContainers", []), *spec.get("containers", [])]:
            container["image"] += f":{tags[container['image']]}"
    return by_name([one for one in documents if one["kind"] != "Namespace"])


def agent_config(documents: dict[tuple[str, str], Document]) -> Document:
    text = documents["ConfigMap", "osml-agent"]["data"]["agent.yaml"]
    return read_agent_yaml(text.replace("NODE_NAME", "node-17").replace("NODE_IP", "192.0.2.17"))


def test_default_values_make_the_objects_of_kustomize() -> None:
    wanted, made = kustomized(), by_name(render())
    assert made.keys() == wanted.keys()
    assert agent_config(made) == agent_config(wanted)
    for name, document in made.items():
        if name[0] == "ConfigMap":
            continue
        if name[0] == "DaemonSet":
            document["spec"]["template"]["metadata"].pop("annotations")
        for kind in ("DaemonSet", "Deployment"):
            if name[0] == kind:
                spec = document["spec"]["template"]["spec"]
                for container in [*spec.get("initContainers", []), *spec["containers"]]:
                    assert container.pop("imagePullPolicy") == "IfNotPresent"
        assert document == wanted[name], name


SETTINGS: dict[str, tuple[str, ...]] = {
    "default": (),
    "one-server": ("server.replicas=1", "server.policies=osml\\,parties", "server.storeSecret=osml-database"),
    "server-elsewhere": ("server.enabled=false", "agent.serverUrl=https://osml.example:8443"),
    "no-resctrl": ("agent.resctrl=false", "agent.dryRun=true"),
    "no-pods": ("agent.kubelet.enabled=false",),
    "certificates-of-nodes": ("agent.kubelet.certificates=node", "agent.kubelet.port=10251"),
    "pods-may-ask": ("agent.discover.namespaces={shop,bank}",),
    "latency-targets": ("agent.discover.namespaces={shop}", "agent.discover.latencyTargets=true"),
    "latency-targets-of-all": ("agent.discover.namespaces={*}", "agent.discover.latencyTargets=true"),
    "reports": ("agent.report.condition=true", "agent.report.events=true", "agent.report.batchCpu=true"),
    "reports-without-kubelet": ("agent.report.condition=true", "agent.kubelet.enabled=false"),
    "reports-and-certificates-of-nodes": ("agent.report.events=true", "agent.kubelet.certificates=node"),
    "nri": ("agent.nri=true",),
    "registry": ("images.registry=registry.example/osml/", "images.tag=1.2.3", "images.pullSecrets={ours,theirs}"),
    "tolerations": ("agent.tolerations[0].operator=Exists", "server.tolerations[0].key=osml"),
    "latencies-of-pods": ("agent.latencyPorts={9102,8080}",),
    "sockets-for-all": ("agent.discover.namespaces={shop}", "agent.discover.datagramMode=0666"),
    "openshift": (
        "dns.to[0].namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name=openshift-dns",
        "dns.ports={5353}",
    ),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_kubernetes_and_the_agent_take_what_is_rendered(case: str) -> None:
    documents = by_name(render(*SETTINGS[case]))
    for document in documents.values():
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
    config = agent_config(documents)
    assert complaints(config) == []
    spec = documents["DaemonSet", "osml-agent"]["spec"]["template"]["spec"]
    mounts = [mount for container in spec["containers"] for mount in container["volumeMounts"]]
    volumes = {volume["name"] for volume in spec["volumes"]}
    assert {mount["name"] for mount in mounts} | {"config"} == volumes
    paths = [*config["roots"].values(), config["server"]["token_file"]]
    for section in ("kubelet", "kubernetes"):
        paths += [config[section][key] for key in ("token_file", "ca_file")] if section in config else []
    for path in paths:
        assert any(Path(path).is_relative_to(mount["mountPath"]) for mount in mounts), path


def test_the_plugin_of_the_chart_is_that_of_kustomize() -> None:
    plain, made = (by_name(render(*SETTINGS[case]))["DaemonSet", "osml-agent"] for case in ("default", "nri"))
    [patch] = yaml.safe_load_all((ROOT / "deploy/kubernetes/nri/plugin.yaml").read_text())
    wanted = patch["spec"]["template"]["spec"]
    spec, without = (one["spec"]["template"]["spec"] for one in (made, plain))
    [container] = [one for one in spec["containers"] if one not in without["containers"]]
    assert container.pop("imagePullPolicy") == "IfNotPresent"
    container["image"] = container["image"].partition(":")[0]
    assert [container] == wanted["containers"]
    assert [one for one in spec["volumes"] if one not in without["volumes"]] == wanted["volumes"]


def test_settings_do_what_their_names_say(tmp_path: Path) -> None:
    one = by_name(render(*SETTINGS["one-server"]))
    assert ("PodDisruptionBudget", "osml-server") not in one
    environment = one["Deployment", "osml-server"]["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "OSML_POLICIES", "value": "osml,parties"} in environment
    assert ("Service", "osml-server-peers") not in one
    assert "OSML_PEERS" not in [variable["name"] for variable in environment]
    elsewhere = by_name(render(*SETTINGS["server-elsewhere"]))
    assert ("Deployment", "osml-server") not in elsewhere
    assert agent_config(elsewhere)["server"]["url"] == "https://osml.example:8443"
    assert elsewhere["NetworkPolicy", "osml-agent"]["spec"]["egress"][0]["ports"][0]["port"] == 8443
    assert ("ClusterRole", "osml-agent") not in by_name(render(*SETTINGS["no-pods"]))
    service = {
        "name": "search",
        "class": "lc",
        "target_ms": 10,
        "match": {"pod": {"namespace": "shop", "labels": {"app": "search"}}},
        "latency": {"datagram": "/run/osml/search.sock"},
    }
    values = {"agent": {"services": [service], "config": {"hold_s": 30, "kubelet": {"guaranteed": "take"}}}}
    own = by_name(render(values=values, tmp_path=tmp_path))
    config = agent_config(own)
    assert complaints(config) == []
    assert config["services"] == [service]
    assert config["hold_s"] == 30
    assert config["kubelet"]["guaranteed"] == "take"
    assert config["kubelet"]["server_name"] == "node-17"
    annotation = own["DaemonSet", "osml-agent"]["spec"]["template"]["metadata"]["annotations"]
    default = by_name(render())["DaemonSet", "osml-agent"]["spec"]["template"]["metadata"]["annotations"]
    assert annotation != default, "a changed configuration starts the agents anew"
    monitor = by_name(render("monitoring.serviceMonitor=true"))["ServiceMonitor", "osml-server"]
    plain = yaml.safe_load((ROOT / "deploy/prometheus/servicemonitor.yaml").read_text())
    assert monitor["spec"] == plain["spec"]


def test_a_server_with_a_database_may_connect_to_its_port_and_no_other_server_may() -> None:
    def egress(*settings: str) -> list[Document]:
        return by_name(render(*settings))["NetworkPolicy", "osml-server"]["spec"]["egress"]

    plain, secret = egress(), "server.storeSecret=osml-database"
    assert egress(secret) == [*plain, {"ports": [{"port": 5432, "protocol": "TCP"}]}]
    assert egress(secret, "server.storePort=6432") == [*plain, {"ports": [{"port": 6432, "protocol": "TCP"}]}]
    assert egress("server.storePort=6432") == plain


def test_prometheus_endpoints_of_the_pages_are_reached_once_their_ports_are_named() -> None:
    pages = [(ROOT / f"docs/{name}.md").read_text() for name in ("how-to/kubernetes", "reference/agent-config")]
    ports = {int(port) for page in pages for port in re.findall(r"\bprometheus: ?(?:\{port: )?(\d+)", page)}
    assert ports

    def admitted(*settings: str) -> set[int | str]:
        policy = by_name(render(*settings))["NetworkPolicy", "osml-agent"]
        assert "Egress" in policy["spec"]["policyTypes"]
        to_pods = [rule for rule in policy["spec"]["egress"] if rule.get("to") == [{"namespaceSelector": {}}]]
        return {port["port"] for rule in to_pods for port in rule["ports"]}

    assert not ports & admitted()
    assert ports <= admitted(f"agent.latencyPorts={{{','.join(map(str, sorted(ports)))}}}")


def test_pods_that_are_not_root_can_send_where_the_values_say_so() -> None:
    plain, open_to_all = (by_name(render(*SETTINGS[case])) for case in ("pods-may-ask", "sockets-for-all"))
    assert "datagram_mode" not in agent_config(plain)["kubelet"]["discover"]
    assert agent_config(open_to_all)["kubelet"]["discover"]["datagram_mode"] == "0666"


def test_names_are_looked_up_where_the_values_say() -> None:
    elsewhere = by_name(render(*SETTINGS["openshift"]))
    for name in ("osml-agent", "osml-server"):
        [rule] = [
            one
            for one in elsewhere["NetworkPolicy", name]["spec"]["egress"]
            if "namespaceSelector" in one.get("to", [{}])[0]
        ]
        labels = rule["to"][0]["namespaceSelector"]["matchLabels"]
        assert labels == {"kubernetes.io/metadata.name": "openshift-dns"}
        assert rule["ports"] == [{"port": 5353, "protocol": protocol} for protocol in ("UDP", "TCP")]


def test_values_of_a_chart_that_had_no_dns_look_up_names_as_the_default_ones_do() -> None:
    """Such as `helm upgrade --reuse-values` gives."""
    assert by_name(render("dns=null")) == by_name(render())


def test_pods_have_the_secrets_and_tolerations_of_the_values() -> None:
    secrets, tolerant = (by_name(render(*SETTINGS[case])) for case in ("registry", "tolerations"))
    given = {"DaemonSet": {"operator": "Exists"}, "Deployment": {"key": "osml"}}
    for name, toleration in given.items():
        place = name, "osml-agent" if name == "DaemonSet" else "osml-server"
        spec = secrets[place]["spec"]["template"]["spec"]
        assert spec["imagePullSecrets"] == [{"name": "ours"}, {"name": "theirs"}]
        assert tolerant[place]["spec"]["template"]["spec"]["tolerations"] == [toleration]


def test_the_plugin_finds_the_cpus_where_the_agent_looks_for_them(tmp_path: Path) -> None:
    """Both read one configuration."""
    values: Document = {"agent": {"nri": True, "config": {"levers": {"frequency": "on"}}}}
    documents = by_name(render(values=values, tmp_path=tmp_path))
    root = agent_config(documents)["roots"]["sysfs"]
    for container in documents["DaemonSet", "osml-agent"]["spec"]["template"]["spec"]["containers"]:
        assert root in [mount["mountPath"] for mount in container["volumeMounts"]], container["name"]


def _levers(name: str, word: str | bool | None) -> Document:
    """Values with this lever; None: it is not named."""
    return {"agent": {"config": {"levers": {} if word is None else {name: word}}}}


@pytest.mark.parametrize("key", ["cache_domains", "memory_nodes"])
def test_what_is_off_in_a_file_of_values_may_be_so_without_quotes(key: str, tmp_path: Path) -> None:
    """Helm reads `off` as false, and so does the agent."""
    own = by_name(render(values={"agent": {"config": {"cpu": {key: False}}}}, tmp_path=tmp_path))
    assert agent_config(own)["cpu"][key] is False


@pytest.mark.parametrize("word", ["on", "off", True, False, None])
def test_only_an_agent_that_limits_clocks_may_write_to_cpus(word: str | bool | None, tmp_path: Path) -> None:
    """Also one that does not any more: it puts back what it set. Helm reads `on` as true, and so does the agent."""
    own = by_name(render(values=_levers("frequency", word), tmp_path=tmp_path))
    spec = own["DaemonSet", "osml-agent"]["spec"]["template"]["spec"]
    [agent] = spec["containers"]
    paths = {one["name"]: one["hostPath"]["path"] for one in spec["volumes"] if "hostPath" in one}
    below = {one["mountPath"]: one.get("readOnly", False) for one in agent["volumeMounts"] if "sys" in one["mountPath"]}
    root = agent_config(own)["roots"].get("sysfs")
    if word is not None:
        # Not below /sys, where the runtimes' default AppArmor profile refuses writes.
        assert root == "/host/sys"
        assert below == {"/host/sys": True, "/host/sys/devices/system/cpu": False}
        assert (paths["sys"], paths["cpus"]) == ("/sys", "/sys/devices/system/cpu")
    else:
        assert (root, below) == (None, {})
        assert not {"sys", "cpus"} & paths.keys()


@pytest.mark.parametrize("word", ["on", "off", True, False, None])
def test_only_an_agent_that_moves_interrupts_may_write_to_them(word: str | bool | None, tmp_path: Path) -> None:
    own = by_name(render(values=_levers("interrupts", word), tmp_path=tmp_path))
    spec = own["DaemonSet", "osml-agent"]["spec"]["template"]["spec"]
    [agent] = spec["containers"]
    paths = {one["name"]: one["hostPath"]["path"] for one in spec["volumes"] if "hostPath" in one}
    mounts = {one["name"]: (one["mountPath"], one.get("readOnly", False)) for one in agent["volumeMounts"]}
    root = agent_config(own)["roots"].get("irq")
    if word is not None:
        # Not at /proc/irq, which runtimes mount read-only.
        assert (root, mounts["irq"], paths["irq"]) == ("/host/irq", ("/host/irq", False), "/proc/irq")
    else:
        assert (root, mounts.get("irq"), paths.get("irq")) == (None, None, None)


def test_pods_may_ask_in_the_namespaces_of_the_values_and_get_no_more_rights() -> None:
    asking, plain = by_name(render(*SETTINGS["pods-may-ask"])), by_name(render())
    assert agent_config(asking)["kubelet"]["discover"] == {
        "namespaces": ["shop", "bank"],
        "datagram_directory": "/run/osml",
    }
    assert "discover" not in agent_config(plain)["kubelet"]
    for name in plain:
        if name[0] in {"ClusterRole", "ClusterRoleBinding", "ServiceAccount", "NetworkPolicy"}:
            assert asking[name] == plain[name], name
    done = helm("template", "osml", str(CHART), "--set", "agent.discover.namespaces={shop},agent.kubelet.enabled=false")
    assert done.returncode != 0
    assert "expected agent.kubelet.enabled true" in done.stderr


def test_an_agent_without_a_server_is_refused_by_name() -> None:
    done = helm("template", "osml", str(CHART), "--set", "server.enabled=false")
    assert done.returncode != 0
    assert "agent.serverUrl is empty, expected the address of a server" in done.stderr


WRONG = {
    "a name in small letters": ("agent.dryrun=true", "dryrun"),
    "a name in the wrong place": ("dryRun=true", "dryRun"),
    "a name that only the wrong server has": ("server.replica=3", "replica"),
    "a word of the configuration": ("agent.kubelet.url=https://192.0.2.1", "url"),
    "certificates": ("agent.kubelet.certificates=foo", "certificates"),
    "a word for a boolean": ("agent.report.events=yes", "events"),
    "a word for a list": ("agent.discover.namespaces=shop", "namespaces"),
    "a namespace": ("agent.discover.namespaces={Shop}", "namespaces"),
    "an address without a scheme": ("agent.serverUrl=host:8080", "serverUrl"),
    "a port": ("agent.kubelet.port=70000", "port"),
    "no replicas": ("server.replicas=0", "replicas"),
    "a registry without its slash": ("images.registry=registry.example/osml", "registry"),
    "a label": ("agent.nodeSelector.osml=true", "nodeSelector"),
    "a word for a port": ("agent.latencyPorts={http}", "latencyPorts"),
    "a word for a target": ("agent.services[0].target=10", "target"),
    "a service without a class": ("agent.services[0].name=web", "class"),
    "a key of the agent, misspelt": ("agent.config.intervall_s=2", "intervall_s"),
    "a node for all nodes": ("agent.config.node=mynode", "node"),
    "services in two places": ("agent.config.services[0].name=web", "services"),
    "an address in two places": ("agent.config.server.url=http://192.0.2.1", "url"),
    "the token of the chart": ("agent.config.server.token_file=/token", "token_file"),
    "a place of the chart": ("agent.config.roots.cgroup=/sys/fs/cgroup", "cgroup"),
    "a file mode": ("agent.discover.datagramMode=0777", "datagramMode"),
    "an address for a secret": ("images.pullSecrets={https://registry.example}", "pullSecrets"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_value_is_refused_by_its_name(case: str) -> None:
    setting, name = WRONG[case]
    done = helm("template", "osml", str(CHART), "--set", setting)
    assert done.returncode != 0, "what is ignored does the opposite of what was meant"
    assert name in done.stderr


@pytest.mark.parametrize("name", ["agent.dryRun", "agent.resctrl", "server.enabled", "agent.report.condition"])
def test_a_string_is_no_boolean(name: str) -> None:
    """A template takes the string `false` for true."""
    done = helm("template", "osml", str(CHART), "--set-string", f"{name}=false")
    assert done.returncode != 0
    assert name.rpartition(".")[2] in done.stderr


def test_the_schema_has_the_names_of_the_values() -> None:
    """Where a value is a mapping of fixed names, those of both are the same."""
    free = {"resources", "nodeSelector", "config", "services"}

    def compare(values: Document, schema: Document, place: str) -> None:
        assert schema["additionalProperties"] is False, place
        assert values.keys() == schema["properties"].keys() - {"global"}, place
        for name, value in values.items():
            if isinstance(value, dict) and name not in free:
                compare(value, schema["properties"][name], f"{place}.{name}")

    values = yaml.safe_load((CHART / "values.yaml").read_text())
    compare(values, json.loads((CHART / "values.schema.json").read_text()), "")


def test_the_schema_has_the_rules_of_the_agent() -> None:
    text = chart_schema.CHART.read_text("utf-8")
    assert text == chart_schema.with_rules_of_agent(text), "run `python scripts/chart_schema.py`"


def test_the_keys_that_config_may_have_are_taken(tmp_path: Path) -> None:
    """Parts of a section, without what the agent requires there: the chart has it."""
    config = {
        "hold_s": 30,
        "server": {"timeout_s": 1},
        "levers": {"frequency": "on"},
        "kubelet": {"guaranteed": "take"},
    }
    merged = agent_config(by_name(render(values={"agent": {"config": config}}, tmp_path=tmp_path)))
    assert merged["server"]["timeout_s"] == 1
    assert complaints(merged) == []


def test_helm_finds_nothing_to_complain_about() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr
