"""The server: CPU time of a decision, with and without experiences, and how many nodes fill a core.

The server is a process of its own, with tokens, log and metrics. Its CPU time is that of its own metrics, so a busy
machine changes it little. Observations have four services and the policy is `osml`.
"""
# pyright: basic

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec

from osml.domain import Counters, Decision, Experience, Experiences, Latency, Observation, Platform, Service
from osml.lab.benchmarks.harness import take

CONNECTIONS = 16
ROUNDS = 40  # intervals of each node
BATCH = 32
USED = 0.65  # of a core: beyond it, answers begin to wait for each other
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
def server() -> Iterator[int]:
    """A server with a token; yields its port."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        tokens = Path(folder, "tokens")
        tokens.write_text(f"*:{hashlib.sha256(TOKEN.encode()).hexdigest()}\n")
        tokens.chmod(0o600)
        program = Path(sys.executable).with_name("osml")
        flags = ["--port", str(port), "--token-file", str(tokens), "--store", f"sqlite:///{folder}/x.db"]
        flags += ["--policies", "osml", "--log-format", "json", "--max-node-rate", "10000"]
        process = subprocess.Popen([program, "run", "serve", *flags], stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                with contextlib.suppress(httpx.TransportError):
                    if httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200:
                        break
                time.sleep(0.1)
            yield port
        finally:
            process.terminate()
            process.wait(30)


def cpu_s(port: int) -> float:
    """CPU time of the server so far."""
    text = httpx.get(f"http://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).text
    return float(re.search(r"^process_cpu_seconds_total (\S+)", text, re.MULTILINE)[1])  # type: ignore[index]


async def _single(port: int, experiences: bool) -> None:
    async def agent(number: int) -> None:
        connection, node = await Connection(port).open(), Node(f"node-{time.monotonic_ns()}-{number}")
        for _ in range(ROUNDS):
            answer = await connection.post("/v1/decisions", msgspec.json.encode(node.observation))
            experience = node.take(msgspec.json.decode(answer, type=Decision))
            if experiences:
                await connection.post("/v1/experiences", msgspec.json.encode(Experiences([experience])))

    await asyncio.gather(*(agent(number) for number in range(CONNECTIONS)))


async def _batches(port: int) -> None:
    connection, nodes = await Connection(port).open(), [Node(f"node-{n}") for n in range(BATCH)]
    for _ in range(ROUNDS * CONNECTIONS // BATCH):
        body = msgspec.json.encode({"observations": [node.observation for node in nodes]})
        answer = msgspec.json.decode(await connection.post("/v1/decisions:batch", body))
        for node, item in zip(nodes, answer["decisions"], strict=True):
            node.take(msgspec.convert(item["decision"], Decision))


def run() -> None:
    """CPU time of the server for a decision, for a decision with its experience, and for a decision in a batch."""
    with server() as port:

        def sample(work) -> float:
            before_s = cpu_s(port)
            asyncio.run(work())
            return (cpu_s(port) - before_s) / (ROUNDS * CONNECTIONS) * 1e6

        cases = {
            "server_decision": lambda: _single(port, experiences=False),
            "server_decision_with_experience": lambda: _single(port, experiences=True),
            "server_decision_in_a_batch_of_32": lambda: _batches(port),
        }
        for name, work in cases.items():
            take(name, "us CPU/decision", lambda work=work: sample(work), runs=5)
            take(f"{name}_nodes", "nodes at 1 Hz", lambda work=work: USED * 1e6 / sample(work), runs=5)
