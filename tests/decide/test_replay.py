"""A record replayed under another policy in open loop."""

from __future__ import annotations

import pytest

from osml.decide.decide import RequestError
from osml.decide.replay import replayed, shares_of
from osml.domain import Latency, Observation, Platform, Service
from osml.records import Line, Record

_PLATFORM = Platform(id="small", cores=8, cpus="0-7", ways=8)


def _record(count: int, *, late_from: int = 999, second_from: int = 0) -> Record:
    lines: list[Line] = []
    for at in range(count):
        slow = 20.0 if at >= late_from else 1.0
        names = ["redis", "nginx"] if at >= second_from else ["redis"]
        services = [
            Service(name=name, kind="lc", target_ms=5.0, latency=Latency(p99_ms=slow, requests_per_s=100.0))
            for name in names
        ]
        job = Service(name="batch", kind="be")
        lines.append(Line(Observation("one", at, 1.0 + at, 1.0, _PLATFORM, [*services, job]), None))
    return Record(lines)


def test_the_policy_goes_on_from_its_own_decisions() -> None:
    found = list(replayed(_record(60, late_from=0), "parties"))
    assert len({str(one.decided) for one in found}) > 3
    assert all(one.recorded is None for one in found)


def test_the_same_record_and_seed_give_the_same_decisions() -> None:
    one, two = (list(replayed(_record(30, late_from=10), "random", seed=5)) for _ in range(2))
    assert one == two
    assert one != list(replayed(_record(30, late_from=10), "random", seed=6))


def test_coming_and_going_gives_legal_decisions_for_who_is_there() -> None:
    found = list(replayed(_record(20, second_from=10), "arq"))
    owners = [{owner for region in one.decided.regions for owner in region.owners} for one in found]
    assert owners[5] == {"redis", "batch"}
    assert owners[15] == {"redis", "nginx", "batch"}


def test_shares_are_in_cpus() -> None:
    last = list(replayed(_record(3), "even"))[-1]
    shares = shares_of(last.decided, last.platform, ["redis", "batch"])
    assert 0 < (shares["redis"]["cpus"] or 0) <= 8
    assert shares["redis"]["ways"] is not None


def test_an_unknown_policy_is_named() -> None:
    with pytest.raises(RequestError, match="policy 'nobody' is unknown"):
        list(replayed(_record(2), "nobody"))
