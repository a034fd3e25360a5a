"""Changes that a twin predicts: which scenes they are of, who comes, and what an edit means."""

from __future__ import annotations

import math

import numpy as np
import pytest

from osml.simulator import catalogs
from osml.twin.ensemble import Ensemble
from osml.twin.scenes import Reading, Scene, Tenant
from osml.twin.whatif import Change, compared

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


def test_of_a_service_without_any_load_no_change_is_told() -> None:
    found = _compared([_scene(0.0)], [60_000.0], [60_000.0])
    assert found == Change("web", "lc", None, None, None, None, None, 20.0)
    assert found.gain == (0.0, 0.0, 0.0)
