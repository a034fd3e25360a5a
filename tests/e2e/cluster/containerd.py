"""A real containerd, built out of Go's modules: pods and containers through the CRI, as the kubelet makes them."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from osml.lab.trials.children import Child, Children, wait_until

IMAGE = "localhost/box:1"
PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr")
SOURCES = Path(__file__).parent / "containerd"


def build(folder: Path) -> None:
    """The programs of containerd and of the kubelet's half: minutes, the first time."""
    tags = "no_btrfs,no_devmapper,no_zfs"
    for name in PROGRAMS:
        package = f"github.com/containerd/containerd/v2/cmd/{name}"
        command = ["go", "build", "-tags", tags, "-o", str(folder / name), package]
        subprocess.run(command, cwd=SOURCES, check=True, timeout=3600)
    subprocess.run(["go", "build", "-o", str(folder / "kubelet"), "."], cwd=SOURCES, check=True, timeout=900)


def write_image(file: Path, busybox: Path) -> None:
    """An image with busybox alone, in the OCI layout; it sleeps unless it is told otherwise."""
    blobs: dict[str, bytes] = {}

    def add(data: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    files = io.BytesIO()
    with tarfile.open(fileobj=files, mode="w") as tar:
        tar.add(busybox, "bin/busybox")
        for applet in ("sh", "cat", "sleep", "grep"):
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    layer = add(files.getvalue(), "layer.v1.tar")
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": ["/bin/sleep", "100000"]},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": add(json.dumps(config).encode(), "config.v1+json"),
        "layers": [layer],
    }
    described = add(json.dumps(manifest).encode(), "manifest.v1+json")
    index = {"schemaVersion": 2, "manifests": [described | {"annotations": {"io.containerd.image.name": IMAGE}}]}
    blobs |= {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": json.dumps(index).encode()}
    with tarfile.open(file, "w") as tar:
        for name, data in blobs.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


CONFIGURATION = """
version = 3
root = "{folder}/root"
state = "{folder}/state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "native"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{image}"
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  socket_path = "{folder}/nri.sock"
  plugin_path = "{folder}/plugins"
  plugin_config_path = "{folder}/plugins"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".containerd]
  default_runtime_name = "runc"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    runtime_path = "{programs}/containerd-shim-runc-v2"
"""


@dataclass
class Containerd:
    """It runs in a folder of its own. For use in a `with` block."""

    programs: Path
    folder: Path
    children: Children
    process: Child | None = None
    sandboxes: list[str] = field(default_factory=list[str])

    @property
    def socket(self) -> Path:
        """Where NRI plugins connect to."""
        return self.folder / "nri.sock"

    def start(self) -> None:
        (self.folder / "plugins").mkdir(exist_ok=True)
        file = self.folder / "config.toml"
        file.write_text(CONFIGURATION.format(folder=self.folder, image=IMAGE, programs=self.programs))
        self.process = self.children.start("containerd", [str(self.programs / "containerd"), "--config", str(file)])
        wait_until(self.socket.exists, "containerd", [self.process])
        archive = self.folder / "image.tar"
        write_image(archive, Path("/bin/busybox"))
        address = str(self.folder / "containerd.sock")
        command = [str(self.programs / "ctr"), "--address", address, "--namespace", "k8s.io", "images", "import"]
        subprocess.run([*command, "--local", "--snapshotter", "native", str(archive)], check=True, timeout=120)

    def __enter__(self) -> Self:
        self.start()
        self._kubelet = subprocess.Popen(
            [self.programs / "kubelet", self.folder / "containerd.sock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return self

    def do(self, what: str, **with_: Any) -> str:
        """One request of the kubelet: what the runtime answered."""
        assert self._kubelet.stdin is not None
        assert self._kubelet.stdout is not None
        self._kubelet.stdin.write(json.dumps({"Do": what, **with_}).encode() + b"\n")
        self._kubelet.stdin.flush()
        answer = json.loads(self._kubelet.stdout.readline())
        assert "error" not in answer, answer
        return str(answer["answer"])

    def sandbox(self, **place: str) -> str:
        """A pod of no containers, which ends with this."""
        made = self.do("sandbox", **place)
        self.sandboxes.append(made)
        return made

    def __exit__(self, *_: object) -> None:
        for sandbox in self.sandboxes:
            self.do("end", Sandbox=sandbox)
        self._kubelet.kill()
        self._kubelet.wait()
        assert self.process is not None
        self.process.stop()
