"""The agent's Debian package: built in a clean root, installed in another one, run on a virtual node, purged."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from scripts.release.clean_root import Buildah
from scripts.release.step import NotReleasedError, clean_environment, program, run

BUILT = "localhost/osml-agent-package"
IGNORED = re.compile(
    r"/(var/(lib/(apt|dpkg)|cache|log)|etc/(group|gshadow|passwd|shadow)-?$|etc/(ld\.so\.cache|\.pwd\.lock)"
    r"|etc/ssl|etc/ca-certificates|tmp|run|dev)"
)
"""What apt itself and other packages write. A purge leaves the group `osml`: its number may own files elsewhere."""
TICKS = 5


def build(buildah: Buildah, source: Path, out: Path) -> Path:
    """Build the package by the first stage of its Containerfile, and copy it to `out`."""
    buildah.build(source, "deploy/Containerfile.agent", BUILT, target="build")
    with buildah.root(BUILT) as root:
        [found] = (root.place / "package").glob("osml-agent_*.deb")
        return Path(shutil.copy(found, out))


def depends_of(package: Path) -> list[str]:
    """The packages that a package needs, with their versions as in its field Depends."""
    return [one.strip() for one in run([program("dpkg-deb", "dpkg"), "--field", package, "Depends"]).split(",")]


def check(buildah: Buildah, package: Path, environment: Path, work: Path, url: str) -> str:
    """Install, look, run beside the virtual node of a Python environment with the server at `url`, remove, purge."""
    with buildah.root(buildah.bases["debian"]) as root:
        root.run("apt-get", "update", "-qq")
        depends = "ca-certificates"
        root.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", depends)
        root.copy(package, "/srv/")
        before = root.files()
        root.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", f"/srv/{package.name}")
        installed = root.debian("--listfiles", "osml-agent").split()
        _expect(installed)
        root.run("osml-agent", "probe", "--json")
        root.run("osml-latency", "--help")
        decided = _run_on_virtual_node(buildah, root.name, environment, work, url)
        root.run("apt-get", "purge", "-y", "-qq", "--autoremove", "osml-agent")
        ours = (str(work), *(str(parent) for parent in work.parents))  # the mount, of which the place stays
        left = sorted(path for path in root.files() - before if not IGNORED.match(path) and path not in ours)
        if left:
            raise NotReleasedError(
                f"a purge left {len(left)} files, first {left[:5]}: actuator/debian/postrm shall remove them"
            )
    return f"{len(installed)} files, {decided} decisions applied on a virtual node, a purge left nothing"


def _expect(installed: list[str]) -> None:
    wanted = (
        "/usr/bin/osml-agent", "/usr/bin/osml-latency", "/etc/osml", "/etc/osml/latency",
        "/usr/share/man/man8/osml-agent.8.gz", "/usr/share/man/man8/osml-latency.8.gz",
        "/usr/share/doc/osml-agent/copyright", "/usr/share/doc/osml-agent/agent.example.yaml",
        "/usr/lib/systemd/system/osml-agent.service", "/usr/lib/systemd/system/osml-latency@.service",
        "/usr/lib/systemd/system/osml-nri.service",
    )  # fmt: skip
    missing = [path for path in wanted if path not in installed]
    if missing:
        raise NotReleasedError(f"the package lacks {missing}: actuator/packaging.cmake lists what it has")


def _run_on_virtual_node(buildah: Buildah, container: str, environment: Path, work: Path, url: str) -> int:
    """Run the installed agent on the files that a virtual node exports; returns the decisions that it applied."""
    node, record = work / "node", work / "node-record.jsonl"
    mount = [environment / "bin/osml", "lab", "simulator", "mount", node, "--lc", "moses=0.4", "--be", "stream"]
    mount += ["--fuse", "off", "--speed", "5", "--server-url", url, "--policy", "arq"]
    with (work / "node.log").open("wb") as log:
        virtual = subprocess.Popen(
            [str(part) for part in mount], cwd=work, env=clean_environment(), stdout=log, stderr=log
        )
        try:
            _wait_for_node(virtual, node / "node.json", work / "node.log")
            agent = [
                "osml-agent",
                "run",
                "--config",
                f"{node}/agent.yaml",
                "--ticks",
                str(TICKS),
                "--record",
                str(record),
            ]
            command = buildah.command(container, agent, ["--volume", f"{work}:{work}"])
            done = subprocess.run(
                command, env=buildah.environment(), capture_output=True, text=True, check=False, timeout=120
            )
        finally:
            virtual.send_signal(signal.SIGTERM)
            virtual.wait(30)
    if done.returncode != 0:
        raise NotReleasedError(f"the installed agent ended with code {done.returncode}:\n{done.stderr[-1500:]}")
    lines = [json.loads(line) for line in record.read_text("utf-8").splitlines()]
    outcomes = [(line["observation"].get("outcome") or {}).get("status") for line in lines]
    applied = sum(status in ("applied", "unchanged") for status in outcomes)
    if applied == 0:
        raise NotReleasedError(
            f"the installed agent applied no decision in {len(lines)} intervals, outcomes {outcomes}"
        )
    return applied


def _wait_for_node(virtual: subprocess.Popen[bytes], ready: Path, log: Path) -> None:
    deadline = time.monotonic() + 120
    while not (ready.exists() and json.loads(ready.read_text("utf-8"))["ready"]):
        if virtual.poll() is not None or time.monotonic() > deadline:
            raise NotReleasedError(
                f"the virtual node did not start, it said:\n{log.read_text('utf-8', 'replace')[-1500:]}"
            )
        time.sleep(0.2)
