"""A server that was just installed: it gets ready, and answers one observation."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import httpx

from osml.lab.trials.children import free_port
from scripts.release.step import NotReleasedError, clean_environment

READY_S = 120.0


def check_server(
    command: Sequence[str],
    observation: str,
    logs: Path,
    then: Callable[[str], None] | None = None,
    *,
    token: str | None = None,
    env: Mapping[str, str] | None = None,
    port: int | None = None,
) -> str:
    """Start a server, wait until it is ready, ask for one decision, and call `then` with its address.

    `command` gets `--port PORT` at its end. Raises NotReleasedError where the server ends, is not ready within two
    minutes, or does not decide. Returns one sentence: the seconds until it was ready, and which policy answered.
    """
    port = free_port() if port is None else port
    url = f"http://127.0.0.1:{port}"
    began = time.monotonic()
    with logs.open("wb") as log:
        server = subprocess.Popen(
            [*command, "--port", str(port)],
            stdout=log,
            stderr=log,
            env=dict(env or clean_environment()),
            cwd=logs.parent,
        )
        try:
            _wait(server, url, logs)
            ready_s = time.monotonic() - began
            headers = {"authorization": f"Bearer {token}"} if token else {}
            answer = httpx.post(f"{url}/v1/decisions", content=observation, headers=headers, timeout=30)
            if answer.status_code != 200 or not answer.json().get("assignments"):
                raise NotReleasedError(
                    f"the server answered {answer.status_code} {answer.text[:300]}, expected a decision"
                )
            if then is not None:
                then(url)
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
    policy = json.loads(answer.text)["policy"]
    return f"ready after {ready_s:.1f} s, policy {policy} decided"


def _wait(server: subprocess.Popen[bytes], url: str, logs: Path) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        try:
            if httpx.get(f"{url}/readyz", timeout=2).is_success:
                return
        except httpx.HTTPError:
            pass
        if server.poll() is not None or time.monotonic() > deadline:
            said = logs.read_text("utf-8", "replace")[-1500:]
            raise NotReleasedError(f"the server did not become ready within {READY_S:.0f} s, it said:\n{said}")
        time.sleep(0.2)
