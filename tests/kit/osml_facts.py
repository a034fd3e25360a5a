"""Facts of the policy `osml` for a test that dictates partition, tracks and latencies."""

from __future__ import annotations

from typing import Any

from osml.domain import Partition, Region, Service
from osml.policies.osml.answers.forecast import ask
from osml.policies.osml.answers.models import Models
from osml.policies.osml.facts import Facts, facts_of
from osml.policies.osml.memory.state import OsmlState
from osml.policies.osml.node import node_of
from osml.policies.osml.settings import DEFAULT, Settings
from tests.kit.fake_models import needs, observe


def facts(
    *services: Service,
    cells: dict[str, tuple[int, int]] | None = None,
    before: OsmlState | None = None,
    models: Models | None = None,
    settings: Settings = DEFAULT,
    **more: Any,
) -> Facts:
    """The facts where services have these cells (None: all share everything), after `before`."""
    names = [one.name for one in services]
    regions = [Region(names, 36, 20)] if cells is None else [Region([n], *cell) for n, cell in cells.items()]
    seen = observe(*services, partition=Partition(regions), **more)
    known = models or needs(rate_10=4.0)
    answers = ask(seen, [one for one in services if one.kind == "lc"], known)
    assert isinstance(answers, dict)
    return facts_of(seen, node_of(seen), before or OsmlState(), answers, known, settings)
