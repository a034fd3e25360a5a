"""Which inference requests are answered at once, and which in a thread so that decisions need not wait for them."""

import asyncio

import pytest
from osml_serving.api import inference
from starlette.responses import Response


@pytest.fixture
def answered(server, monkeypatch):
    """Asks with a body of so many bytes; whether it was answered on the event loop."""
    on_loop = []

    def timed(model, body, length):
        try:
            asyncio.get_running_loop()
            on_loop.append(True)
        except RuntimeError:
            on_loop.append(False)
        return 0.0, Response(b"{}")

    monkeypatch.setattr(inference, "_find", lambda *_: None)
    monkeypatch.setattr(inference, "_timed", timed)

    def ask(size):
        assert server.client.post("/v2/models/a/infer", content=b"x" * size).status_code == 200
        return on_loop[-1]

    return ask


def test_long_bodies_are_answered_in_a_thread(answered):
    assert answered(inference.SHORT)
    assert not answered(inference.SHORT + 1)


def test_a_short_body_charges_its_token_too(server, monkeypatch):
    spent = []
    monkeypatch.setattr(server.runtime.share, "spend", lambda scope, seconds: spent.append(seconds))
    monkeypatch.setattr(inference, "_find", lambda *_: None)
    monkeypatch.setattr(inference, "_timed", lambda *_: (0.125, Response(b"{}")))
    assert server.client.post("/v2/models/a/infer", content=b"x").status_code == 200
    assert spent == [0.125]
