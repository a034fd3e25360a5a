"""Pods in a real containerd on this machine's own cgroups: what a program sees at its first instruction."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from osml.lab.trials.children import Children, wait_until
from tests.e2e.cluster.containerd import IMAGE, Containerd, build
from tests.e2e.cluster.fake_kubelet import FakeKubelet, pod
from tests.e2e.cluster.pod_cgroups import CGROUPS, TOP, UIDS, WEB, Pods, why_not
from tests.e2e.cluster.pod_host import Host

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs to divide"),
    pytest.mark.skipif(
        any(shutil.which(program) is None for program in ("go", "runc", "busybox")),
        reason="needs Go, runc and busybox-static",
    ),
]

FIRST_LINE = ["/bin/sh", "-c", "grep Cpus_allowed_list /proc/self/status; exec sleep 1000"]
RESTARTS = 10


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = os.environ.get("OSML_TEST_CONTAINERD")
    if given:
        return Path(given)
    folder = tmp_path_factory.mktemp("containerd")
    build(folder)
    return folder


@pytest.fixture
def containerd(programs: Path, tmp_path: Path, children: Children, pods: Pods) -> Iterator[Containerd]:
    folder = tmp_path / "containerd"
    folder.mkdir()
    with Containerd(programs, folder, children) as running:
        yield running


def all_cpus() -> str:
    return (CGROUPS / "cpuset/cpuset.cpus").read_text().strip()


class Pod:
    """One pod with a container `app`, made anew as the kubelet does it after each end."""

    def __init__(self, containerd: Containerd, logs: Path) -> None:
        self.containerd, self.logs, self.attempt, self.id = containerd, logs, 0, ""
        logs.mkdir()
        self.place = {"UID": UIDS[0], "Parent": f"/{TOP}/burstable/pod{UIDS[0]}", "Logs": str(logs)}
        self.sandbox = containerd.sandbox(**self.place)

    def restart(self) -> tuple[str, float]:
        """The CPUs that the program may use at its first instruction, and how long the start took in ms."""
        if self.id:
            self.containerd.do("remove", ID=self.id)
        self.attempt += 1
        began_s = time.monotonic()
        self.id = self.containerd.do(
            "create", Sandbox=self.sandbox, Image=IMAGE, Command=FIRST_LINE, Attempt=self.attempt, **self.place
        )
        self.containerd.do("start", ID=self.id)
        took_ms = (time.monotonic() - began_s) * 1000
        log = self.logs / f"app-{self.attempt}.log"
        wait_until(lambda: log.exists() and "Cpus_allowed_list" in log.read_text(), "its first words", [])
        return log.read_text().split()[-1], took_ms

    def cpus(self) -> str:
        return (CGROUPS / "cpuset" / self.place["Parent"].strip("/") / self.id / "cpuset.cpus").read_text().strip()


def test_a_program_has_the_cpus_of_its_service_from_its_first_instruction(
    host: Host, containerd: Containerd, kubelet: FakeKubelet, tmp_path: Path
) -> None:
    # As many CPUs as one: what the service may have differs from what the runtime gives by itself.
    host.config |= {"interval_s": 20, "cpu": {"backend": "cgroup1"}}
    del host.config["services"][0]
    host.config["services"][0]["limits"] = {"max_cores": 1}
    agent = host.start()
    web = Pod(containerd, tmp_path / "pod-logs")
    kubelet.pods = [pod("web-0", UIDS[0], None, WEB)]
    seen, _ = web.restart()
    assert seen == all_cpus(), "nobody has decided yet"
    kubelet.pods = [pod("web-0", UIDS[0], web.id, WEB)]
    wait_until(lambda: web.cpus() != all_cpus(), "a first decision", [agent])
    given = web.cpus()
    kubelet.pods = [pod("web-0", UIDS[0], None, WEB)]  # it tells an id a second after the start
    without = [web.restart() for _ in range(RESTARTS)]
    command = [host.command[0], "nri", "--config", str(host.folder / "agent.yaml"), "--socket", str(containerd.socket)]
    plugin = host.children.start("plugin", command)
    wait_until(lambda: "registered as an NRI plugin of containerd" in plugin.log.read_text(), "the plugin", [plugin])
    with_plugin = [web.restart() for _ in range(RESTARTS)]
    assert [seen for seen, _ in with_plugin] == [given] * RESTARTS
    containerd.do("update", ID=web.id, Shares=512)  # as the kubelet does for a pod that is resized
    assert web.cpus() == given, "the runtime writes the CPUs that the plugin names"
    wrong = sum(seen != given for seen, _ in without)
    print(f"programs that began with other CPUs, without the plugin: {wrong} of {RESTARTS}")
    for name, runs in (("without", without), ("with", with_plugin)):
        print(f"a container is made and started in {median(ms for _, ms in runs):.0f} ms {name} the plugin (median)")
    # The plugin is killed: containers start as before, and nothing of the runtime is harmed.
    plugin.kill()
    seen, _ = web.restart()
    assert seen == all_cpus()
    agent.stop()
