"""Blame and what-if on worlds whose truth is known."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace as replaced

from osml.base.failure import InputError
from osml.simulator import catalogs
from osml.simulator.models import JobModel
from osml.simulator.state import Node
from osml.simulator.surface import whole_node
from osml.twin import edits
from osml.twin.advice.advise import cause_in_words
from osml.twin.advice.blame import (
    OWN_LIMIT,
    Blame,
    _causes,  # pyright: ignore[reportPrivateUsage]
    _Member,  # pyright: ignore[reportPrivateUsage]
    blamed,
    worst_scene,
)
from osml.twin.advice.counterfactual import BANDWIDTH, CACHE, CPU, RESOURCES, Pressures
from osml.twin.advice.levers import PARTITIONING, _available  # pyright: ignore[reportPrivateUsage]
from osml.twin.ensemble import Ensemble
from osml.twin.scenes import Reading, Scene, Tenant
from osml.twin.whatif import bounds, weighted_quantiles
from osml.twin.world import World, outcome
from tests.kit.twin_records import watched

_RATE = 900.0


def _world(job: JobModel | None, quota: float | None = None, rate: float = _RATE) -> World:
    platform = catalogs.platform("e5-2697v4")
    node = Node(platform, (catalogs.service("moses", platform.id),), () if job is None else (job,))
    grants = dict(zip(node.names, whole_node(node), strict=True))
    grants["moses"] = replace(grants["moses"], cpu_quota=quota)
    return World(node, grants, {"moses": rate}, {"moses": "p99"})


def _stream() -> JobModel:
    return replace(catalogs.job("stream"), threads=16)


def _idle() -> JobModel:
    still = catalogs.job("stream")
    return replace(still, threads=1, memory=replace(still.memory, apki=0.01, working_set_mib=0.1))


def _blamed(
    world: World, target_ms: float = 100.0, throttled: float = 0.0, measured_ms: float | None = None, width: float = 9.0
) -> Blame:
    tenants = [Tenant("moses", "lc", target_ms, "p99", 36)]
    tenants += [Tenant(name, "be", None, "p99", 1) for name in world.jobs]
    none = catalogs.platform("e5-2697v4")
    ensemble = Ensemble(none, None, tuple(tenants), {}, {}, (), np.zeros((1, 0)))  # type: ignore[arg-type]
    seen = {"moses": {} if measured_ms is None else {"p99": Reading(math.log(measured_ms), 0.1, 9)}}
    scene = Scene((0,), tuple(world.node.names), {}, world.rates, seen, {"moses": throttled}, {})
    return blamed(ensemble, scene, "moses", (-width, 0.0, width), members=1, worlds=lambda _at: world)


def test_causes_add_up_to_what_is_suffered() -> None:
    found = _blamed(_world(_stream(), quota=8.0))
    assert found.causes
    assert sum(cause.ms for cause in found.causes) == pytest.approx(found.suffers_ms)
    assert found.predicted_ms - found.alone_ms == pytest.approx(found.suffers_ms)


def test_a_stream_is_blamed_for_cache_or_bandwidth_and_no_limit_is() -> None:
    main = _blamed(_world(_stream())).main
    assert main is not None
    assert (main.culprit, main.resource in (CACHE, BANDWIDTH)) == ("stream", True)


def test_its_own_limit_is_not_blamed_on_a_neighbour() -> None:
    main = _blamed(_world(_idle(), quota=2.6)).main
    assert main is not None
    assert (main.culprit, main.resource) == ("moses", OWN_LIMIT)


def test_who_was_throttled_by_a_limit_that_nobody_knows_blames_nobody() -> None:
    found = _blamed(_world(_stream()), throttled=0.2)
    assert found.main is None
    assert found.causes[0].culprit is None
    assert cause_in_words(found).startswith("Its own CPU limit stopped it for a part of the time")


def test_who_has_few_cpus_is_not_told_that_its_load_is_to_blame() -> None:
    """On a managed node the policy gave it so few: alone, it has no more."""
    world = _world(_idle())
    few = world.with_grant("moses", replace(world.grants["moses"], cpus=frozenset({0, 1})))
    assert "in the CPUs and ways that it has" in cause_in_words(_blamed(few))
    whole = _blamed(world, target_ms=0.5 * outcome(world)["moses"])
    assert "its own load costs it" in cause_in_words(whole)


def test_who_does_not_suffer_blames_nobody() -> None:
    assert _blamed(_world(_idle())).causes == ()
    assert _blamed(_world(_idle())).suffers_ms == 0.0


def test_the_e_s_of_who_misses_is_that_of_what_was_measured() -> None:
    """The twin is a tenth too quick and meets the target; what was measured does not."""
    world = _world(_stream())
    now = outcome(world)["moses"]
    found = _blamed(world, target_ms=1.05 * now, measured_ms=1.1 * now)
    assert found.e_s == pytest.approx(0.8 * (1.0 - 1.05 / 1.1))
    assert sum(cause.e_s for cause in found.causes) == pytest.approx(found.e_s)


@pytest.mark.parametrize("factor", [0.3, 4.0])
def test_a_twin_that_is_far_off_names_nobody_and_no_more_than_was_measured(factor: float) -> None:
    world = _world(_stream())
    measured = factor * outcome(world)["moses"]
    found = _blamed(world, measured_ms=measured, width=0.1)
    assert not found.explained
    assert [cause.culprit for cause in found.causes] == [None]
    assert 0.0 <= found.causes[0].ms == found.suffers_ms <= measured
    assert found.alone_ms <= measured


def test_no_cause_is_larger_than_what_is_suffered() -> None:
    """A member in which the service hardly suffers has no shares; one that is made quicker by somebody has more."""
    wild = _Member(2.0, 1.999, 1.999, {("a", CPU): 3.0, ("b", CPU): -2.999}, {("a", CPU): 0.0, ("b", CPU): 0.0})
    real = _Member(4.0, 2.0, 2.0, {("a", CPU): 2.2, ("b", CPU): -0.2}, {("a", CPU): 0.0, ("b", CPU): 0.0})
    causes = _causes([wild, real], 2.0, 0.0, 4.0, frozenset())
    assert [(cause.culprit, cause.ms) for cause in causes] == [("a", 2.0), ("b", 0.0)]
    assert causes[0].confidence == 0.5


def test_members_that_agree_about_an_unmeasured_memory_are_no_confidence() -> None:
    parts = {("a", BANDWIDTH): 1.5, ("a", CPU): 0.5}
    member = _Member(4.0, 2.0, 2.0, parts, dict.fromkeys(parts, 0.0))
    assert [one.confidence for one in _causes([member], 2.0, 0.0, 4.0, frozenset())] == [None, 1.0]
    assert [one.confidence for one in _causes([member], 2.0, 0.0, 4.0, frozenset("a"))] == [1.0, 1.0]
    nobody = Blame(
        "x", 4.0, 4.0, 3.0, 5.0, 2.0, 2.0, 0.0, _causes([member], 2.0, 0.0, 4.0, frozenset()), explained=True
    )
    assert nobody.main is None
    assert nobody.neighbour is None


def test_without_all_its_pressures_a_neighbour_is_not_there() -> None:
    world = _world(_stream())
    pressures = Pressures(world, "moses")
    alone = pressures.latency_ms({("stream", resource) for resource in RESOURCES})
    assert alone == pytest.approx(outcome(_world(None))["moses"])
    assert pressures.latency_ms(frozenset()) == pytest.approx(pressures.now_ms)
    for resource in RESOURCES:
        assert pressures.latency_ms({("stream", resource)}) <= pressures.now_ms * 1.01
    assert pressures.latency_ms({("stream", CPU), ("stream", CACHE)}) >= alone * 0.99


def test_removing_and_adding_a_job_gives_the_first_world_back() -> None:
    world = _world(_stream())
    gone = edits.removed("stream")(world, 0)
    back = edits.added(edits.Newcomer(lambda _member, _platform: _stream(), None))(gone, 0)
    assert outcome(back) == pytest.approx(outcome(world))
    assert outcome(gone)["moses"] < outcome(world)["moses"]


@pytest.mark.parametrize("edit", [edits.removed("nobody"), edits.quota("nobody", 1.0), edits.load("nobody", 2.0)])
def test_who_is_not_there_is_named(edit: edits.Edit) -> None:
    with pytest.raises(InputError, match="'nobody' is not on the machine; there are moses, stream"):
        edit(_world(_stream()), 0)


def test_own_ways_and_own_cpus_divide_the_machine() -> None:
    world = _world(_stream())
    apart = edits.own_ways(world, {"moses": 8.0})(world, 0)
    assert apart.grants["moses"].way_mask & apart.grants["stream"].way_mask == 0
    cpus = edits.own_cpus(world)(world, 0)
    assert not cpus.grants["moses"].cpus & cpus.grants["stream"].cpus


def test_bounds_hold_the_median_and_widen_with_the_members() -> None:
    half, low, high = bounds([0.1, 0.2, 0.3], [1.0, 1.0, 1.0])
    assert low < half < high
    narrow = bounds([0.2, 0.2, 0.2], [1.0, 1.0, 1.0])
    assert narrow[2] - narrow[1] < high - low
    assert weighted_quantiles([1.0, 2.0, 9.0], [1.0, 1.0, 1e-6], [0.5])[0] == pytest.approx(1.5, abs=0.01)


def test_a_long_scene_with_few_misses_is_not_the_worst() -> None:
    """85 intervals that all miss say more of what is wrong than 10,000 of which 90 miss."""

    def scene(intervals: int, missed: float) -> Scene:
        seen = {"moses": {"p99": Reading(0.0, 0.1, intervals)}}
        return Scene(tuple(range(intervals)), ("moses",), {}, {"moses": 100.0}, seen, {}, {"moses": missed})

    known: Any = _Known()
    long, short = scene(10_000, 0.009), scene(85, 1.0)
    assert worst_scene((long, short), known, "moses") is short
    assert worst_scene((long, scene(85, 0.0)), known, "moses") is long


class _Known:
    """What is asked of an ensemble here."""

    def tenant(self, name: str) -> Tenant:
        return Tenant(name, "lc", 1.0, "p99", None)


def test_the_lever_of_bandwidth_gives_no_job_more_than_it_has() -> None:
    world = _world(_stream())
    for now, then in ((None, 20.0), (50.0, 20.0), (10.0, 10.0)):
        throttled = world.with_grant("stream", replace(world.grants["stream"], mba_percent=now))
        assert edits.jobs_bandwidth_at_most(20.0)(throttled, 0).grants["stream"].mba_percent == then


def test_a_service_without_a_target_keeps_the_latency_of_an_even_split() -> None:
    """Without one it counted as met however slow it was, so that others got its ways."""
    world = _world(replace(_stream(), memory=replace(_stream().memory, working_set_mib=30.0)))
    ways = world.node.platform.ways
    half = (1 << ways // 2) - 1
    even = world.with_grant("moses", replace(world.grants["moses"], way_mask=half))
    even = even.with_grant("stream", replace(world.grants["stream"], way_mask=half << ways // 2))
    without = edits.own_ways(world, {})(world, 0)
    target = outcome(even)["moses"]
    assert without.grants == edits.own_ways(world, {"moses": target})(world, 0).grants


@pytest.mark.parametrize(("name", "there"), [("move MBA-sync away", True), (PARTITIONING[2], False)])
def test_a_tenant_with_the_name_of_a_mechanism_can_be_moved(name: str, there: bool) -> None:
    platform = replaced(watched().lines[0].observation.platform, mba=None)
    machine = catalogs.platform("e5-2697v4")
    assert _available(name, Ensemble(machine, platform, (), {}, {}, (), np.zeros((1, 0)))) is there
