"""`make release` whole: every part is built and checked in clean roots (ten minutes; root, buildah, mmdebstrap)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HELM = shutil.which("helm", path=f"{ROOT / '.tools/bin'}:/usr/local/bin:/usr/bin:/bin")


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.skipif(os.geteuid() != 0, reason="clean roots need root")
@pytest.mark.skipif(shutil.which("buildah") is None, reason="buildah is not installed")
@pytest.mark.skipif(
    shutil.which("mmdebstrap") is None, reason="mmdebstrap is not installed; scripts/setup release does"
)
@pytest.mark.skipif(HELM is None, reason="helm is not installed")
def test_a_rehearsal_builds_and_checks_every_part(tmp_path: Path) -> None:
    out = tmp_path / "release"
    command = [sys.executable, "-m", "scripts.release", "--rehearse", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((out / "release.json").read_text())
    assert report["rehearsal"] is True
    kinds = ("*.whl", "*.tar.gz", "osml-agent_*.deb", "osml-*.tgz", "*.oci.tar", "*.cdx.json", "constraints-*.txt")
    found = {kind: len(list(out.glob(kind))) for kind in kinds}
    assert list(found.values()) == [3, 3, 1, 1, 2, 2, 1], found
    check = ["sha256sum", "--check", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=out, check=False).returncode == 0
