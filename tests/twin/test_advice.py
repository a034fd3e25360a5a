"""The answer to whether a machine needs partitioning follows from blame and levers, and says when it can't be told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from osml.base.brief_number import brief
from osml.domain import CacheDomain, Host, Service
from osml.records import Line, Record
from osml.twin.advice.advise import Advice, answer, verdict
from osml.twin.advice.blame import Blame, Cause, blamed, worst_scene
from osml.twin.advice.levers import Lever
from osml.twin.advice.now import _found
from osml.twin.advice.page import page
from osml.twin.advice.untold import Untold, untold_of
from osml.twin.make import made
from osml.twin.scenes import scenes_of
from osml.twin.targets import Target, targets_of
from tests.kit.twin_records import watched

_CAUSE = Cause("batch", "cache", 4.0, 0.1, 0.9)
_BLAME = Blame("redis", 10.0, 10.0, 8.0, 12.0, 5.0, 5.0, 0.1, (_CAUSE,), explained=True)
_CAT = Lever("own cache ways (CAT)", 4.0, 2.0, 6.0, 6.0, 0.9, available=True)
_AWAY = Lever("move batch away", 5.0, 4.0, 6.0, 5.0, None, available=True)


def _advice(
    *levers: Lever, blame: Blame = _BLAME, missed: float = 0.3, target_ms: float = 8.0
) -> tuple[bool | None, list[str]]:
    return answer([Advice(blame, levers, target_ms, "p99", missed, missed)])


def test_a_sure_lever_that_divides_the_machine_is_a_yes() -> None:
    needed, said = _advice(_CAT, _AWAY)
    assert needed is True
    assert "batch costs it 4 ms through the cache." in said
    assert any("The target is then met." in text for text in said)


def test_a_short_record_with_one_miss_is_no_yes_and_the_lever_did_not_meet_the_target() -> None:
    met = replace(_BLAME, measured_ms=4.0, predicted_ms=4.0)
    lever = replace(_CAT, gain=1.0, low=0.5, high=1.5, after_ms=3.0)
    needed, said = answer([Advice(met, (lever,), 5.0, "p99", 1 / 12, 1 / 12, Target(12, 12, 1))])
    assert needed is None
    assert verdict(needed, []) == "It can't be told for sure from this record."
    assert "That can't be told for sure: redis was measured in 12 intervals, expected at least 300." in said
    assert any(text.startswith("Partitioning may help: own cache ways") for text in said)
    assert any("The target is met in most intervals without it, too: 1 of 12 missed it." in text for text in said)
    assert not any("then met" in text for text in said)
    long = Target(300, 300, 25)
    needed, said = answer([Advice(met, (lever,), 5.0, "p99", 1 / 12, 1 / 12, long)])
    assert needed is True
    assert any("without it, too: 25 of 300 missed it." in text for text in said)


def test_a_lever_whose_bounds_hold_no_change_is_neither_yes_nor_no() -> None:
    needed, said = _advice(replace(_CAT, low=-1.0), _AWAY)
    assert needed is None
    assert any("not sure" in text for text in said)
    assert any("Sure to help it: move batch away" in text for text in said)


def test_its_own_limit_is_a_no_and_no_neighbour_is_named() -> None:
    own = replace(_BLAME, causes=(Cause("redis", "own limit", 4.0, 0.1, 1.0),))
    needed, said = _advice(replace(_CAT, gain=0.1, low=-0.1), blame=own)
    assert needed is False
    assert "batch" not in " ".join(said)


def test_a_neighbour_is_named_where_only_the_resource_cannot_be_told() -> None:
    spread = tuple(Cause("batch", resource, 1.5, 0.03, 1.0) for resource in ("cpu", "cache", "memory bandwidth"))
    _, said = _advice(_CAT, blame=replace(_BLAME, causes=spread))
    assert "batch costs it 4.5 ms; through CPUs, cache or memory bandwidth, that can't be told." in said
    unsure = tuple(replace(cause, confidence=0.2) for cause in spread)
    _, said = _advice(_CAT, blame=replace(_BLAME, causes=unsure))
    assert not any("batch" in text for text in said)


def test_a_lever_of_the_cache_is_not_sure_where_nobody_measured_the_need_of_it() -> None:
    guessed = replace(_BLAME, causes=(replace(_CAUSE, confidence=None),))
    needed, said = _advice(_CAT, _AWAY, blame=guessed)
    assert needed is None
    assert any("not sure: own cache ways" in text for text in said)
    cpus = replace(_CAT, lever="own CPUs")
    assert _advice(_CAT, cpus, blame=guessed)[0] is True


def test_a_lever_that_the_machine_does_not_have_is_no_yes() -> None:
    absent = replace(_CAT, available=False)
    found = [Advice(_BLAME, (absent, _AWAY), 8.0, "p99", 0.3, 0.3)]
    needed, said = answer(found)
    assert needed is False
    assert any(text.startswith("Partitioning would help redis, but this machine has no CAT: own") for text in said)
    assert any("Sure to help it: move batch away" in text for text in said)
    assert verdict(needed, found) == "No, this machine does not have the partitioning that could help."


def test_a_lever_that_the_machine_does_not_have_is_no_hope_and_not_sure_to_help() -> None:
    needed, said = _advice(replace(_CAT, low=-1.0, available=False))
    assert needed is False
    assert any(text.startswith("Partitioning may help redis, but this machine has no CAT: own") for text in said)
    mba = replace(_CAT, lever="less memory bandwidth for jobs (MBA)", available=False)
    needed, said = _advice(mba, replace(_CAT, low=-1.0))
    assert needed is None
    assert not any("Sure to help" in text for text in said)
    cpus = replace(_CAT, lever="own CPUs", gain=1.0, low=0.5)
    assert _advice(mba, cpus)[0] is True


def test_levers_of_the_cache_are_not_sure_where_there_are_several_caches() -> None:
    found = [Advice(_BLAME, (_CAT,), 8.0, "p99", 0.3, 0.3, caches=2)]
    needed, said = answer(found)
    assert needed is None
    assert any("not sure: own cache ways" in text for text in said)


def test_of_a_machine_with_several_caches_a_twin_says_that_it_has_one() -> None:
    halves = [CacheDomain(0, "0-17"), CacheDomain(1, "18-35")]
    lines = [
        Line(structs.replace(seen, platform=structs.replace(seen.platform, domains=halves)), line.decision)
        for line in watched().lines
        for seen in [line.observation]
    ]
    twin = made(Record(lines), seed=1, members=16)
    assert sum("this machine has 2 last-level caches, the twin has one" in text for text in twin.unknown) == 1
    single = made(watched(), seed=1, members=16)
    assert not any("last-level caches" in text for text in single.unknown)
    of_both = [
        blamed(
            known.ensemble,
            worst_scene(known.scenes, known.ensemble, "service-2"),
            "service-2",
            (-9.0, 0.0, 9.0),
            members=1,
        )
        for known in (twin, single)
    ]
    several, one = ({cause.resource: cause.confidence for cause in blame.causes} for blame in of_both)
    assert "cache" in several
    assert several["cache"] is None
    assert one["cache"] is not None


def test_who_meets_its_target_needs_nothing() -> None:
    needed, said = _advice(_CAT, missed=0.0, target_ms=20.0)
    assert needed is False
    assert said == ["No service misses its target in more than 1 % of the intervals."]


def test_what_the_twin_does_not_explain_is_not_answered() -> None:
    needed, said = _advice(_CAT, blame=replace(_BLAME, explained=False))
    assert needed is None
    assert any("does not explain" in text for text in said)


def test_without_a_service_nothing_can_be_told() -> None:
    assert answer([])[0] is None
    assert verdict(None, []).startswith("It can't be told")


@pytest.mark.parametrize("needed", [True, False, None])
def test_the_page_shows_names_as_text(needed: bool | None) -> None:
    shown = page({
        "node": "<b>n</b>", "platform": "p", "watched": True, "intervals": 3, "needs_partitioning": needed,
        "verdict": "x", "answer": ["<script>alert(1)</script>"], "services": [], "unknown": ["a & b"],
    })  # fmt: skip
    assert "<script" not in shown
    assert "&lt;b&gt;n" in shown
    assert "a &amp; b" in shown


def test_misses_count_over_all_lines_also_where_the_hypervisor_took_time() -> None:
    """A third of the intervals is robbed of CPU time, and in them a service is late; a twin is fitted to the others."""
    record = _late_where_robbed()
    counts = targets_of(record)
    assert counts["service-2"].share == pytest.approx(1 / 3, abs=0.02)
    assert counts["service-2"].robbed == counts["service-2"].missed == 40
    assert counts["service-1"].missed == 0
    assert all(scene.missed["service-2"] == 0 for scene in scenes_of(record))
    blame = replace(_BLAME, service="service-2")
    found = [Advice(blame, (_CAT,), 20.0, "p99", counts["service-2"].share, 0.0, counts["service-2"])]
    needed, said = answer(found)
    assert verdict(needed, found) == "No, partitioning would hardly help: something else is the cause."
    assert said == [
        "service-2 misses its target in 34% of the intervals.",
        "service-2 meets its target in nearly all intervals that the twin was fitted to.",
        "In 100% of those that it misses the hypervisor took CPU time.",
    ]


def _late_where_robbed() -> Record:
    lines: list[Line] = []
    for at, line in enumerate(watched().lines):
        robbed = at % 30 >= 20
        services = [_with(one, 3.0, 8.0 if robbed and one.name == "service-2" else 1.0)
                    for one in line.observation.services]  # fmt: skip
        seen = structs.replace(line.observation, services=services, host=Host(steal=0.3 if robbed else 0.0))
        lines.append(Line(seen, line.decision))
    return Record(lines)


def _with(service: Service, easier: float, slower: float) -> Service:
    if service.kind == "be" or service.target_ms is None or service.latency is None:
        return service
    times = {name: getattr(service.latency, name) for name in ("mean_ms", "p50_ms", "p95_ms", "p99_ms")}
    slow = {name: ms * slower for name, ms in times.items() if ms is not None}
    return structs.replace(
        service, target_ms=easier * service.target_ms, latency=structs.replace(service.latency, **slow)
    )


def test_a_service_that_was_never_measured_is_named_and_its_target_is_not_said_to_be_met() -> None:
    met = [Advice(_BLAME, (_CAT,), 20.0, "p99", 0.0, 0.0)]
    needed, said = answer(met, [Untold("web", Target(60, 0, 0))])
    assert needed is None
    assert "web was never measured, so whether it meets its target can't be told." in said
    assert "No other service misses its target in more than 1 % of the intervals." in said


def test_who_has_no_settled_intervals_is_still_said_to_miss_its_target() -> None:
    needed, said = answer([], [Untold("web", Target(60, 50, 25))])
    assert needed is None
    assert "web misses its target in 50% of the 50 intervals in which it was measured." in said
    assert answer([Advice(_BLAME, (), 20.0, "p99", 0.0, 0.0)], [Untold("web", Target(60, 60, 0))])[0] is False


def _uncounted(service: Service) -> Service:
    latency = None if service.latency is None else structs.replace(service.latency, requests_per_s=None)
    return structs.replace(service, target_ms=1e-3, latency=latency)


def test_a_service_whose_requests_nobody_counts_is_not_taken_as_idle() -> None:
    """Its latency source tells latencies alone; the others are counted."""
    lines = [
        Line(
            structs.replace(
                line.observation,
                services=[_uncounted(one) if one.name == "service-1" else one for one in line.observation.services],
            ),
            line.decision,
        )
        for line in watched().lines
    ]
    twin = made(Record(lines), seed=1, members=16)
    assert worst_scene(twin.scenes, twin.ensemble, "service-1") is None
    assert "service-1: nothing can be learned of it, its requests were not counted" in twin.unknown
    untold = {one.name: one.words for one in untold_of(twin, {"service-2", "service-3"})}
    assert (
        "What service-1 suffers from can't be told from a record without a count of its requests."
        in (untold["service-1"])
    )
    assert all(one.service != "service-1" for one in _found(twin, twin.scenes[-1], lines[-1].observation))


def test_a_twin_of_an_older_version_does_not_say_that_all_targets_are_met() -> None:
    needed, said = answer([Advice(_BLAME, (_CAT,), 20.0, "p99", 0.0, 0.0)], counted=False)
    assert needed is None
    assert said == [
        "An older version fitted this twin, so all shares are of the intervals that it was fitted to; "
        "fit the twin again to count all."
    ]


def test_without_targets_nothing_is_needed_and_the_page_is_written() -> None:
    assert answer([Advice(_BLAME, (_CAT,), None, "p99", None, 0.0)]) == (
        None, ["It can't be told: no service has a target."],
    )  # fmt: skip


def test_latencies_of_a_second_and_more_are_whole_numbers() -> None:
    """Who misses has the large numbers, and 1.23e+03 ms is hard to read."""
    slow = replace(_BLAME, measured_ms=1234.6, suffers_ms=1234.6, causes=(replace(_CAUSE, ms=1234.6),))
    _, said = _advice(replace(_CAT, gain=1234.6, low=1000.0, high=60000.0), blame=slow, target_ms=1000.0)
    assert "batch costs it 1,235 ms through the cache." in said
    assert any("1,235 ms less (90 % bounds 1,000 to 60,000)" in text for text in said)
    assert [brief(value) for value in (0.01234, 12.34, 999.4, 999.6, -1234.6)] == [
        "0.0123", "12.3", "999", "1,000", "-1,235",
    ]  # fmt: skip
    assert [brief(value, "+") for value in (1.234, 1234.6)] == ["+1.23", "+1,235"]
