"""What the tests of pods share: cgroups of pods, a kubelet, an agent with a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from osml.lab.trials.children import Children, free_port
from tests.e2e.cluster.fake_kubelet import NAME, FakeKubelet, make_certificate
from tests.e2e.cluster.pod_cgroups import CGROUPS, TOP, WEB, Pods, remove
from tests.e2e.cluster.pod_host import Host
from tests.e2e.conftest import start_server


@pytest.fixture
def pods() -> Iterator[Pods]:
    made = Pods()
    yield made
    for process in made.running.values():
        process.kill()
        process.wait()
    for top in CGROUPS.glob(f"*/{TOP}"):  # a runtime makes them in all hierarchies
        for group in sorted([*top.rglob("*"), top], reverse=True):
            if group.is_dir():
                remove(group)


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[FakeKubelet]:
    make_certificate(tmp_path)
    with FakeKubelet(tmp_path) as running:
        yield running


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
            "timeout_s": 5,  # a busy machine may take its time; the slow kubelet takes longer
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
