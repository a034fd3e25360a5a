"""Servers for tests: in this process, and in one of their own."""

import contextlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from osml_serving.app import create_app
from osml_serving.decider import Decider
from osml_serving.example import EXAMPLE
from osml_serving.log import Log
from osml_serving.runtime import make_runtime
from osml_serving.settings import load_settings
from starlette.testclient import TestClient

from osml.domain import Observation
from osml.lab.trials.children import free_port
from tests.kit.server import InProcess, Process, Refused, decide


@pytest.fixture
def serve() -> Iterator[Callable[..., InProcess]]:
    """Start a server in this process; keyword arguments are its settings."""
    with contextlib.ExitStack() as stack:

        def start(**settings: object) -> InProcess:
            log = io.BytesIO()
            decider = Decider(decide, ["turns"], Refused, "turns", 0)
            runtime = make_runtime(load_settings({"store": "none"} | settings), decider, Log("json", "debug", log))
            client = stack.enter_context(
                TestClient(create_app(runtime), "http://localhost", raise_server_exceptions=False)
            )
            return InProcess(client, runtime, log)

        yield start


@pytest.fixture
def server(serve: Callable[..., InProcess]) -> InProcess:
    return serve()


@pytest.fixture
def observation() -> Observation:
    return EXAMPLE


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
