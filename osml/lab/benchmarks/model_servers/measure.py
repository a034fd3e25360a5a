"""One server: whether it answers as the model does, and what it takes for that when it is asked without a pause."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

import numpy as np

from osml.lab.benchmarks.bench_server import Connection
from osml.lab.benchmarks.model_servers.servers import Floats
from osml.lab.benchmarks.server_process import READY_S, Running
from osml.predictors import Predictor

TOLERANCE = 1e-5
CONNECTIONS = 4


class Sample(NamedTuple):
    """One server in one round."""

    requests_per_s: float
    cpu_us: float


class NoAnswerError(Exception):
    """A server ended, or did not answer in time."""


class WrongAnswerError(Exception):
    """A server gave something else than the model."""


def questions(predictor: Predictor, rows: int, seed: int = 0) -> Floats:
    """Rows (rows, features) from the range of each feature."""
    features = predictor.metadata.features
    low, high = (np.array([getattr(one, end) for one in features]) for end in ("low", "high"))
    return np.random.default_rng(seed).uniform(low, high, (rows, len(features))).astype(np.float32)


async def _ask(port: int, path: str, body: bytes) -> bytes:
    connection = await Connection(port).open()
    try:
        return await connection.post(path, body)
    finally:
        connection.writer.close()


def wait_ready(started: Running, path: str, body: bytes, ready_s: float = READY_S) -> bytes:
    """The answer to a question, once there is one. NoAnswerError where the server ends or takes too long."""
    deadline = time.monotonic() + ready_s
    why = "nothing listens"
    while time.monotonic() < deadline and started.process.poll() is None:
        try:
            return asyncio.run(asyncio.wait_for(_ask(started.port, path, body), 10))
        except (OSError, EOFError, RuntimeError, TimeoutError) as error:
            why = str(error) or type(error).__name__
        time.sleep(0.2)
    ended = started.process.poll()
    what = f"no answer within {ready_s:g} s ({why[:200]})" if ended is None else f"it ended with exit code {ended}"
    raise NoAnswerError(f"{what}: {started.told()}")


def check(name: str, answer: Floats, expected: Floats) -> None:
    """Raises WrongAnswerError where an answer is not that of the model within TOLERANCE."""
    if answer.shape != expected.shape or not np.allclose(answer, expected, rtol=TOLERANCE, atol=TOLERANCE):
        raise WrongAnswerError(f"{name}: the answer is not that of the model, expected it within {TOLERANCE:g}")


async def _ask_for(port: int, path: str, body: bytes, seconds: float) -> tuple[int, float]:
    """Answers, and the seconds that they took: every connection asks again as soon as it has an answer."""
    connections = [await Connection(port).open() for _ in range(CONNECTIONS)]
    began = time.perf_counter()
    deadline = began + seconds

    async def asker(connection: Connection) -> int:
        answers = 0
        while time.perf_counter() < deadline:
            await connection.post(path, body)
            answers += 1
        return answers

    answers = sum(await asyncio.gather(*(asker(connection) for connection in connections)))
    took = time.perf_counter() - began
    for connection in connections:
        connection.writer.close()
    return answers, took


def sample(started: Running, path: str, body: bytes, seconds: float) -> Sample:
    """What the server does when it is asked for so long."""
    before_s = started.cpu_s()
    answers, took_s = asyncio.run(_ask_for(started.port, path, body, seconds))
    return Sample(answers / took_s, (started.cpu_s() - before_s) / answers * 1e6)
