"""Who slows the services now: the twin's blame for the end of a record."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from osml.base.failure import InputError
from osml.decide.outlook import load_outlook
from osml.domain import Latency, Observation, Partition, Region, Service
from osml.twin.advice.now import blame_now
from osml.twin.document import save
from osml.twin.make import made
from tests.kit.twin_records import watched


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("twins") / f"{watched().node}.json"
    save(made(watched(), seed=0), place)
    return place


def last(count: int) -> list[Observation]:
    return [line.observation for line in watched().lines[-count:]]


def test_who_is_late_is_blamed_for_what_it_suffers_and_the_parts_add_up(file: Path) -> None:
    found = blame_now(file, last(40))
    assert found.node == watched().node
    assert found.reason is None
    assert found.intervals >= 5
    late = {one.name for line in last(40) for one in line.services if one.slack is not None and one.slack < 0}
    assert {one.name for one in found.services} == late == {"service-2"}
    [one] = found.services
    assert one.words.endswith(".")
    assert sum(cause.ms for cause in one.causes) == pytest.approx(one.suffers_ms, rel=1e-3)
    assert blame_now(file, last(40)) == found  # the same question, the same answer


def test_nobody_is_asked_about_who_is_far_from_its_target(file: Path) -> None:
    quick = [replace(line, services=[one for one in line.services if one.name != "service-2"]) for line in last(20)]
    found = blame_now(file, quick)
    assert (found.services, found.reason) == ([], "no service is above 80% of its target")


def _changed(count: int, at: range, **fields: object) -> list[Observation]:
    """The last intervals, in some of which the latency of the service that is late has these fields."""
    seen = last(count)
    for place in at:
        services = [
            replace(one, latency=replace(one.latency, **fields)) if one.name == "service-2" and one.latency else one
            for one in seen[place].services
        ]
        seen[place] = replace(seen[place], services=services)
    return seen


def test_who_is_late_without_a_count_of_its_requests_is_named(file: Path) -> None:
    found = blame_now(file, _changed(40, range(40), requests_per_s=None))
    assert found.services == []
    assert found.reason is not None
    assert "service-2 is near or above its target; why can't be told, for its requests are not counted" in found.reason


def test_who_is_late_and_was_measured_too_seldom_is_named(file: Path) -> None:
    found = blame_now(file, _changed(40, range(38), p99_ms=None))
    assert "service-2" not in {one.name for one in found.services}
    assert found.reason == "service-2 is near or above its target; why can't be told, for it was measured too seldom"


def test_a_new_allocation_is_too_new_to_say_anything(file: Path) -> None:
    seen = last(20)
    found = blame_now(file, [*seen[:-1], replace(seen[-1], services=seen[-1].services[1:])])
    assert found.services == []
    assert "ask again" in (found.reason or "")


def test_a_twin_that_does_not_know_a_service_says_what_to_do(file: Path) -> None:
    seen = last(10)
    stranger = replace(seen[-1].services[0], name="stranger")
    changed = [replace(one, services=[*one.services, stranger]) for one in seen]
    with pytest.raises(InputError, match="does not know 'stranger'; fit it to a newer record"):
        blame_now(file, changed)


def test_who_is_a_service_now_and_a_job_of_the_twin_is_named(file: Path) -> None:
    changed = [
        replace(line, services=[replace(one, kind="lc", target_ms=5.0) if one.kind == "be" else one
                                for one in line.services]) for line in last(10)
    ]  # fmt: skip
    with pytest.raises(InputError, match="'job-1' has class lc in the observation and be in the twin"):
        blame_now(file, changed)


def test_a_twin_of_another_machine_is_refused(file: Path) -> None:
    changed = [replace(one, platform=replace(one.platform, cpus="0-3")) for one in last(10)]
    with pytest.raises(InputError, match="the observation has 0-3 and"):
        blame_now(file, changed)


def test_a_twin_of_another_node_is_refused(file: Path) -> None:
    with pytest.raises(InputError, match=r"is of node 'other', the twin of '.*'; give a twin of the same node"):
        blame_now(file, [replace(one, node="other") for one in last(10)])


def test_the_targets_are_those_of_now(file: Path) -> None:
    """Twice as strict: who met its target misses it, and its E_S is that of the target of now."""
    strict = [
        replace(line, services=[replace(one, target_ms=0.5 * one.target_ms) if one.target_ms else one
                                for one in line.services]) for line in last(40)
    ]  # fmt: skip
    before, found = blame_now(file, last(40)), blame_now(file, strict)
    assert {one.name for one in before.services} < {one.name for one in found.services}
    targets = {one.name: one.target_ms for one in strict[-1].services}
    lc = sum(one.kind == "lc" for one in strict[-1].services)
    for one in found.services:
        target = targets[one.name]
        assert target is not None
        due = 0.8 / lc * max(0.0, 1.0 - target / one.measured_ms)
        assert sum(cause.e_s for cause in one.causes) == pytest.approx(due, abs=1e-3)


def test_the_e_s_of_a_node_is_that_of_who_was_measured(file: Path) -> None:
    """Nobody asks the other services, and nobody knows what the job does alone: they have no part in E_S."""
    seen = [
        replace(line, services=[_silent(one) if one.name != "service-2" else one for one in line.services])
        for line in last(40)
    ]
    [found] = blame_now(file, seen).services
    due = 1.0 - (seen[-1].services[1].target_ms or 0.0) / found.measured_ms
    assert due > 0.0
    assert sum(cause.e_s for cause in found.causes) == pytest.approx(due, abs=1e-3)


def _silent(one: Service) -> Service:
    latency = Latency(requests_per_s=0.0) if one.kind == "lc" else None
    return replace(one, latency=latency, ipc_solo=None, work_rate_solo=None)


def test_a_node_without_a_twin_is_said(file: Path) -> None:
    outlook = load_outlook("twin", file.parent)
    with pytest.raises(InputError, match="there is no twin of node 'other'"):
        outlook.blame([replace(one, node="other") for one in last(10)])


def test_a_node_with_services_in_several_cache_domains_is_refused(file: Path) -> None:
    seen = last(10)
    placed = Partition([Region(["service-1"], 2, 2, 0), Region(["service-2"], 2, 2, 1)])
    with pytest.raises(InputError, match=r"several cache domains .* a twin knows one cache"):
        blame_now(file, [*seen[:-1], replace(seen[-1], partition=placed)])


def test_intervals_before_a_silence_do_not_count(file: Path) -> None:
    seen = last(20)
    late = [replace(one, seq=one.seq + 100, time_s=one.time_s + 100) for one in seen[10:]]
    assert blame_now(file, [*seen[:10], *late]).intervals < blame_now(file, seen).intervals
    assert blame_now(file, [*seen[:10], *late]) == blame_now(file, late)
