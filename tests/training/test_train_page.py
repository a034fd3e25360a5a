"""The commands of docs/how-to/train.md, as they stand there but for fewer rows and epochs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.pages import ROOT, commands_of

pytest.importorskip("osml_training")
pytest.importorskip("torch")
THIS = "tests/training/test_train_page.py"
ROWS = 20_000


def small(command: str) -> str:
    """A command of the page that ends in minutes."""
    command = re.sub(r"--rows \d+", f"--rows {ROWS}", command)
    command = re.sub(r"--varied \d+", "--varied 1", command)
    if re.match(r"osml learn train a2? ", command):
        command = re.sub(r"\s+#.*", "", command) + " --epochs 2"
    return command


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_collect_label_train_and_evaluate(tmp_path: Path) -> None:
    blocks = commands_of(ROOT / "docs/how-to/train.md", THIS)
    commands = [small(line) for block in blocks for line in block.commands]
    assert sum("learn train" in line for line in commands) == 3
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(commands)], cwd=tmp_path, env=os.environ | {"PATH": path},
        capture_output=True, text=True, check=False, timeout=2900,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert {model.name for model in (tmp_path / "out/models").iterdir()} >= {
        "a-masked-e5-2697v4", "a2-masked-e5-2697v4",
    }  # fmt: skip
