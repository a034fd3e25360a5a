"""Pods on this machine's own cgroup trees: real processes, a kubelet that speaks HTTPS, and its bad days."""

from __future__ import annotations

import json
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from osml.lab.trials.children import wait_until
from tests.e2e.cluster.fake_kubelet import NAME, FakeKubelet, pod
from tests.e2e.cluster.pod_cgroups import UIDS, UNLIMITED, WEB, Pods, why_not
from tests.e2e.cluster.pod_host import Host

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


def test_a_pod_comes_restarts_and_goes(host: Host, pods: Pods, kubelet: FakeKubelet) -> None:
    first, second = "1" * 64, "2" * 64
    running = host.start()
    wait_until(
        lambda: "service 'web' is not there: a pod of namespace shop with app=web" in host.log(),
        "its absence",
        [running],
    )
    pods.start(UIDS[0], first)
    kubelet.pods = [pod("web-0", UIDS[0], first, WEB), pod("db-0", UIDS[1], "3" * 64, {"app": "db"})]
    wait_until(lambda: pods.quota(UIDS[0], first) != UNLIMITED, "the quota of the pod", [running])
    assert host.metric("kubelet_up") == 1
    pods.stop(UIDS[0], first)
    pods.start(UIDS[0], second)
    kubelet.pods = [pod("web-0", UIDS[0], second, WEB)]
    wait_until(lambda: pods.quota(UIDS[0], second) != UNLIMITED, "the quota after the restart", [running])
    pods.stop(UIDS[0], second)
    kubelet.pods = []
    wait_until(lambda: host.metric('service_absent{node="node-17",service="web"}') == 1, "its absence", [running])
    pods.start(UIDS[1], first)
    kubelet.pods = [pod("web-1", UIDS[1], first, WEB)]
    wait_until(lambda: pods.quota(UIDS[1], first) != UNLIMITED, "the quota of the next pod", [running])
    running.stop()
    assert pods.quota(UIDS[1], first) == UNLIMITED, "restored"
    assert '"originals": []' in (host.folder / "state/journal.json").read_text()


JOB = {"class": "be", "container": "app"}


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A directory with a name as short as that of /run/osml."""
    with tempfile.TemporaryDirectory(prefix="osml") as folder:
        yield Path(folder)


def test_pods_ask_for_services_by_annotations(host: Host, pods: Pods, kubelet: FakeKubelet, sockets: Path) -> None:
    """From the kubelet's answer to the quota, with the real agent and a real server, and back."""
    del host.config["services"][1]
    host.config["kubelet"]["discover"] = {"namespaces": ["shop"], "datagram_directory": str(sockets)}
    first, second = "1" * 64, "2" * 64
    running = host.start()
    pods.start(UIDS[0], first)
    kubelet.pods = [pod("batch-0", UIDS[0], first, WEB, JOB)]
    wait_until(lambda: pods.quota(UIDS[0], first) != UNLIMITED, "the quota of the pod that asks", [running])
    assert "service 'shop.batch-0' comes from the annotations of pod shop/batch-0" in host.log()
    wait_until((host.folder / "osml.prom").exists, "metrics", [running])
    wait_until(lambda: host.metric("services_of_pods") == 1, "the metric", [running])
    # Another one asks for what no pod may have: it is refused, and the first one stays.
    pods.start(UIDS[1], second)
    kubelet.pods.append(pod("greedy", UIDS[1], second, WEB, {"target-p99-ms": "1e999"}))
    wait_until(lambda: host.metric("pods_refused") == 1, "the refusal", [running])
    assert "pod shop/greedy asks for a service and gets none: annotation osml.dev/target-p99-ms" in (host.log())
    assert pods.quota(UIDS[1], second) == UNLIMITED
    assert pods.quota(UIDS[0], first) != UNLIMITED
    # Corrected, but without a latency source: watched.
    kubelet.pods[1] = pod("greedy", UIDS[1], second, WEB, {"target-p99-ms": "10"})
    wait_until(lambda: "service 'shop.greedy' is watched, not managed" in host.log(), "the watched service", [running])
    watched = 'osml_agent_service_watched{node="node-17",service="shop.greedy"} 1'
    wait_until(lambda: watched in (host.folder / "osml.prom").read_text(), "the metric", [running])
    said = subprocess.run(
        [*host.command[:1], "show", "--json", *host.command[2:]], capture_output=True, text=True, check=True, timeout=30
    )
    services = {one["name"]: one for one in json.loads(said.stdout)["services"]}
    assert services["job"] == {"name": "job", "source": None, "watched": False}
    assert services["shop.batch-0"]["source"] == "pod shop/batch-0"
    assert services["shop.greedy"]["watched"]
    assert pods.quota(UIDS[1], second) == UNLIMITED
    pods.stop(UIDS[0], first)
    kubelet.pods = kubelet.pods[1:]
    wait_until(lambda: host.metric("services_of_pods") == 1, "the end of the first one", [running])
    running.stop()
    assert '"originals": []' in (host.folder / "state/journal.json").read_text()


def test_a_latency_that_the_pod_sends_makes_it_managed(
    host: Host, pods: Pods, kubelet: FakeKubelet, sockets: Path
) -> None:
    del host.config["services"][1]
    host.config["kubelet"]["discover"] = {"namespaces": ["shop"], "datagram_directory": str(sockets)}
    record = host.folder / "record.jsonl"
    host.command += ["--record", str(record)]
    container = "1" * 64
    pods.start(UIDS[0], container)
    kubelet.pods = [pod("web-0", UIDS[0], container, WEB, {"target-p99-ms": "10", "latency": "datagram"})]
    running = host.start()
    socket_of_service = sockets / "shop.web-0.sock"
    wait_until(socket_of_service.exists, "the socket", [running])

    def told() -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b'{"p99_ms": 3.5}', str(socket_of_service))
        if not record.exists():
            return False
        lines = [json.loads(line) for line in record.read_text().splitlines()]
        services = [one for line in lines for one in line["observation"]["services"] if one["name"] == "shop.web-0"]
        return any((one["latency"] or {}).get("p99_ms") == 3.5 for one in services)

    wait_until(told, "the latency in an observation", [running])
    text = record.read_text()
    assert '"source":"pod shop/web-0"' in text.replace('": "', '":"')
    pods.stop(UIDS[0], container)
    kubelet.pods = []
    wait_until(lambda: not socket_of_service.exists(), "the socket to go with its service", [running])
    running.stop()


FAULTS = {
    "401": "answered HTTP 401; the kubelet does not accept the token of",
    "403": "answered HTTP 403; allow the token's account to get nodes/pods",
    "slow": "timed out",
    "huge": "the answer is longer than 8388608 bytes",
    "nonsense": "expected a list of pods as JSON, got application/json beginning with '<html>.[31mWelcome</html>'",
    "half": "expected a list of pods as JSON",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_kubelet_on_a_bad_day_takes_no_pod_away_and_is_named_once(
    host: Host, pods: Pods, kubelet: FakeKubelet, fault: str
) -> None:
    container = "1" * 64
    pods.start(UIDS[0], container)
    kubelet.pods = [pod("web-0", UIDS[0], container, WEB)]
    running = host.start()
    wait_until(lambda: pods.quota(UIDS[0], container) != UNLIMITED, "the quota of the pod", [running])
    kubelet.fault = fault
    wait_until(lambda: "the kubelet does not tell its pods" in host.log(), "a failed request", [running])
    asked = kubelet.asked
    wait_until(lambda: kubelet.asked >= asked + 2, "more requests", [running])
    wait_until(lambda: host.metric("kubelet_up") == 0, "the metric", [running])
    assert pods.quota(UIDS[0], container) != UNLIMITED
    [sentence] = [line for line in host.log().splitlines() if "the kubelet does not tell its pods" in line]
    assert FAULTS[fault] in sentence
    kubelet.fault = ""
    wait_until(lambda: "the kubelet tells its pods again" in host.log(), "an answer", [running])
    running.stop()
    assert pods.quota(UIDS[0], container) == UNLIMITED


def test_a_rotated_token_is_read_anew_and_a_wrong_certificate_is_refused(
    host: Host, pods: Pods, kubelet: FakeKubelet
) -> None:
    container = "1" * 64
    pods.start(UIDS[0], container)
    kubelet.pods = [pod("web-0", UIDS[0], container, WEB)]
    del host.config["kubelet"]["server_name"]
    running = host.start()
    wait_until(lambda: "the kubelet does not tell its pods" in host.log(), "a refused certificate", [running])
    assert "127.0.0.1" in host.log(), "no name in the certificate is the address"
    assert kubelet.asked == 0, "the token did not leave"
    running.stop()
    host.config["kubelet"]["server_name"] = NAME
    running = host.start()
    wait_until(lambda: pods.quota(UIDS[0], container) != UNLIMITED, "the quota of the pod", [running])
    kubelet.token = "second"  # noqa: S105 - of this test
    wait_until(lambda: "HTTP 401" in host.log(), "the old token to be refused", [running])
    host.set_token("second")
    wait_until(lambda: "the kubelet tells its pods again" in host.log(), "the new token", [running])
    running.stop()
