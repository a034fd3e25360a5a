"""Changes that a twin predicts: which scenes they are of, who comes, and what an edit means."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from osml.simulator import catalogs
from osml.simulator.models import PlatformModel
from osml.simulator.state import Node
from osml.twin import edits
from osml.twin.ensemble import Ensemble
from osml.twin.scenes import Reading, Scene, Tenant
from osml.twin.whatif import Change, compared
from osml.twin.world import World

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


def test_of_a_service_without_any_load_no_change_is_told() -> None:
    found = _compared([_scene(0.0)], [60_000.0], [60_000.0])
    assert found == Change("web", "lc", None, None, None, None, None, 20.0)
    assert found.gain == (0.0, 0.0, 0.0)
