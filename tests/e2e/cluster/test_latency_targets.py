"""LatencyTargets on this machine's own cgroup trees: real processes, a kubelet and an API server, and its bad days."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from osml.lab.trials.children import wait_until
from tests.e2e.cluster.fake_api_server import FakeApiServer, latency_target
from tests.e2e.cluster.fake_kubelet import NAME, FakeKubelet, make_certificate, pod
from tests.e2e.cluster.pod_cgroups import UIDS, UNLIMITED, WEB, Pods, why_not
from tests.e2e.cluster.pod_host import Host

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

CONTAINER = "1" * 64
JOB = {"class": "be", "container": "app"}


@pytest.fixture
def api(tmp_path: Path, host: Host) -> Iterator[FakeApiServer]:
    """An API server that the agent of `host` lists LatencyTargets of; a period is a second."""
    make_certificate(tmp_path, "api", "IP:127.0.0.1")
    with FakeApiServer(tmp_path, NAME) as server:
        del host.config["services"][1]
        host.config["kubelet"]["discover"] = {"namespaces": ["shop"], "latency_targets": "on"}
        host.config["kubernetes"] = {
            "url": f"https://127.0.0.1:{server.port}",
            "timeout_s": 1.5,  # a busy machine may take its time; a slow API server takes longer
            "token_file": str(tmp_path / "token"),
            "ca_file": str(tmp_path / "api.pem"),
        }
        yield server


def show(host: Host) -> dict[str, Any]:
    command = [*host.command[:1], "show", "--json", *host.command[2:4]]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout)


def serve(pods: Pods, kubelet: FakeKubelet) -> None:
    """One pod without annotations."""
    pods.start(UIDS[0], CONTAINER)
    kubelet.pods = [pod("web-0", UIDS[0], CONTAINER, WEB)]


def test_a_target_comes_changes_and_goes(host: Host, pods: Pods, kubelet: FakeKubelet, api: FakeApiServer) -> None:
    """From the answer of the API server to the quota, with the real agent and a real server, and back."""
    serve(pods, kubelet)
    running = host.start()
    wait_until(lambda: len(api.lists) >= 2, "lists", [running])
    assert pods.quota(UIDS[0], CONTAINER) == UNLIMITED
    api.targets = [latency_target("front", **JOB), latency_target("front", "elsewhere", **JOB)]
    wait_until(lambda: pods.quota(UIDS[0], CONTAINER) != UNLIMITED, "the quota", [running])
    assert "service 'shop.front' comes from LatencyTarget shop/front, for pod web-0" in host.log()
    wait_until(lambda: host.metric("latency_targets{") == 1, "the metric", [running])
    assert host.metric("latency_targets_up") == 1
    assert {one["name"]: one["source"] for one in show(host)["services"]} == {
        "job": None,
        "shop.front": "LatencyTarget shop/front",
    }
    # A latency target without a latency: the agent only watches.
    api.targets = [latency_target("front", container="app", targetP99Ms=10)]
    wait_until(lambda: "service 'shop.front' is watched, not managed" in host.log(), "the change", [running])
    wait_until(lambda: pods.quota(UIDS[0], CONTAINER) == UNLIMITED, "the release", [running])
    # Two that select the pod, and one that nobody can read.
    api.targets = [latency_target(name, **JOB) for name in ("front", "second")] + [latency_target("odd", selector={})]
    both = "2 LatencyTargets select it, such as shop/front and shop/second; expected one"
    wait_until(lambda: both in host.log(), "the refusal", [running])
    assert "LatencyTarget shop/odd is refused: spec.selector: {}, expected at least one label" in host.log()
    wait_until(lambda: host.metric("latency_targets_refused") == 1, "the metric", [running])
    assert host.metric("pods_refused") == 1
    assert "shop/odd" in show(host)["refused_targets"]
    api.targets = [latency_target("second", **JOB)]
    wait_until(lambda: pods.quota(UIDS[0], CONTAINER) != UNLIMITED, "the quota", [running])
    # The pod's own annotations win.
    kubelet.pods = [pod("web-0", UIDS[0], CONTAINER, WEB, JOB)]
    wait_until(lambda: "service 'shop.web-0' comes from the annotations" in host.log(), "annotations", [running])
    kubelet.pods = [pod("web-0", UIDS[0], CONTAINER, WEB)]
    api.targets = []
    wait_until(lambda: pods.quota(UIDS[0], CONTAINER) == UNLIMITED, "the release", [running])
    running.stop()
    assert '"originals": []' in (host.folder / "state/journal.json").read_text()
    assert {path.partition("?")[0] for path in api.lists} == {
        "/apis/osml.dev/v1alpha1/namespaces/shop/latencytargets"
    }, "of namespaces that may ask"
    assert api.refused == []


FAULTS = {
    "401": "answered HTTP 401; the API server does not accept the token of",
    "403": "answered HTTP 403; allow the token's account to list latencytargets of osml.dev",
    "slow": "timed out",
    "huge": "the answer is longer than 4194304 bytes",
    "nonsense": "expected a list of LatencyTargets as JSON, got application/json beginning with '<html>.[31mWelcome",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_api_server_on_a_bad_day_takes_no_target_away_and_is_named_once(
    host: Host, pods: Pods, kubelet: FakeKubelet, api: FakeApiServer, fault: str
) -> None:
    serve(pods, kubelet)
    api.targets = [latency_target("front", **JOB)]
    running = host.start()
    wait_until(lambda: pods.quota(UIDS[0], CONTAINER) != UNLIMITED, "the quota", [running])
    api.fault = fault
    wait_until(lambda: "the API server does not tell LatencyTargets" in host.log(), "a failed request", [running])
    wait_until(lambda: host.metric('latency_target_requests_total{node="node-17",status="failed"') >= 2, "", [running])
    assert host.metric("latency_targets_up") == 0
    turns = host.metric("turns_total")
    wait_until(lambda: host.metric("turns_total") > turns + 2, "more intervals", [running])
    assert pods.quota(UIDS[0], CONTAINER) != UNLIMITED
    [sentence] = [line for line in host.log().splitlines() if "does not tell LatencyTargets" in line]
    assert "those that are known stay in force" in sentence
    assert FAULTS[fault] in sentence
    api.fault = ""
    wait_until(lambda: "the API server tells LatencyTargets again" in host.log(), "an answer", [running])
    running.stop()
    assert pods.quota(UIDS[0], CONTAINER) == UNLIMITED


def test_a_cluster_without_the_resource_has_annotations_alone(
    host: Host, pods: Pods, kubelet: FakeKubelet, api: FakeApiServer
) -> None:
    api.fault = "404"
    pods.start(UIDS[0], CONTAINER)
    kubelet.pods = [pod("web-0", UIDS[0], CONTAINER, WEB, JOB)]
    running = host.start()
    wait_until(lambda: pods.quota(UIDS[0], CONTAINER) != UNLIMITED, "the quota of annotations", [running])
    wait_until(lambda: api.asked >= 4, "more requests", [running])
    [sentence] = [line for line in host.log().splitlines() if "does not tell LatencyTargets" in line]
    assert "install the custom resource LatencyTarget; annotations of pods go on without it" in sentence
    running.stop()


def test_a_restart_while_the_api_server_is_away_lets_nothing_go(
    host: Host, pods: Pods, kubelet: FakeKubelet, api: FakeApiServer
) -> None:
    host.config["on_exit"] = "leave"
    serve(pods, kubelet)
    api.targets = [latency_target("front", **JOB)]
    running = host.start()
    wait_until(lambda: pods.quota(UIDS[0], CONTAINER) != UNLIMITED, "the quota", [running])
    running.stop()
    api.fault = "503"
    running = host.start()
    wait_until(lambda: "the API server does not tell LatencyTargets" in host.log(), "a failed request", [running])
    assert pods.quota(UIDS[0], CONTAINER) != UNLIMITED
    assert "restored" not in host.log()
    assert "service 'shop.front' comes from LatencyTarget shop/front" in host.log()
    api.targets, api.fault = [], ""
    wait_until(lambda: pods.quota(UIDS[0], CONTAINER) == UNLIMITED, "the release", [running])
    running.stop()


def test_a_single_look_waits_for_the_list(host: Host, pods: Pods, kubelet: FakeKubelet, api: FakeApiServer) -> None:
    serve(pods, kubelet)
    api.targets = [latency_target("front", **JOB)]
    pods.start(UIDS[1], CONTAINER)
    host.config["services"] = []
    host.command += ["--once", "--dry-run"]
    looked = host.start()
    wait_until(lambda: not looked.running, "one interval", [])
    assert looked.exit_code == 0, host.log()
    assert "service 'shop.front' comes from LatencyTarget shop/front" in host.log()
    assert pods.quota(UIDS[0], CONTAINER) == UNLIMITED
    assert not (host.folder / "state/latency-targets.json").exists()
