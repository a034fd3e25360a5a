"""A client in Rust: generated from the server's document by progenitor, compiled, and used against the server."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import httpx
import msgspec
import pytest
from osml_serving.example import EXAMPLE

from osml.domain import Decision, Experience, Observation

PROJECT = Path(__file__).with_name("rust_client")
BUILT = Path(os.environ.get("CARGO_TARGET_DIR") or Path(__file__).parents[3] / "build" / "rust-client")
DOCUMENT = BUILT / "openapi.json"


def cargo(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = ["cargo", command, "--locked", "--manifest-path", PROJECT / "Cargo.toml", *arguments]
    environment = os.environ | {"CARGO_TARGET_DIR": str(BUILT), "OSML_OPENAPI": str(DOCUMENT)}
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=False)


def keep(document: str) -> None:
    """Where cargo looks for it; as old as it is if it is the same, so that nothing is compiled again."""
    BUILT.mkdir(parents=True, exist_ok=True)
    if not DOCUMENT.exists() or DOCUMENT.read_text() != document:
        DOCUMENT.write_text(document)


@pytest.fixture
def crates() -> None:
    """What Cargo.lock names, fetched once."""
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed: install Rust 1.88 or newer (https://rustup.rs)")
    if cargo("fetch", "--offline").returncode != 0 and cargo("fetch").returncode != 0:
        pytest.skip(f"crates.io does not answer: run `cargo fetch --locked` in {PROJECT} once")


@pytest.mark.timeout(900)  # the first run compiles 120 crates
@pytest.mark.usefixtures("crates")
def test_a_rust_client_can_be_generated_compiled_and_used(start_process, tmp_path):
    server = start_process("--store", f"sqlite:///{tmp_path}/x.db")
    keep(httpx.get(f"{server.url}/openapi.json").text)
    example = tmp_path / "example.json"
    example.write_bytes(msgspec.json.encode(EXAMPLE))
    done = cargo("run", "--quiet", "--", server.url, str(example))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)

    first, second = msgspec.convert(told["decisions"], list[Decision])
    assert (first.node, first.seq, second.seq) == ("node-17", 0, 1)
    assert (told["status"], told["unknown"]) == (200, False)
    asked_again = msgspec.convert(told["asked_again"], Observation)
    assert asked_again == msgspec.structs.replace(
        EXAMPLE,
        seq=1,
        time_s=EXAMPLE.time_s + 1,
        partition=first.partition,
        assignments=first.assignments,
        policy_state=first.policy_state,
    )
    plain = httpx.post(f"{server.url}/v1/decisions", content=msgspec.json.encode(asked_again))
    again = msgspec.json.decode(plain.content, type=Decision)
    assert again.partition == second.partition
    assert again.assignments == second.assignments

    assert told["receipt"] == {"accepted": 1, "duplicates": 0}
    stored = httpx.get(f"{server.url}/v1/experiences", params={"node": "node-17"}).json()["experiences"]
    [kept] = msgspec.convert(stored, list[Experience])
    sent = [msgspec.structs.replace(part, policy_state=None) for part in (EXAMPLE, first, asked_again)]  # not stored
    assert [kept.before, kept.decision, kept.after] == sent

    refused = told["refused"]
    assert (refused["status"], refused["code"]) == (422, "invalid_observation")
    assert refused["field"] == "services[0].target_ms"
    assert refused["message"]
