"""A policy small enough to see through, servers in this process and in one of their own."""

import contextlib
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import msgspec
import pytest
from osml_serving.app import create_app
from osml_serving.decider import Decider
from osml_serving.example import EXAMPLE
from osml_serving.log import Log
from osml_serving.runtime import Runtime, make_runtime
from osml_serving.settings import load_settings
from starlette.testclient import TestClient

from osml.domain import (
    Assignment,
    Decision,
    Entropy,
    Experience,
    Latency,
    Observation,
    Outcome,
    Partition,
    Reason,
    Region,
)
from osml.policies.decide import decide as decide_really

JSON = {"content-type": "application/json"}


class Refused(Exception):  # noqa: N818 - stands in for RequestError
    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


def decide(observation: Observation, default_policy: str = "turns", seed: int = 0) -> Decision:
    """One core and way each; the spare cores go to service number `state`, which moves on with each interval."""
    policy = observation.policy or default_policy
    if policy == "broken":
        raise RuntimeError("this policy is broken")
    if policy not in ("turns", "greedy"):
        raise Refused(f"policy '{policy}' is unknown; known are greedy, turns", "policy")
    state = int(observation.policy_state or seed)
    names = [service.name for service in observation.services]
    spare = 1000 if policy == "greedy" else observation.platform.cores - len(names)
    turn = state % len(names)
    regions = [
        Region(owners=[name], cores=1 + (spare if index == turn else 0), ways=1) for index, name in enumerate(names)
    ]
    return Decision(
        node=observation.node,
        seq=observation.seq,
        policy=policy,
        partition=Partition(regions=regions),
        assignments=[Assignment(service=name, cpus=observation.platform.cpus) for name in names],
        reasons=[Reason(text=f"it is the turn of {names[turn]}", service=names[turn], resource="cores", change=1)],
        entropy=Entropy(e_lc=0.25, e_be=0.5, e_s=0.3),
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


@pytest.fixture
def serve() -> Iterator[Callable[..., InProcess]]:
    """Start a server in this process; keyword arguments are its settings."""
    with contextlib.ExitStack() as stack:

        def start(**settings: object) -> InProcess:
            log = io.BytesIO()
            decider = Decider(decide, ["turns"], Refused, "turns", 0)
            runtime = make_runtime(load_settings({"store": "none"} | settings), decider, Log("json", "debug", log))
            client = stack.enter_context(TestClient(create_app(runtime), raise_server_exceptions=False))
            return InProcess(client, runtime, log)

        yield start


@pytest.fixture
def server(serve: Callable[..., InProcess]) -> InProcess:
    return serve()


@pytest.fixture
def observation() -> Observation:
    return EXAMPLE


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """`osml serve` as an operator starts it."""

    def __init__(self, directory: Path, port: int, *flags: str) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.port = port
        self.errors = directory / f"serve-{time.monotonic_ns()}.log"
        command = [sys.executable, "-c", "from osml.cli.main import main; main()", "serve", "--port", str(port), *flags]
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


@pytest.fixture
def start_process(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Start a server process on a free port (or a given one) and wait until it is ready."""
    started: list[Process] = []

    def start(*flags: str, port: int | None = None) -> Process:
        process = Process(tmp_path, port or free_port(), "--drain-s", "0", "--store", "none", *flags)
        started.append(process)
        process.wait_ready()
        return process

    yield start
    for process in started:
        process.stop()


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """One server process for all tests of a file that do it no harm."""
    folder = tmp_path_factory.mktemp("server")
    store = f"sqlite:///{folder}/experiences.db"
    running = Process(folder, free_port(), "--drain-s", "0", "--log-format", "json", "--store", store)
    try:
        running.wait_ready()
        yield running
    finally:
        running.stop()


def experience_of(seq: int = 0, node: str = "node-17", after_ms: float = 12.0, policy: str = "arq") -> Experience:
    """One decision of a real policy, carried out, and an interval after it in which moses has this p99."""
    before = msgspec.structs.replace(EXAMPLE, node=node, seq=seq, time_s=100.0 + seq, policy=policy)
    decision: Decision = decide_really(before)
    moses = msgspec.structs.replace(before.services[0], latency=Latency(p99_ms=after_ms))
    after = msgspec.structs.replace(
        before, seq=seq + 1, time_s=101.0 + seq, partition=decision.partition, assignments=decision.assignments,
        services=[moses, *before.services[1:]], outcome=Outcome(seq=seq, status="applied"),
        policy_state=decision.policy_state,
    )  # fmt: skip
    return Experience(before=before, decision=decision, after=after)


@pytest.fixture
def make_experience() -> Callable[..., Experience]:
    """Make an experience: `seq`, `node`, `after_ms`, `policy`."""
    return experience_of


class Postgres:
    """A PostgreSQL of our own, in a scratch folder, on a socket."""

    def __init__(self, folder: Path, server: str) -> None:
        self.url = f"postgresql://osml@/postgres?host={folder}"
        self._folder = folder
        self._server = server
        self._quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
        self._user = {"user": "nobody"} if os.geteuid() == 0 else {}  # it refuses to run as root
        self._process: subprocess.Popen | None = None

    def create(self, initdb: str) -> None:
        self._folder.chmod(0o777)
        data = self._folder / "data"
        subprocess.run([initdb, "-D", data, "-U", "osml", "-A", "trust"], check=True, **self._quiet, **self._user)

    def start(self) -> None:
        options = ["-D", self._folder / "data", "-k", self._folder, "-c", "listen_addresses=", "-c", "fsync=off"]
        self._process = subprocess.Popen([self._server, *options], **self._quiet, **self._user)
        deadline = time.monotonic() + 30
        while not (self._folder / ".s.PGSQL.5432").exists():
            assert self._process.poll() is None and time.monotonic() < deadline, "PostgreSQL did not start"
            time.sleep(0.05)
        time.sleep(0.5)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # at once, whoever is connected
            self._process.wait(20)
            self._process = None


def _postgres() -> Iterator[Postgres]:
    pytest.importorskip("psycopg")
    initdb, server = shutil.which("initdb"), shutil.which("postgres")
    if initdb is None or server is None:
        pytest.skip("no PostgreSQL on this machine")
    with tempfile.TemporaryDirectory(dir="/tmp") as scratch:
        running = Postgres(Path(scratch), server)
        running.create(initdb)
        running.start()
        try:
            yield running
        finally:
            running.stop()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Address of a PostgreSQL for all tests; skips where it or its driver is missing."""
    for running in _postgres():
        yield running.url


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """A PostgreSQL that a test may stop and start."""
    yield from _postgres()
