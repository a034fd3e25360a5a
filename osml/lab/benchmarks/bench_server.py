"""The server: CPU time of a decision, with and without experiences, beside FastAPI and pydantic without a policy.

The server is a process of its own, with tokens, log, metrics and a store, on one CPU. Observations have four services
and the policy is `osml`. Experiences come as agents send them: in a batch every 30 intervals, or earlier where a batch
is full. How many nodes one core serves is measured by `bench_server_load`.
"""
# pyright: basic

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec

from osml.base.failure import Failure
from osml.domain import Counters, Decision, Experience, Experiences, Latency, Observation, Platform, Service
from osml.lab.benchmarks.harness import take
from osml.lab.benchmarks.server_process import READY_S, Running, started, two_cores
from osml.lab.trials.children import OSML, free_port

CONNECTIONS = 16
ROUNDS = 30  # intervals of each node: an agent sends its experiences after so many seconds
FULL = 192 * 1024  # bytes of a batch of experiences (actuator/src/experience/courier.h)
BATCH = 32
TOKEN = "bench"  # noqa: S105 - of a server that lives for a minute
PLATFORM = Platform(id="e5-2697v4", cores=36, cpus="0-35", ways=20, bandwidth_gbps=76.8, frequency_ghz=2.3)


class Node:
    """One agent: it sends back what it got."""

    def __init__(self, name: str) -> None:
        self.observation = self._observe(name, 0)

    def _observe(self, name: str, seq: int, decision: Decision | None = None) -> Observation:
        lc = [("moses", 15.0, 11.0), ("xapian", 5.0, 3.6), ("img-dnn", 5.0, 4.1)]
        services = [
            Service(n, "lc", target_ms=target, latency=Latency(p99_ms=ms + 0.1 * (seq % 7), requests_per_s=900))
            for n, target, ms in lc
        ]
        services.append(Service("stream", "be", ipc_solo=0.62, counters=Counters(ipc=0.35, cpu_usage_cores=9.0)))
        return Observation(
            node=name,
            seq=seq,
            time_s=10.0 + seq,
            interval_s=1.0,
            platform=PLATFORM,
            services=services,
            partition=None if decision is None else decision.partition,
            assignments=[] if decision is None else decision.assignments,
            policy_state=None if decision is None else decision.policy_state,
        )

    def take(self, decision: Decision) -> Experience:
        """Go on to the next interval; what came of this one."""
        before = self.observation
        self.observation = self._observe(before.node, before.seq + 1, decision)
        return Experience(before=before, decision=decision, after=self.observation)


class Connection:
    """One kept-alive connection; the least that HTTP needs."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def open(self) -> Connection:
        """Connect."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def post(self, path: str, body: bytes) -> bytes:
        """The content of the answer. Raises RuntimeError for an error."""
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", answer, re.IGNORECASE)[1])  # type: ignore[index]
        content = await self.reader.readexactly(length)
        if not answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 202")):
            raise RuntimeError(f"{path}: {answer.splitlines()[0]!r} {content[:300]!r}")
        return content


@contextlib.contextmanager
def osml_server(cpu: int) -> Generator[Running]:
    """Our server with a token, a log, metrics and a store, on one CPU."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        tokens = home / "tokens"
        tokens.write_text(f"*:{hashlib.sha256(TOKEN.encode()).hexdigest()}\n")
        tokens.chmod(0o600)
        flags = ["--token-file", str(tokens), "--store", f"sqlite:///{home}/x.db"]
        flags += ["--policies", "osml", "--log-format", "json", "--max-node-rate", "10000"]
        with _ready([*OSML, "run", "serve", *flags, "--port"], cpu, home) as ours:
            yield ours


@contextlib.contextmanager
def plain_server(cpu: int) -> Generator[Running]:
    """FastAPI and pydantic without a policy (`plain_app.py`), on one CPU."""
    command = [sys.executable, "-m", "osml.lab.benchmarks.plain_app"]
    with tempfile.TemporaryDirectory() as name, _ready(command, cpu, Path(name)) as plain:
        yield plain


@contextlib.contextmanager
def _ready(command: list[str], cpu: int, home: Path) -> Generator[Running]:
    """A server whose command ends with its port, once it is ready. Raises Failure where it does not become so."""
    port = free_port()
    with started([*command, str(port)], port, cpu, home) as running:
        deadline = time.monotonic() + READY_S
        while not _answers(port):
            if running.process.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"the server {' '.join(command[:5])} did not become ready: {running.told()}")
            time.sleep(0.1)
        yield running


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200
    except httpx.TransportError:
        return False


async def _single(port: int, experiences: bool) -> None:
    async def agent(number: int) -> None:
        connection, node = await Connection(port).open(), Node(f"node-{time.monotonic_ns()}-{number}")
        waiting: list[Experience] = []
        for _ in range(ROUNDS):
            answer = await connection.post("/v1/decisions", msgspec.json.encode(node.observation))
            waiting.append(node.take(msgspec.json.decode(answer, type=Decision)))
        for batch in batches(waiting) if experiences else ():
            await connection.post("/v1/experiences", batch)

    await asyncio.gather(*(agent(number) for number in range(CONNECTIONS)))


def batches(experiences: Sequence[Experience]) -> Iterator[bytes]:
    """Bodies of at most FULL bytes, with one experience at least."""
    waiting: list[Experience] = []
    length = 0
    for experience in experiences:
        more = len(msgspec.json.encode(experience))
        if waiting and length + more > FULL:
            yield msgspec.json.encode(Experiences(waiting))
            waiting, length = [], 0
        waiting.append(experience)
        length += more
    if waiting:
        yield msgspec.json.encode(Experiences(waiting))


async def _batches(port: int) -> None:
    connection, nodes = await Connection(port).open(), [Node(f"node-{n}") for n in range(BATCH)]
    for _ in range(ROUNDS * CONNECTIONS // BATCH):
        body = msgspec.json.encode({"observations": [node.observation for node in nodes]})
        answer = msgspec.json.decode(await connection.post("/v1/decisions:batch", body))
        for node, item in zip(nodes, answer["decisions"], strict=True):
            node.take(msgspec.convert(item["decision"], Decision))


def run() -> None:
    """CPU time of the server for a decision, with its experience and in a batch, beside FastAPI without a policy."""
    with two_cores() as (cpu, _), osml_server(cpu) as ours, plain_server(cpu) as plain:

        def sample(server: Running, work: Callable[[int], Coroutine[Any, Any, None]]) -> float:
            before_s = server.cpu_s()
            asyncio.run(work(server.port))
            return (server.cpu_s() - before_s) / (ROUNDS * CONNECTIONS) * 1e6

        def one(port: int) -> Coroutine[Any, Any, None]:
            return _single(port, experiences=False)

        def with_experiences(port: int) -> Coroutine[Any, Any, None]:
            return _single(port, experiences=True)

        cases = {"": one, "_with_experiences": with_experiences, "_in_a_batch_of_32": _batches}
        for suffix, work in cases.items():
            take(
                f"server_decision{suffix}",
                "us CPU/decision",
                lambda work=work: sample(ours, work),
                runs=5,
                peer=lambda: sample(plain, one),
                peer_name="FastAPI and pydantic without a policy",
            )
