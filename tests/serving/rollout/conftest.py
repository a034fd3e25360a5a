"""A server with a good policy, and one that always raises, as canaries meet them."""

import contextlib
import io
from collections.abc import Callable, Iterator

import pytest
from osml_serving.app import create_app
from osml_serving.decider import Decider
from osml_serving.log import Log
from osml_serving.runtime import make_runtime
from osml_serving.settings import load_settings
from starlette.testclient import TestClient

from tests.kit.server import UNSENDABLE, InProcess, Refused, decide


def fake_decider() -> Decider:
    """`turns` decides, `greedy` decides what is illegal, `broken` raises, and two decide what cannot be sent."""
    policies = ["turns", "greedy", "broken", *UNSENDABLE]
    return Decider(decide, policies, Refused, "turns", 0, takes_models=lambda name: name == "turns")


@pytest.fixture
def serve() -> Iterator[Callable[..., InProcess]]:
    """Start a server in this process; keyword arguments are its settings. Its warm-up passes over `broken`."""
    with contextlib.ExitStack() as stack:

        def start(**settings: object) -> InProcess:
            log = io.BytesIO()
            decider = fake_decider()
            runtime = make_runtime(load_settings({"store": "none"} | settings), decider, Log("json", "debug", log))
            runtime.readiness.warm_up = lambda _decider, _log: None  # it would withdraw what is broken
            runtime.readiness.blocked = None
            client = stack.enter_context(
                TestClient(create_app(runtime), "http://localhost", raise_server_exceptions=False)
            )
            return InProcess(client, runtime, log)

        yield start
