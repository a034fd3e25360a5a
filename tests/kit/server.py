"""A policy small enough to see through, and servers with it: in this process, and in one of their own."""

import contextlib
import io
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import msgspec
import numpy as np
from osml_serving.runtime import Runtime
from starlette.testclient import TestClient

from osml.domain import Assignment, Decision, Entropy, Observation, Partition, Reason, Region, ServiceEntropy

JSON = {"content-type": "application/json"}


class Refused(Exception):  # noqa: N818 - stands in for RequestError
    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


UNSENDABLE = ("wrong-number", "wrong-type")
"""Policies whose decisions are legal, but are no JSON of the interface."""


def decide(observation: Observation, default_policy: str = "turns", seed: int = 0) -> Decision:
    """One core and way each; the spare cores go to service number `state`, which moves on with each interval."""
    policy = observation.policy or default_policy
    if policy == "broken":
        raise RuntimeError("this policy is broken")
    if policy not in ("turns", "greedy", *UNSENDABLE):
        raise Refused(f"policy '{policy}' is unknown, expected one of greedy, turns", "policy")
    state = int(observation.policy_state or seed)
    names = [service.name for service in observation.services]
    spare = observation.platform.cores - len(names)
    cpus = "0-4095" if policy == "greedy" else observation.platform.cpus
    turn = state % len(names)
    regions = [
        Region(owners=[name], cores=1 + (spare if index == turn else 0), ways=1) for index, name in enumerate(names)
    ]
    tolerance = math.nan if policy == "wrong-number" else 0.5
    entropies = [ServiceEntropy(names[turn], None, None, tolerance, 0.0)]
    change = np.int64(1) if policy == "wrong-type" else 1
    return Decision(
        node=observation.node,
        seq=observation.seq,
        policy=policy,
        partition=Partition(regions=regions),
        assignments=[Assignment(service=name, cpus=cpus) for name in names],
        reasons=[Reason(text=f"it is the turn of {names[turn]}", service=names[turn], resource="cores", change=change)],
        entropy=Entropy(e_lc=0.25, e_be=0.5, e_s=0.3, services=entropies),
        policy_state=str(state + 1),
    )


@dataclass
class InProcess:
    """A server without a socket: its client, its parts, and what it logged."""

    client: TestClient
    runtime: Runtime
    log: io.BytesIO = field(repr=False)

    def post(self, observation: Observation | bytes, **headers: str) -> httpx.Response:
        content = observation if isinstance(observation, bytes) else msgspec.json.encode(observation)
        return self.client.post("/v1/decisions", content=content, headers={**JSON, **headers})


def wait_for(condition: Callable[[], bool], timeout_s: float = 60) -> bool:
    """Whether a condition came true in time; a server that cannot be reached makes it false."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        try:
            if condition():
                return True
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    return False


class Process:
    """`osml run serve` as an operator starts it; `before` is Python that runs first."""

    def __init__(self, directory: Path, port: int, *flags: str, before: str = "") -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.port = port
        self.errors = directory / f"serve-{time.monotonic_ns()}.log"
        program = f"{before}\nfrom osml.cli.main import main; main()"
        command = [sys.executable, "-c", program, "serve", "--port", str(port), *flags]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("OSML_")}
        with self.errors.open("wb") as stream:
            self.process = subprocess.Popen(command, stderr=stream, stdout=subprocess.DEVNULL, env=environment)

    def wait_ready(self, timeout_s: float = 90) -> None:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/readyz", timeout=2).status_code == 200:
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"the server did not become ready: {self.errors.read_text()}")

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(20)
        finally:
            self.process.kill()
