"""The commands of docs/how-to/contribute-data.md, as they stand there but for fewer rows and for ports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from osml.lab.trials.children import Children, free_port, wait_until
from tests.kit.pages import ROOT, commands_of
from tests.kit.twin_records import managed, write

pytest.importorskip("osml_training")
THIS = "tests/training/data/test_page.py"
OSML = str(Path(sys.executable).with_name("osml"))
BLOCKS = commands_of(ROOT / "docs/how-to/contribute-data.md", THIS)


def bash(folder: Path, commands: list[str], timeout_s: float = 170) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(commands)], cwd=folder, env=os.environ | {"PATH": path},
        capture_output=True, text=True, check=False, timeout=timeout_s,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def collected(folder: Path, rows: int = 3000) -> list[str]:
    """The first block, up to the package in `out`; simulated, with about so many rows. Returns what was left out."""
    block = BLOCKS[0]
    assert "--rows 1000000" in block.text
    commands = [line.replace("--rows 1000000", f"--rows {rows}") for line in block.commands]
    packed = next(number for number, line in enumerate(commands) if " contribute " in line)
    bash(folder, commands[: packed + 1])
    return commands[packed + 1 :]


def test_collect_label_validate_contribute_and_check_the_sums(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("of the checkout")
    said = bash(tmp_path, collected(tmp_path))
    assert (tmp_path / "README.md").read_text() == "of the checkout"
    assert said.count(": OK") >= 4
    assert "FAILED" not in said


def test_a_record_becomes_traces(tmp_path: Path) -> None:
    collected(tmp_path, 300)  # who follows the page has this in another folder
    write(managed(60), tmp_path / "FILE")
    [block] = [one for one in BLOCKS if "--live FILE" in one.text]
    [command] = block.commands
    # Its second file is what `osml run live` writes; here the record alone, from a virtual node, and it says so.
    said = bash(tmp_path, [command.replace(" --live traces.parquet", "").replace("--here", "--simulated")])
    assert re.search(r"\d+ rows", said)
    assert list((tmp_path / "out/live").rglob("*.parquet"))


def fetched(folder: Path, rows: int) -> str:
    """What others handed in is fetched into `out/fetched` of a folder; returns the command that trains on it."""
    collected(folder, rows)
    port, shelf = free_port(), folder / "shelf"
    url = f"http://127.0.0.1:{port}"
    with Children(folder / "logs") as children:
        server = children.start(
            "server", [OSML, "serve", "--port", str(port), "--store", "none", "--datasets", str(shelf)]
        )
        wait_until(lambda: _ready(url), "the server", [server], 60)
        bash(folder, [f"osml learn data contribute out/data --name my-xeon --server {url} --wait"])
        [block] = [one for one in BLOCKS if "learn data fetch" in one.text]
        listing, fetch, train = (line.replace("http://HOST:8080", url) for line in block.commands)
        assert "my-xeon" in bash(folder, [f"COLUMNS=200 {listing}"])
        bash(folder, [fetch])
    return train


def test_others_list_and_fetch(tmp_path: Path) -> None:
    fetched(tmp_path, 3000)
    assert (tmp_path / "out/fetched/dataset.json").exists()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_others_train_on_what_they_fetched(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    train = fetched(tmp_path, 300_000)  # fewer have no services beside others, which A' learns from
    bash(tmp_path, [f"{train} --epochs 2"], 1000)
    assert list((tmp_path / "out/models").glob("a2-*/model.onnx"))


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=1).is_success
    except httpx.HTTPError:
        return False
