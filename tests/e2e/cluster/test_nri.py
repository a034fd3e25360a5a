"""The NRI plugin between the real agent and a real runtime's half of NRI, on this machine's own cgroups."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from osml.lab.trials.children import Child, wait_until
from tests.e2e.cluster.fake_kubelet import FakeKubelet, pod
from tests.e2e.cluster.nri_runtime import NriRuntime, build
from tests.e2e.cluster.pod_cgroups import CGROUPS, TOP, UIDS, UNLIMITED, WEB, Pods, remove, why_not
from tests.e2e.cluster.pod_host import Host

pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
    pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed"),
]

FIRST, SECOND, THIRD, OTHER = (digit * 64 for digit in "1234")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("runtime"))


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose sockets have short names."""
    with tempfile.TemporaryDirectory(prefix="osml") as folder:
        yield Path(folder)


@pytest.fixture
def runtime(program: Path, short: Path) -> Iterator[NriRuntime]:
    with NriRuntime(program, short) as running:
        yield running


@pytest.fixture
def node(host: Host, short: Path) -> Host:
    """Whole CPUs, and two seconds of wall time between two decisions."""
    host.config |= {"interval_s": 20, "state_dir": str(short / "state"), "cpu": {"backend": "cgroup1"}}
    return host


def start_plugin(host: Host, runtime: NriRuntime, *options: str) -> Child:
    """`osml-agent nri`, registered."""
    command = [host.command[0], "nri", "--config", str(host.folder / "agent.yaml"), "--socket", str(runtime.socket)]
    before = runtime.synchronized
    plugin = host.children.start(f"plugin{time.monotonic_ns()}", [*command, "--wait-s", "5", *options])
    wait_until(lambda: runtime.synchronized > before, "the plugin", [plugin])
    return plugin


def start_job() -> subprocess.Popen[bytes]:
    """A process in the cgroup of the job, so that the node is divided."""
    process = subprocess.Popen(["sleep", "1000"])
    for controller in ("cpu", "cpuset"):
        made = CGROUPS / controller / TOP / "besteffort"
        made.mkdir(parents=True, exist_ok=True)
        if controller == "cpuset":
            for folder in (made.parent, made):
                for name in ("cpuset.cpus", "cpuset.mems"):
                    (folder / name).write_text((folder.parent / name).read_text())
        (made / "cgroup.procs").write_text(str(process.pid))
    return process


def stop_job(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for controller in ("cpu", "cpuset"):
        remove(CGROUPS / controller / TOP / "besteffort")


@pytest.fixture
def job(pods: Pods) -> None:
    pods.running["job"] = start_job()


def everything() -> str:
    return (CGROUPS / "cpuset/cpuset.cpus").read_text().strip()


def start_beside_a_container(
    node: Host, pods: Pods, kubelet: FakeKubelet, runtime: NriRuntime
) -> tuple[Child, Child, str]:
    """The agent, then the plugin beside a container that runs already; and its CPUs, which the runtime knows."""
    agent = node.start()
    kubelet.pods = [pod("web-0", UIDS[0], FIRST, WEB)]
    pods.start(UIDS[0], FIRST)
    wait_until(lambda: pods.cpus(UIDS[0], FIRST) != everything(), "a first decision", [agent])
    given = pods.cpus(UIDS[0], FIRST)
    runtime.do("known", Pod=UIDS[0], Container="app", ID=FIRST)
    runtime.listen()
    plugin = start_plugin(node, runtime)
    wait_until(lambda: runtime.told(FIRST) == given, "its CPUs in the runtime", [agent, plugin])
    return agent, plugin, given


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs to divide")
@pytest.mark.usefixtures("job")
def test_a_container_has_all_of_its_service_before_its_program_runs(
    node: Host, pods: Pods, kubelet: FakeKubelet, runtime: NriRuntime
) -> None:
    agent = node.start()
    runtime.listen()
    plugin = start_plugin(node, runtime)
    kubelet.pods = [pod("web-0", UIDS[0], FIRST, WEB)]
    pods.start(UIDS[0], FIRST)
    wait_until(lambda: pods.cpus(UIDS[0], FIRST) != everything(), "a first decision", [agent, plugin])
    given = pods.cpus(UIDS[0], FIRST)
    assert given
    before = FIRST
    for container in (SECOND, THIRD, OTHER):  # three, so that no turn of the agent does it by chance
        # The container ends and the kubelet makes a new one, whose id it does not tell before that runs.
        pods.stop(UIDS[0], before)
        kubelet.pods = [pod("web-0", UIDS[0], None, WEB)]
        created = runtime.do("create", Pod=UIDS[0], Container="app", ID=container)
        assert created["cpus"] == given, "in the runtime's own description"
        pods.make(UIDS[0], container)
        runtime.do("start", Pod=UIDS[0], Container="app", ID=container)
        assert pods.cpus(UIDS[0], container) == given, "set, and its program does not run yet"
        pods.start(UIDS[0], container)
        runtime.do("remove", Pod=UIDS[0], Container="app", ID=before)
        said = f"container {container} of service 'web' starts with CPUs {given}"
        wait_until(lambda said=said: said in node.log(), "a line in the log", [agent, plugin])
        before = container
    # The kubelet changes the container's resources: the runtime would write the CPUs that it knows.
    updated = runtime.do("update", Pod=UIDS[0], Container="app", ID=OTHER, Cpus=everything())
    assert updated["cpus"] == given
    # Who is of no service is left as it is.
    assert runtime.do("create", Pod=UIDS[1], Container="app", ID=FIRST)["cpus"] == ""
    # The job ends: the allocation changes, and the runtime is told.
    stop_job(pods.running.pop("job"))
    wait_until(lambda: runtime.told(OTHER) == everything(), "the new CPUs in the runtime", [agent, plugin])
    assert pods.cpus(UIDS[0], OTHER) == everything()
    agent.stop()
    plugin.stop()
    assert not (node.folder / "state/nri.sock").exists()


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs to divide")
@pytest.mark.usefixtures("job")
def test_what_was_there_before_the_plugin_is_told_and_given_back_when_the_agent_leaves(
    node: Host, pods: Pods, kubelet: FakeKubelet, runtime: NriRuntime, program: Path, short: Path
) -> None:
    agent, plugin, given = start_beside_a_container(node, pods, kubelet, runtime)
    # The runtime restarts with what it knew: nobody asks the agent to set anything again.
    runtime.__exit__()
    with NriRuntime(program, short) as again:
        again.do("known", Pod=UIDS[0], Container="app", ID=FIRST, Cpus=given)
        again.listen()
        wait_until(lambda: again.synchronized == 1, "the plugin in the new runtime", [plugin])
        wait_until(lambda: again.told(FIRST) == given, "its CPUs in the new runtime", [agent, plugin])
        # Both are told to stop, the plugin first: it stays until the agent has put everything back.
        os.kill(plugin.pid, signal.SIGTERM)
        agent.stop()
        assert pods.cpus(UIDS[0], FIRST) == everything(), "restored"
        wait_until(lambda: again.told(FIRST) == everything(), "the way back in the runtime", [])
        wait_until(lambda: not plugin.running, "the end of the plugin", [])
        assert plugin.exit_code == 0


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two CPUs to divide")
@pytest.mark.usefixtures("job")
def test_a_restore_by_hand_gives_the_runtime_its_cpus_back(
    node: Host, pods: Pods, kubelet: FakeKubelet, runtime: NriRuntime
) -> None:
    node.config["on_exit"] = "leave"
    agent, plugin, given = start_beside_a_container(node, pods, kubelet, runtime)
    agent.stop()
    assert pods.cpus(UIDS[0], FIRST) == given, "left as it was"
    subprocess.run(
        [node.command[0], "restore", "--config", str(node.folder / "agent.yaml")], check=True, capture_output=True
    )
    assert pods.cpus(UIDS[0], FIRST) == everything()
    wait_until(lambda: runtime.told(FIRST) == everything(), "the way back in the runtime", [plugin])


def test_without_an_agent_containers_start_as_without_a_plugin(
    node: Host, pods: Pods, kubelet: FakeKubelet, runtime: NriRuntime
) -> None:
    agent = node.start()
    wait_until((node.folder / "osml.prom").exists, "the agent", [agent])
    runtime.listen()
    plugin = start_plugin(node, runtime)
    agent.kill()
    kubelet.pods = [pod("web-0", UIDS[0], None, WEB)]
    pods.make(UIDS[0], FIRST)
    assert runtime.do("create", Pod=UIDS[0], Container="app", ID=FIRST)["cpus"] == ""
    runtime.do("start", Pod=UIDS[0], Container="app", ID=FIRST)
    pods.start(UIDS[0], FIRST)
    assert pods.quota(UIDS[0], FIRST) == UNLIMITED
    # It comes back: the plugin asks again about those that started meanwhile.
    kubelet.pods = [pod("web-0", UIDS[0], FIRST, WEB)]
    agent = node.start()
    wait_until(lambda: runtime.told(FIRST) == everything(), "its CPUs in the runtime", [agent, plugin])
    # Nonsense at the agent's socket is no question.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        gate = str(Path(node.config["state_dir"]) / "containers.sock")
        for text in (b"", b"\0" * 1000, b"[]", b"{}", b'{"number":-1}', b'{"number":1,"stage":"start","pod":"../..",'):
            sender.sendto(text, gate)
    assert runtime.do("create", Pod=UIDS[0], Container="app", ID=SECOND)["cpus"] == everything()


def test_a_runtime_that_speaks_nonsense_is_left_and_tried_again(node: Host, runtime: NriRuntime, short: Path) -> None:
    node.write_config()
    (short / "state").mkdir(mode=0o700)
    accepted = threading.Semaphore(0)
    answers = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\0\0\0\1\xff\xff\xff\xff",
        b"\0\0\0\2\0\0\0\x0a\0\0\0\0\0\0\0\1\2\0",  # registered, by an empty answer; then it ends
        b"\0\0\0\1\0\0\0\x0d\0\0\0\3\0\0\0\1\1\0abc",  # a request that is none
    ]
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(runtime.socket))
        listener.listen()

        def serve() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(answer)
                    connection.settimeout(1)
                    accepted.release()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        command = [node.command[0], "nri", "--config", str(node.folder / "agent.yaml"), "--socket", str(runtime.socket)]
        plugin = node.children.start("plugin", command)
        for _ in answers:
            assert accepted.acquire(timeout=60)
        thread.join(10)
    runtime.socket.unlink()
    runtime.listen()
    wait_until(lambda: runtime.synchronized == 1, "the plugin in a real runtime", [plugin])
    log = plugin.log.read_text()
    assert "the runtime sends a frame of connection 1213486160, expected 1 or 2" in log
    assert "expected 4 MiB at most" in log
