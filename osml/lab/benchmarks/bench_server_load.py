"""The server under load: how many nodes one core serves at 1 Hz with a 99th percentile below 10 ms, open loop.

Each node has a connection, sends at its own moment of each second whether or not others wait, and sends its experiences
every 30 s. A latency begins when the node means to send, so that what queues is counted. The server has one CPU, the
generator another.
"""
# pyright: basic

from __future__ import annotations

import asyncio
import os
import time
from typing import NamedTuple

import msgspec
import numpy as np

from osml.domain import Decision, Experience
from osml.lab.benchmarks.bench_server import ROUNDS, Connection, Node, batches, osml_server
from osml.lab.benchmarks.harness import take
from osml.lab.benchmarks.server_process import Running, two_cores

LIMIT_MS = 10.0
FIRST = 400  # nodes
STEP = 1.2
MEASURED_S = 15.0
FULL_S = 90.0  # longest time that a load may take before it counts as too much


class Load(NamedTuple):
    """What so many nodes met: 99th percentile, that of the generator's own lateness, CPU share of the server."""

    nodes: int
    p99_ms: float
    late_ms: float
    busy: float


async def _node(port: int, number: int, start_s: float, until_s: float, told: list[tuple[float, ...]]) -> None:
    """One agent, from its own moment on; the first experiences go out after a part of ROUNDS intervals."""
    connection, node = await Connection(port).open(), Node(f"node-{os.getpid()}-{time.monotonic_ns()}-{number}")
    waiting: list[Experience] = []
    due_s, left = start_s, 1 + number % ROUNDS
    while due_s < until_s:
        await asyncio.sleep(due_s - time.monotonic())
        body = msgspec.json.encode(node.observation)
        sent_s = time.monotonic()
        answer = await connection.post("/v1/decisions", body)
        told.append((due_s, sent_s - due_s, time.monotonic() - due_s))
        waiting.append(node.take(msgspec.json.decode(answer, type=Decision)))
        left -= 1
        if left == 0:
            for batch in batches(waiting):
                await connection.post("/v1/experiences", batch)
            waiting, left = [], ROUNDS
        due_s += 1.0
    connection.writer.close()


async def _nodes(running: Running, nodes: int, warm_s: float) -> Load:
    told: list[tuple[float, ...]] = []
    start_s = time.monotonic() + 2.0
    from_s, until_s = start_s + warm_s, start_s + warm_s + MEASURED_S
    agents = [asyncio.create_task(_node(running.port, n, start_s + n / nodes, until_s, told)) for n in range(nodes)]
    await asyncio.sleep(from_s - time.monotonic())
    before_s, began_s = running.cpu_s(), time.monotonic()
    await asyncio.sleep(until_s - time.monotonic())
    busy = (running.cpu_s() - before_s) / (time.monotonic() - began_s)
    _, unfinished = await asyncio.wait(agents, timeout=FULL_S)
    for agent in unfinished:
        agent.cancel()
    done = [agent for agent in agents if agent not in unfinished]
    await asyncio.gather(*done)  # a refused request is an error here
    seen = np.array([one for one in told if one[0] >= from_s])
    p99_ms = float("inf") if unfinished else float(np.percentile(seen[:, 2], 99)) * 1000
    return Load(nodes, p99_ms, float(np.percentile(seen[:, 1], 99)) * 1000, busy)


def load(running: Running, nodes: int, warm_s: float = ROUNDS) -> Load:
    """Let so many nodes ask. The warm-up is as long as the time between two batches of experiences."""
    return asyncio.run(_nodes(running, nodes, warm_s))


def most(running: Running, first: int = FIRST, warm_s: float = ROUNDS) -> Load:
    """The largest load that is served in time, in steps of STEP from `first` on; zero nodes where that is too many."""
    best = Load(0, 0.0, 0.0, 0.0)
    nodes = first
    while True:
        found = load(running, nodes, warm_s)
        print(
            f"  {nodes} nodes: p99 {found.p99_ms:.1f} ms (generator late by {found.late_ms:.1f} ms), "
            f"server busy {found.busy:.0%}",
            flush=True,
        )
        if found.p99_ms > LIMIT_MS:
            return best
        best, nodes = found, int(nodes * STEP)


def run() -> None:
    """Nodes at 1 Hz that one core serves in time."""
    with two_cores() as (cpu, _), osml_server(cpu) as running:
        nodes = most(running).nodes  # minutes, so it is not repeated
        take("server_nodes", f"nodes at 1 Hz, p99 below {LIMIT_MS:g} ms", lambda: nodes, runs=1)
