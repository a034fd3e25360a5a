"""Clean roots: containers of buildah, from base images of the registry or, where none answers, from Debian's packages.

Containers are chroots with the host's network (`BUILDAH_ISOLATION=chroot`): this works inside another container, too.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType

from scripts.release.step import NotReleasedError, clean_environment, program, run

_BASE = re.compile(r"(?:^FROM |--from=)(\S+/(\w+):\S+)", re.MULTILINE)
_PYTHON = """FROM {debian}
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates python3 python3-venv \\
    && ln -s /usr/bin/python3 /usr/local/bin/python && rm -rf /var/lib/apt/lists/*
"""


def bases_of(source: Path) -> dict[str, str]:
    """Base images of the Containerfiles by the last word of their name: debian, python, uv."""
    texts = [file.read_text("utf-8") for file in sorted((source / "deploy").glob("Containerfile.*"))]
    return {word: name for text in texts for name, word in _BASE.findall(text)}


class Buildah(AbstractContextManager["Buildah"]):
    """A store of images and containers of its own, in a folder that goes with the release's other work.

    `bases` are the names of base images by `bases_of`.
    """

    def __init__(self, folder: Path, bases: Mapping[str, str]) -> None:
        self.bases = bases
        self._program = program("buildah", "buildah (scripts/setup release does)")
        self._folder = folder
        self._roots = ["--root", str(folder / "store"), "--runroot", str(folder / "run")]
        self.stand_ins: list[str] = []
        """Base images that no registry gave, and what stands for them."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.call("rm", "--all")  # unmounts them, too

    def call(self, *arguments: str | Path, timeout_s: float = 1800) -> str:
        """Call buildah; raises NotReleasedError where it fails."""
        return run([self._program, *self._roots, *arguments], env=self.environment(), timeout_s=timeout_s)

    def prepare_bases(self) -> str:
        """Have the base images of the Containerfiles; returns which are the registry's and which stand-ins."""
        for word in ("debian", "python", "uv"):  # python's stand-in is made of debian
            self.prepare(word)
        if not self.stand_ins:
            return "base images are the registry's"
        return f"no registry answered; {'; '.join(self.stand_ins)}"

    def prepare(self, word: str) -> None:
        """Have one base image: the registry's, or else a stand-in."""
        name = self.bases[word]
        make = {"debian": self._make_debian, "python": self._make_python, "uv": self._make_uv}[word]
        try:
            self.call("pull", "--quiet", name, timeout_s=300)
        except NotReleasedError:
            self.stand_ins.append(f"{name} by {make()}")

    def _make_debian(self) -> str:
        archive = self._folder / "debian.tar"
        run([program("mmdebstrap", "mmdebstrap"), "--quiet", "--variant=minbase", "bookworm", archive])
        self._from_text(self.bases["debian"], f"FROM scratch\nADD {archive.name} /\n")
        archive.unlink()
        return "Debian 12 made by mmdebstrap"

    def _make_python(self) -> str:
        self._from_text(self.bases["python"], _PYTHON.format(debian=self.bases["debian"]))
        return "Debian's own Python 3.11"

    def _make_uv(self) -> str:
        copied = self._folder / "uv"
        copied.write_bytes(Path(program("uv", "uv")).resolve().read_bytes())
        copied.chmod(0o755)
        self._from_text(self.bases["uv"], "FROM scratch\nCOPY uv /uv\n")
        return "the uv of this machine"

    def _from_text(self, name: str, text: str) -> None:
        file = self._folder / "Containerfile"
        file.write_text(text)
        self.call("build", "--quiet", "--pull-never", "--file", file, "--tag", name, self._folder)

    def build(self, source: Path, file: str, name: str, *, target: str | None = None) -> None:
        """Build an image by a Containerfile of the source; `target` ends at this stage."""
        stage = ["--target", target] if target else []
        options = ["--quiet", "--layers", "--pull-never", "--file", source / file, *stage]
        authorities = os.environ.get("SSL_CERT_FILE")
        if authorities:
            options += [
                "--volume",
                f"{authorities}:/authorities.pem:ro",
                "--build-arg",
                "SSL_CERT_FILE=/authorities.pem",
            ]
        self.call("build", *options, "--tag", name, source)

    def config(self, image: str) -> dict[str, object]:
        """The configuration of an image: `Entrypoint`, `User`, `Env`, ..."""
        found: dict[str, object] = json.loads(self.call("inspect", "--type", "image", image))["OCIv1"]["config"]
        return found

    def save(self, image: str, file: Path) -> None:
        """Write an image as an OCI archive."""
        self.call("push", "--quiet", image, f"oci-archive:{file}:{image}")

    def command(self, container: str, command: Sequence[str], options: Sequence[str] = ()) -> list[str]:
        """The command of the host that runs one in a container."""
        return [self._program, *self._roots, "run", *options, container, "--", *command]

    def environment(self) -> dict[str, str]:
        """The variables of buildah. STORAGE_DRIVER=vfs is for machines where overlay is refused."""
        driver = {name: value for name, value in os.environ.items() if name == "STORAGE_DRIVER"}
        return clean_environment() | {"BUILDAH_ISOLATION": "chroot"} | driver

    def root(self, image: str, *options: str) -> CleanRoot:
        """A container of an image, made with options of `buildah from`; it goes at the end of the `with`."""
        return CleanRoot(self, image, options)


class CleanRoot(AbstractContextManager["CleanRoot"]):
    """A container: run commands in it, copy into it, list its files."""

    def __init__(self, buildah: Buildah, image: str, options: Sequence[str] = ()) -> None:
        self._buildah, self.name = buildah, buildah.call("from", "--pull-never", *options, image).strip()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._buildah.call("rm", self.name)

    def copy(self, file: Path, place: str) -> None:
        """Copy a file of the host to a path."""
        self._buildah.call("copy", "--quiet", self.name, file, place)

    def run(self, *command: str, mounts: Sequence[Path] = (), codes: Sequence[int] = (0,)) -> str:
        """What a command prints; `mounts` are folders of the host that it sees under the same path."""
        options = [part for folder in mounts for part in ("--volume", f"{folder}:{folder}")]
        return run(self._buildah.command(self.name, command, options), env=self._buildah.environment(), codes=codes)

    @property
    def place(self) -> Path:
        """Where the host sees its files: buildah can lose what a short command prints."""
        return Path(self._buildah.call("mount", self.name).strip())

    def files(self) -> set[str]:
        """All paths."""
        place = self.place
        return {f"/{path.relative_to(place)}" for path in place.rglob("*")}

    def said(self, *command: str) -> str:
        """What a command writes to its standard output, kept in a file of the root."""
        self.run("sh", "-c", '"$@" > /said', "sh", *command)
        return (self.place / "said").read_text("utf-8")

    def debian(self, *arguments: str) -> str:
        """What `dpkg-query` says of the packages in it."""
        return run([program("dpkg-query", "dpkg"), f"--admindir={self.place}/var/lib/dpkg", *arguments])
