"""Addresses of other servers, and one answer out of many."""

from __future__ import annotations

import asyncio
import io
import socket
from typing import Any

import msgspec
import pytest
from osml_serving.addresses.peer import Address, addresses_of, parse
from osml_serving.api.messages import FleetEvents, NodeList
from osml_serving.log import Log
from osml_serving.peers.merge import merge_events, merge_nodes
from osml_serving.peers.peers import Peers, Told
from osml_serving.settings import load_settings
from osml_serving.view.happenings import Event
from osml_serving.view.interval import NodeSummary

from osml.base.failure import InputError


def line(node: str, at: float) -> NodeSummary:
    return NodeSummary(node, at, 1, "osml", 0.1, violations=0, services=3)


def nodes(server_time: float, *lines: NodeSummary, blame: bool = False) -> bytes:
    return msgspec.json.encode(NodeList(server_time, list(lines), blame))


def merged(*lists: bytes, silent: int = 0) -> NodeList:
    return msgspec.json.decode(merge_nodes(lists[0], lists[1:], silent, ""), type=NodeList)


def test_each_node_is_shown_once_as_it_was_seen_last() -> None:
    found = merged(nodes(100.0, line("b", 90.0), line("c", 99.0)), nodes(100.0, line("b", 95.0), line("a", 98.0)))
    assert [(one.node, one.at) for one in found.nodes] == [("a", 98.0), ("b", 95.0), ("c", 99.0)]
    assert (found.servers, found.silent) == (2, 0)


def test_a_server_whose_clock_is_ahead_does_not_look_newer() -> None:
    # There it is 1000 s later: "b" was seen 20 s ago there, and 10 s ago here.
    found = merged(nodes(100.0, line("b", 90.0)), nodes(1100.0, line("b", 1080.0), line("a", 1099.0)))
    assert [(one.node, one.at) for one in found.nodes] == [("a", 99.0), ("b", 90.0)]


def test_silent_servers_are_counted_and_one_twin_is_enough_to_blame() -> None:
    found = merged(nodes(1.0), nodes(1.0, blame=True), silent=2)
    assert (found.servers, found.silent, found.blame) == (4, 2, True)


def test_an_event_that_two_servers_tell_is_one() -> None:
    bodies = [msgspec.json.encode(FleetEvents([Event(1.0, "a", "met", text)])) for text in ("well", "well", "else")]
    told = msgspec.json.decode(merge_events(bodies[0], bodies[1:], 0, ""), type=FleetEvents).events
    assert [one.text for one in told] == ["well", "else"]


def test_events_of_all_are_in_the_order_of_their_time() -> None:
    lists = [[Event(at, name, "met", "well") for at in (3.0, 1.0)] for name in ("a", "b")]
    lists[1][0].at = 2.0
    bodies = [msgspec.json.encode(FleetEvents(one)) for one in lists]
    together = msgspec.json.decode(merge_events(bodies[0], bodies[1:], 0, ""), type=FleetEvents).events
    assert [(one.at, one.node) for one in together] == [(3.0, "a"), (2.0, "b"), (1.0, "a"), (1.0, "b")]
    for query in ("limit=2", "limit=2.0", "limit=9&limit=2"):
        two = msgspec.json.decode(merge_events(bodies[0], bodies[1:], 0, query), type=FleetEvents).events
        assert two == together[:2]


@pytest.mark.parametrize(
    "text", ["a:8080", "http://a", "http://a:0", "http://a:70000", "ftp://a:1", "http://u@a:1", ""]
)
def test_what_is_no_address_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"--peers .* expected http"):
        parse(text)


def test_the_settings_name_the_wrong_entry() -> None:
    with pytest.raises(InputError, match=r"--peers \(or OSML_PEERS\) has 'b', expected http"):
        load_settings({"peers": "http://a:1, b"})


def found(text: str) -> list[Address]:
    return asyncio.run(addresses_of(parse(text)))


def test_a_name_stands_for_all_of_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def getaddrinfo(_loop: Any, *_args: Any, **_kwargs: Any) -> Any:
        return [(0, 0, 0, "", ("10.0.0.2", 80)), (0, 0, 0, "", ("fd00::1", 80, 0, 0)), (0, 0, 0, "", ("10.0.0.2", 80))]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    told = found("dns+https://osml-servers:80")
    assert told == [Address("https://10.0.0.2:80", "osml-servers"), Address("https://[fd00::1]:80", "osml-servers")]
    assert found("https://osml-servers:80") == [Address("https://osml-servers:80")]
    assert found("unix:/run/x.sock") == [Address("http://localhost", socket="/run/x.sock")]


class Names:
    """A resolver: `known` addresses of every name, or an error; each answer takes `takes_s`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.known: list[str] | None = None
        self.takes_s = 0.0

        async def getaddrinfo(_loop: Any, _host: Any, _port: Any, **_kwargs: Any) -> Any:
            await asyncio.sleep(self.takes_s)
            if self.known is None:
                raise socket.gaierror(-2, "nobody knows this name")
            return [(0, 0, 0, "", (address, 80)) for address in self.known]

        async def told(peers: Peers, address: Address, _target: str, _authorization: object) -> Told:
            if address.host is None:
                await peers.client(address).get(address.url)  # asks the resolver again
            return Told(address, 200, b"{}")

        monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
        monkeypatch.setattr(Peers, "_told", told)
        monkeypatch.setattr("osml_serving.peers.peers.LOOK_S", 0.0)


def peers_of(text: str, log: io.BytesIO, timeout_s: float = 20.0) -> Peers:
    return Peers([parse(text)], Log("text", "info", log), timeout_s)


async def asked(peers: Peers) -> list[tuple[str, bool]]:
    """Who was asked, and who answered."""
    found = await peers.ask("/v1/nodes", None)
    peers.note(found)
    return [(one.address.url, one.fault is None) for one in found]


def test_a_name_that_nobody_knows_is_a_silent_server(monkeypatch: pytest.MonkeyPatch) -> None:
    names, log = Names(monkeypatch), io.BytesIO()

    async def scenario() -> None:
        peers = peers_of("dns+http://nowhere:80", log)
        for _ in range(2):
            assert await asked(peers) == [("http://nowhere:80", False)]
        names.known = ["10.0.0.2", "10.0.0.3"]
        all_answer = [("http://10.0.0.2:80", True), ("http://10.0.0.3:80", True)]
        assert await asked(peers) == all_answer
        names.known = None
        assert await asked(peers) == all_answer, "the servers of before are still there"
        await peers.close()

    asyncio.run(scenario())
    assert log.getvalue().count(b"server http://nowhere:80 does not answer: [Errno -2] nobody knows this name") == 1


def test_who_asks_during_the_first_look_at_a_name_gets_all_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    names = Names(monkeypatch)
    names.known, names.takes_s = ["10.0.0.2"], 0.2

    async def scenario() -> None:
        peers = peers_of("dns+http://servers:80", io.BytesIO())
        for found in await asyncio.gather(asked(peers), asked(peers)):
            assert found == [("http://10.0.0.2:80", True)]
        names.takes_s = 3600.0
        peers.timeout_s = 0.1
        async with asyncio.timeout(20):
            assert await asked(peers) == [("http://10.0.0.2:80", True)], "a resolver that hangs takes nobody away"
        await peers.close()

    asyncio.run(scenario())


def test_a_server_that_cannot_be_read_takes_no_other_away() -> None:
    found = merged(nodes(1.0, line("a", 1.0)), b"<html>", nodes(1.0, line("b", 1.0)))
    assert [one.node for one in found.nodes] == ["a", "b"]
    assert (found.servers, found.silent) == (3, 1)
    events = merge_events(msgspec.json.encode(FleetEvents([])), [b"7"], 0, "")
    assert msgspec.json.decode(events, type=FleetEvents).events == []
