"""The whole way, in processes."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from osml.domain import Experience
from osml.lab.trials.children import free_port

OSML = [sys.executable, "-c", "from osml.cli.main import main; main()"]

PLATFORM = "e5-2697v4"
CHAMPION = "c-test"


def run(*arguments: str) -> dict[str, Any]:
    """A command's `--json` document."""
    done = subprocess.run([*OSML, *arguments, "--json"], capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def server(models: Path, tmp_path: Path) -> Iterator[str]:
    """`osml run serve` on these models, with a store of its own; its address."""
    port = free_port()
    url, log = f"http://127.0.0.1:{port}", tmp_path / "server.log"
    flags = ["--port", str(port), "--models", str(models), "--models-poll-s", "0.1", "--drain-s", "0"]
    with log.open("wb") as stream:
        process = subprocess.Popen([*OSML, "serve", *flags, "--store", f"sqlite:///{tmp_path}/own.db"], stderr=stream)
    try:
        until(lambda: process.poll() is not None or answers(url))
        assert process.poll() is None, log.read_text()
        yield url
    finally:
        process.terminate()
        process.wait(20)


def answers(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{url}/readyz").status_code == 200
    return False


def until(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not check():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


def champion_of(url: str) -> list[str]:
    return [model["name"] for model in httpx.get(f"{url}/readyz").json()["models"]]


def test_a_running_server_gets_the_new_champion_and_the_old_one_back(
    experiences: list[Experience], models: Path, server: str, tmp_path: Path
) -> None:
    assert champion_of(server) == [CHAMPION]
    for first in range(0, len(experiences), 20):
        body = msgspec.json.encode({"experiences": experiences[first : first + 20]})
        answer = httpx.post(f"{server}/v1/experiences", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 202, answer.text
    config = tmp_path / "config.yaml"
    config.write_text("{least_blocks: 6, episodes: 32, horizon: 30, passes: 10, learning_rates: [0.0001, 0.001]}")
    flags = ["--platform", PLATFORM, "--models", str(models), "--store", f"sqlite:///{tmp_path}/own.db"]
    document = run("train", "c", "--online", *flags, "--config", str(config), "--track", "none")
    assert document["promoted"], document
    until(lambda: champion_of(server) == [document["candidate"]])
    assert run("models", "rollback", "c", "--models", str(models))["champion"] == CHAMPION
    until(lambda: champion_of(server) == [CHAMPION])


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--store", "sqlite:////nowhere/x.db"), "does not exist"),
        (("--store", "none"), "--store is 'none'"),
        (("--platform", "z80"), "no model c for platform 'z80'"),
    ],
)
def test_wrong_input_is_one_sentence(models: Path, flags: tuple[str, ...], words: str) -> None:
    given = ["--platform", PLATFORM, "--models", str(models), "--track", "none", *flags]
    done = subprocess.run(
        [*OSML, "train", "c", "--online", *given], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert words in done.stderr
