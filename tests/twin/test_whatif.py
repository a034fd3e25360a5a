"""Changes that a twin predicts: which scenes they are of, who comes, and what an edit means."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from osml.base.failure import InputError
from osml.simulator import catalogs
from osml.simulator.models import PlatformModel
from osml.simulator.state import Node
from osml.twin import edits
from osml.twin.commands.changes import mover
from osml.twin.ensemble import Ensemble
from osml.twin.fit import drawn
from osml.twin.scenes import Reading, Scene, Tenant, scenes_of
from osml.twin.whatif import Change, chosen_scenes, compared
from osml.twin.world import World
from tests.kit.twin_records import watched

PLATFORM = catalogs.platform("e5-2697v4")


def _scene(rate: float, *, first: int = 0, ms: float | None = None, present: tuple[str, ...] = ("web",)) -> Scene:
    seen = {} if ms is None else {"web": {"p99": Reading(math.log(ms), 0.1, 9)}}
    return Scene(tuple(range(first, first + 10)), present, {}, {"web": rate}, seen, {}, {})


def _compared(scenes: list[Scene], before: list[float], after: list[float]) -> Change:
    tenants = (Tenant("web", "lc", 20.0, "p99", 4),)
    none = Ensemble(PLATFORM, None, tenants, {}, {}, (), np.zeros((1, 0)))  # type: ignore[arg-type]
    [found] = compared(none, scenes, [[{"web": ms} for ms in before]], [[{"web": ms} for ms in after]])
    return found


def test_a_service_is_compared_where_it_has_load() -> None:
    """An idle service answers nothing: a minute before, a minute after, and their mean hides every change."""
    idle, busy = _scene(0.0), _scene(500.0, first=10, ms=10.0)
    found = _compared([idle, busy], [60_000.0, 10.0], [60_000.0, 5.0])
    assert found.ratio == pytest.approx(0.5)
    assert found.before == pytest.approx(10.0)
    assert found.after == pytest.approx(5.0)


def test_a_service_that_comes_has_its_share_of_what_it_bears_here() -> None:
    """Its max load is that of this machine: on a small one less than at home."""
    home = catalogs.service("memcached")
    small = replace(catalogs.platform(home.platform), cpus=8, physical_cores=4)
    world = edits.added(edits.catalog_newcomer("memcached", 0.3))(_world(small), 0)
    bears = next(one for one in world.node.services if one.name == "memcached").max_load
    assert bears < 0.5 * home.max_load
    assert world.rates["memcached"] == pytest.approx(0.3 * bears)


def _world(platform: PlatformModel) -> World:
    node = Node(platform, (), (catalogs.job("stream"),))
    return World(node, {"stream": edits.whole(platform)}, {}, {})


def test_who_comes_twice_has_two_names_and_brings_its_own_limit() -> None:
    platform = catalogs.platform("e5-2697v4")
    stream = edits.Newcomer(lambda _member, _platform: catalogs.job("stream"), None, quota=lambda member: member + 2.0)
    comes = edits.added(stream)
    world = comes(comes(comes(_world(platform), 0), 1), 2)
    assert world.jobs == ["stream", "stream-added", "stream-added-2", "stream-added-3"]
    assert [grant.cpu_quota for grant in world.grants.values()] == [None, 2.0, 3.0, 4.0]


def test_who_moves_brings_the_limit_of_its_own() -> None:
    record = watched()
    ensemble = drawn(record, scenes_of(record), {"service-1": 2.5}, 2, np.random.default_rng(0))
    comes = edits.added(mover(ensemble, scenes_of(record)[:1], "service-1"))
    grants = comes(_world(PLATFORM), 1).grants
    assert (grants["service-1"].cpu_quota, grants["stream"].cpu_quota) == (2.5, None)


def test_scenes_with_everybody_who_is_named_are_looked_at() -> None:
    alone = [_scene(9.0, first=20 * at, present=("web", "db")) for at in range(3)]
    beside = [_scene(9.0, first=90, present=("batch", "web")), _scene(9.0, first=200, present=("web", "batch"))]
    longer = [replace(one, intervals=(*one.intervals, *range(300, 305))) for one in alone]
    scenes = (*beside, *longer)
    assert chosen_scenes(scenes) == longer
    assert chosen_scenes(scenes, {"web"}) == longer
    assert chosen_scenes(scenes, {"web", "batch"}) == beside
    with pytest.raises(InputError, match="batch and db were not on the machine together; ask for each of them alone"):
        chosen_scenes(scenes, {"db", "batch"})
    with pytest.raises(InputError, match="'x' is not on the machine in any scene of the twin; there are batch, web"):
        chosen_scenes(scenes, {"x"})


def test_of_a_service_without_any_load_no_change_is_told() -> None:
    found = _compared([_scene(0.0)], [60_000.0], [60_000.0])
    assert found == Change("web", "lc", None, None, None, None, None, 20.0)
    assert found.gain == (0.0, 0.0, 0.0)
