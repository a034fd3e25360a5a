"""Pods on this machine's own cgroup trees: real processes, a kubelet that speaks HTTPS, and its bad days."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from osml.lab.trials.children import Child, Children, free_port, wait_until
from tests.e2e.conftest import start_server
from tests.e2e.fake_kubelet import NAME, FakeKubelet, make_certificate, pod

CGROUPS = Path("/sys/fs/cgroup")
TOP = f"osml{os.getpid()}-kubepods"  # as kind names it, with a prefix
UIDS = ("0b1e2c3d-0000-4000-8000-000000000001", "0b1e2c3d-0000-4000-8000-000000000002")
WEB = {"app": "web"}
UNLIMITED = "-1"


def why_not() -> str:
    if os.geteuid() != 0:
        return "needs root"
    if not all((CGROUPS / controller / "tasks").exists() for controller in ("cpu", "cpuset")):
        return "needs the controllers cpu and cpuset of cgroup v1"
    return ""


pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


@dataclass
class Pods:
    """Cgroups as the kubelet makes them with the driver cgroupfs, and a process in each container."""

    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict[str, "subprocess.Popen[bytes]"])

    def path(self, uid: str, container: str) -> str:
        return f"{TOP}/burstable/pod{uid}/{container}"

    def start(self, uid: str, container: str) -> None:
        path = self.path(uid, container)
        process = subprocess.Popen(["sleep", "1000"])
        for controller in ("cpu", "cpuset"):
            for parent in [*reversed(Path(path).parents[:-1]), Path(path)]:
                made = CGROUPS / controller / parent
                made.mkdir(exist_ok=True)
                if controller == "cpuset":
                    for name in ("cpuset.cpus", "cpuset.mems"):
                        (made / name).write_text((made.parent / name).read_text())
            (CGROUPS / controller / path / "cgroup.procs").write_text(str(process.pid))
        self.running[path] = process

    def stop(self, uid: str, container: str) -> None:
        path = self.path(uid, container)
        process = self.running.pop(path)
        process.kill()
        process.wait()
        for controller in ("cpu", "cpuset"):
            remove(CGROUPS / controller / path)

    def quota(self, uid: str, container: str) -> str:
        return (CGROUPS / "cpu" / self.path(uid, container) / "cpu.cfs_quota_us").read_text().strip()


def remove(group: Path) -> None:
    """rmdir(2), which waits until the last process has left."""
    deadline = time.monotonic() + 5
    while True:
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


@pytest.fixture
def pods() -> Iterator[Pods]:
    made = Pods()
    yield made
    for process in made.running.values():
        process.kill()
        process.wait()
    for controller in ("cpu", "cpuset"):
        top = CGROUPS / controller / TOP
        for group in sorted([*top.rglob("*"), top], reverse=True):
            if group.is_dir():
                remove(group)


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[FakeKubelet]:
    make_certificate(tmp_path)
    with FakeKubelet(tmp_path) as running:
        yield running


@dataclass
class Host:
    """An agent on this machine; a second of node time is a tenth of a second."""

    children: Children
    folder: Path
    kubelet: FakeKubelet
    command: list[str]
    config: dict[str, Any]
    agent: Child | None = None

    def start(self) -> Child:
        self.set_token(self.kubelet.token)
        (self.folder / "agent.yaml").write_text(yaml.safe_dump(self.config))
        self.agent = self.children.start(f"agent{time.monotonic_ns()}", self.command)
        return self.agent

    def set_token(self, token: str) -> None:
        fresh = self.folder / "token.new"
        fresh.write_text(token)
        fresh.chmod(0o600)
        fresh.rename(self.folder / "token")

    def metric(self, name: str) -> float:
        text = (self.folder / "osml.prom").read_text()
        [line] = [line for line in text.splitlines() if line.startswith(f"osml_agent_{name}")]
        return float(line.rpartition(" ")[2])

    def log(self) -> str:
        assert self.agent is not None
        return self.agent.log.read_text()


@pytest.fixture
def host(children: Children, agent: Path, tmp_path: Path, kubelet: FakeKubelet) -> Host:
    port = free_port()
    start_server(children, port)
    config = {
        "node": NAME,
        "server": {"url": f"http://127.0.0.1:{port}", "experiences": "off"},
        "policy": "even",
        "interval_s": 2,
        "time_scale": 10,
        "state_dir": str(tmp_path / "state"),
        "metrics": {"textfile": str(tmp_path / "osml.prom")},
        "kubelet": {
            "url": f"https://127.0.0.1:{kubelet.port}/pods",
            "timeout_s": 0.3,
            "token_file": str(tmp_path / "token"),
            "ca_file": str(tmp_path / "kubelet.pem"),
            "server_name": NAME,
        },
        "services": [
            {"name": "job", "class": "be", "match": {"cgroup": f"{TOP}/besteffort"}},
            {
                "name": "web",
                "class": "be",
                "match": {"pod": {"namespace": "shop", "labels": WEB, "container": "app"}},
            },
        ],
        # Units of a tenth of a CPU, which are set by quota.
        "cpu": {"quantum": 0.1, "backend": "cgroup1"},
    }
    return Host(children, tmp_path, kubelet, [str(agent), "run", "--config", str(tmp_path / "agent.yaml")], config)


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
    started_s = time.monotonic()
    wait_until(lambda: pods.quota(UIDS[0], second) != UNLIMITED, "the quota after the restart", [running])
    followed_s = time.monotonic() - started_s
    assert followed_s < 3, "a second of node time is a tenth of a second, on a busy machine"
    pods.stop(UIDS[0], second)
    kubelet.pods = []
    wait_until(lambda: host.metric('service_absent{node="node-17",service="web"}') == 1, "its absence", [running])
    pods.start(UIDS[1], first)
    kubelet.pods = [pod("web-1", UIDS[1], first, WEB)]
    wait_until(lambda: pods.quota(UIDS[1], first) != UNLIMITED, "the quota of the next pod", [running])
    running.stop()
    assert pods.quota(UIDS[1], first) == UNLIMITED, "restored"
    assert '"originals": []' in (host.folder / "state/journal.json").read_text()


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
