"""The agent's pod, started by hand: its init container writes a configuration that the real agent takes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from osml.base.agent_binary import find_agent
from osml.base.failure import Failure
from tests.deploy import test_helm_chart as chart

# An emptyDir in memory: everybody may write to it, and the agent's container has it read-only.
POD = """
set -e
mount -t tmpfs -o mode=0777,size=1m none "$PLACE/etc/osml"
umask 022
setpriv --reuid "$INIT_USER" --regid 0 --clear-groups --inh-caps=-all --bounding-set=-all sh -c "$INIT_SCRIPT"
mount -o remount,ro none "$PLACE/etc/osml"
exec "$@"
"""


@pytest.fixture
def agent() -> Path:
    if os.geteuid() != 0:
        pytest.skip("needs root, for a mount and for the users of the containers")
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine allows no mount namespace")
    try:
        return find_agent(None)
    except Failure as failure:
        pytest.skip(str(failure))


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user can enter, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="osml-pod-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def start(
    place: Path, documents: dict[tuple[str, str], chart.Document], agent: Path
) -> subprocess.CompletedProcess[str]:
    """What a kubelet does with the pod, with all its paths below `place`, for one turn that writes nothing."""
    spec = documents["DaemonSet", "osml-agent"]["spec"]["template"]["spec"]
    [init], [main] = spec["initContainers"], spec["containers"]
    for folder in ("config", "etc/osml", "host/cgroup", "host/resctrl", "run/secrets/osml", "run/secrets/kubelet"):
        (place / folder).mkdir(parents=True)
    (place / "var/lib/osml").mkdir(parents=True, mode=0o700)
    (place / "var/lib/prometheus/node-exporter").mkdir(parents=True)
    for secret in ("osml/token", "kubelet/token", "kubelet/ca.crt"):
        (place / "run/secrets" / secret).write_text("secret\n")
        (place / "run/secrets" / secret).chmod(0o400)

    def moved(text: str) -> str:
        for root in ("/config", "/etc/osml", "/host", "/run/secrets", "/var/lib"):
            text = text.replace(root, f"{place}{root}")
        return text

    text = documents["ConfigMap", "osml-agent"]["data"]["agent.yaml"]
    (place / "config/agent.yaml").write_text(moved(text).replace("http://osml-server:8080", "http://127.0.0.1:9"))
    assert main["securityContext"]["runAsUser"] == 0
    assert init["command"][:2] == ["sh", "-c"]
    environment = {
        "PATH": os.environ["PATH"],
        "PLACE": str(place),
        "INIT_USER": str(init["securityContext"]["runAsUser"]),
        "INIT_SCRIPT": moved(init["command"][2]),
        "NODE_NAME": "node-17",
        "NODE_IP": "127.0.0.1",
    }
    arguments = [moved(argument) for argument in main["args"]]
    command = ["unshare", "-m", "sh", "-c", POD, "pod", str(agent), *arguments, "--once", "--dry-run"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("source", ["kustomize", "chart"])
def test_the_agent_takes_the_configuration_of_its_init_container(source: str, agent: Path, place: Path) -> None:
    if source == "chart" and chart.HELM is None:
        pytest.skip("helm is not installed")
    documents = chart.kustomized() if source == "kustomize" else chart.by_name(chart.render())
    done = start(place, documents, agent)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "manages node node-17" in done.stdout + done.stderr


def test_a_configuration_of_another_user_is_refused(agent: Path, place: Path) -> None:
    """So the user of the init container matters, and this test would see a wrong one."""
    documents = chart.kustomized()
    spec = documents["DaemonSet", "osml-agent"]["spec"]["template"]["spec"]
    spec["initContainers"][0]["securityContext"]["runAsUser"] = 10001
    done = start(place, documents, agent)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "belongs to user 10001, expected root" in done.stderr
