"""Walk through a page as a newcomer does: its commands, one after the other, in a clean root of Debian 12."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from scripts.release.clean_root import Buildah, bases_of
from scripts.release.source import copy_tracked
from tests.kit.pages import ROOT, Block

READY_S = 180
MARK = "@@walk"

PRELUDE = f"""set -e
export HOME=/root DEBIAN_FRONTEND=noninteractive
cd {{checkout}}
for place in $(grep -o '/sys/fs/cgroup/[^ ]*' /proc/mounts | sort -u); do mount -o remount,bind,rw "$place"; done
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
ready() {{{{
  exec 9<>"/dev/tcp/$1/$2" && printf 'GET %s HTTP/1.0\\r\\n\\r\\n' "$3" >&9 && head -n 1 <&9 | grep -q ' 200 '
}}}} 2>/dev/null
until_ready() {{{{ for _ in $(seq {READY_S}); do if (ready "$@"); then return; fi; sleep 1; done; return 1; }}}}
"""
"""What stands for the reader: a shell that stops at the first failure, and that knows when a server is ready.

A container sees cgroups that it can't write; the machine of a reader has others, so they are made writable.
"""


class Step(NamedTuple):
    """A command of the page and the seconds until it was done."""

    command: str
    seconds: float


def script_of(blocks: Sequence[Block], checkout: Path) -> str:
    """The commands of a page as one script. It says before each command which one begins."""
    lines = [PRELUDE.format(checkout=checkout)]
    number = 0
    for block in blocks:
        for command in block.commands:
            lines.append(f"echo '{MARK}' {number}")
            number += 1
            if block.until is None:
                lines.append(command)
                continue
            host, _, rest = block.until.removeprefix("http://").partition(":")
            port, _, path = rest.partition("/")
            lines += [
                f"{command} > beside.log 2>&1 &",
                f"until_ready {host} {port} /{path} || {{ cat beside.log; exit 1; }}",
            ]
    return "\n".join([*lines, f"echo '{MARK}' {number}"]) + "\n"


def walk(blocks: Sequence[Block], folder: Path, timeout_s: float) -> tuple[list[Step], str]:
    """Run the commands in a clean root that has `make`; returns the steps with their times, and the output.

    The checkout has the tracked files only. Skips where no clean root can be made. Fails with the output of the walk
    where a command fails.
    """
    for name in ("buildah", "mmdebstrap"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed; scripts/setup release does")
    if os.geteuid() != 0:
        pytest.skip("clean roots need root")
    checkout = folder / "osml"
    copy_tracked(ROOT, checkout)
    script = script_of(blocks, checkout)
    authorities = os.environ.get("SSL_CERT_FILE")
    if authorities:  # a proxy before the package indexes has an authority of its own
        shutil.copy(authorities, folder / "authorities.pem")
        names = ("SSL_CERT_FILE", "PIP_CERT")
        script = "".join(f"export {name}={folder}/authorities.pem\n" for name in names) + script
    (folder / "walk.sh").write_text(script)
    (folder / "store").mkdir()
    with Buildah(folder / "store", bases_of(checkout)) as buildah:
        buildah.prepare("debian")
        with buildah.root(buildah.bases["debian"], "--cap-add", "all") as root:
            root.run(
                "sh", "-c", "apt-get update -qq && apt-get install -y -qq --no-install-recommends make ca-certificates"
            )
            options = [part for place in (folder, Path("/sys/fs/cgroup")) for part in ("--volume", f"{place}:{place}")]
            command = buildah.command(root.name, ["bash", str(folder / "walk.sh")], options)
            seconds, output = _timed(command, buildah.environment(), folder / "walk.log", timeout_s)
    typed = [line for block in blocks for line in block.commands]
    return [Step(*step) for step in zip(typed, seconds, strict=True)], output


def _timed(command: Sequence[str], environment: dict[str, str], log: Path, timeout_s: float) -> tuple[list[float], str]:
    began: list[float] = []
    with (
        subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
        log.open("w") as kept,
    ):
        assert process.stdout is not None
        start = time.monotonic()
        for line in process.stdout:
            kept.write(line)
            kept.flush()
            if line.startswith(MARK):
                began.append(time.monotonic())
            if time.monotonic() - start > timeout_s:
                process.kill()
    output = log.read_text()
    assert process.returncode == 0, f"command {len(began) - 1} failed:\n{output[-6000:]}"
    return [later - earlier for earlier, later in itertools.pairwise(began)], output
