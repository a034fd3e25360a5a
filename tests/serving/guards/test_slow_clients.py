"""Clients that begin a request and never end it, that send a head without end, that never read their answers."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncGenerator

import pytest
import uvicorn
from osml_serving.guards import slow_clients
from osml_serving.server import listen

BEGUN = b"GET / HTTP/1.1\r\nhost: x\r\n"


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    if scope["method"] == "POST":
        while (await receive()).get("more_body"):
            pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@contextlib.asynccontextmanager
async def serving() -> AsyncGenerator[tuple[str, int]]:
    listener = listen("127.0.0.1", 0)
    config = uvicorn.Config(app, http=slow_clients.SlowClientProtocol, loop="asyncio", lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield listener.getsockname()[:2]
    finally:
        server.should_exit = True
        await running


async def lasts_s(content: bytes, drip: bytes = b"", drips: int = 1000) -> float:
    """How long the server keeps a connection on which this is sent."""
    async with serving() as address:
        reader, writer = await asyncio.open_connection(*address)
        began = time.monotonic()
        writer.write(content)

        async def go_on():
            for _ in range(drips):
                await asyncio.sleep(0.02)
                writer.write(drip)

        dripping = asyncio.create_task(go_on() if drip else asyncio.sleep(0))
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(15):
                while await reader.read(1000):
                    pass
        dripping.cancel()
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await dripping
        writer.close()
        return time.monotonic() - began


@pytest.mark.parametrize("content", [b"", b"G", BEGUN, b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n"])
@pytest.mark.parametrize("drip", [b"", b"x"])
def test_a_head_that_never_comes_whole_is_not_waited_for(monkeypatch, content, drip):
    monkeypatch.setattr(slow_clients, "HEAD_S", 0.5)
    assert asyncio.run(lasts_s(content, drip)) < 10


def test_the_second_head_of_a_connection_is_not_waited_for_either(monkeypatch):
    monkeypatch.setattr(slow_clients, "HEAD_S", 0.5)
    assert asyncio.run(lasts_s(BEGUN + b"\r\n" + BEGUN)) < 10


@pytest.mark.parametrize("content", [BEGUN + b"a: " + b"x" * 10**6, BEGUN + b"a: b\r\n" * 10**5])
def test_a_head_without_end_is_cut_off(content):
    assert asyncio.run(lasts_s(content)) < 10  # long before HEAD_S


@pytest.mark.parametrize("before", [b"", BEGUN, BEGUN + b"\r\n"])
def test_a_whole_head_beyond_the_limit_is_no_request(before):
    long = b"a: b\r\n" * (slow_clients.MAX_HEAD // 6 + 1) + b"\r\n"

    async def answered() -> bytes:
        async with serving() as address:
            reader, writer = await asyncio.open_connection(*address)
            if before.endswith(b"\r\n\r\n"):
                writer.write(before)
                await reader.readuntil(b"ok")
            elif before:
                writer.write(before)
                await asyncio.sleep(0.05)
            writer.write(long if before == BEGUN else BEGUN + long)
            with contextlib.suppress(ConnectionError):
                return await reader.read(1000)
            return b""

    assert asyncio.run(answered()) == b""


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_the_end_of_a_head_may_come_in_two_parts_and_a_large_body_at_once(cut):
    head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 200000\r\n\r\n"

    async def answered() -> bytes:
        async with serving() as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(head[:-cut])
            await asyncio.sleep(0.05)
            writer.write(head[-cut:] + b"x" * 200_000)
            return await reader.readuntil(b"ok")

    assert asyncio.run(answered()).startswith(b"HTTP/1.1 200")


def test_a_slow_body_and_an_idle_connection_are_the_applications_matter(monkeypatch):
    monkeypatch.setattr(slow_clients, "HEAD_S", 0.2)

    async def play() -> list[bytes]:
        async with serving() as address:
            reader, writer = await asyncio.open_connection(*address)
            answers = []
            for _ in range(2):
                writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n")
                await asyncio.sleep(0.5)
                writer.write(b"x" * 100_000)
                answers.append(await reader.readuntil(b"ok"))
                await asyncio.sleep(0.5)  # idle
            writer.close()
            return answers

    assert [answer.split(b"\r\n")[0] for answer in asyncio.run(play())] == [b"HTTP/1.1 200 OK"] * 2


def test_the_rest_of_a_body_that_was_answered_already_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(slow_clients, "REST_S", 0.5)
    assert asyncio.run(lasts_s(BEGUN + b"content-length: 100000\r\n\r\n", b"x")) < 10


def test_a_body_that_comes_after_its_answer_costs_no_connection(monkeypatch):
    monkeypatch.setattr(slow_clients, "REST_S", 0.5)

    async def play() -> list[bytes]:
        async with serving() as address:
            reader, writer = await asyncio.open_connection(*address)
            answers = []
            for _ in range(2):
                writer.write(BEGUN + b"content-length: 100000\r\n\r\n")
                answers.append(await reader.readuntil(b"ok"))
                writer.write(b"x" * 100_000)
                await asyncio.sleep(1)
            writer.close()
            return answers

    assert [answer.split(b"\r\n")[0] for answer in asyncio.run(play())] == [b"HTTP/1.1 200 OK"] * 2


def test_who_never_reads_is_dropped_by_the_kernel(monkeypatch):
    monkeypatch.setattr(slow_clients, "UNREAD_S", 1.0)
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        connection.settimeout(30)
        began = time.monotonic()
        with connection, pytest.raises(OSError) as caught:
            while True:
                connection.sendall(b"x" * 2**20)
        assert caught.value.errno is not None
        assert time.monotonic() - began < 29
