"""What chance does to queues from second to second, on random nodes."""

from __future__ import annotations

import numpy as np
import pytest

from osml.simulator.engine import advance
from osml.simulator.state import Flow, initial_state
from tests.kit.random_nodes import Case, isolated, random_platform, settled, sharing


def run(case: Case, shocks: np.ndarray | None, seconds: int) -> list[list[Flow]]:
    state, found = initial_state(case.node), list[list[Flow]]()
    for second in range(seconds):
        state, flows = advance(
            case.node, state, case.grants, case.loads, 1.0, None if shocks is None else shocks[second]
        )
        found.append(flows)
    return found


def test_a_node_does_the_same_again_without_shocks_and_with_the_same_ones() -> None:
    rng = np.random.default_rng(5)
    for _ in range(30):
        case = sharing(rng, random_platform(rng))
        shocks = rng.standard_normal((10, len(case.grants)))
        for given in (None, shocks):
            assert str(run(case, given, 10)) == str(run(case, given, 10))  # as text: nan is no nan
        if any(flow.utilisation > 0.3 for flow in settled(case)[: len(case.node.services)]):
            assert str(run(case, shocks, 10)) != str(run(case, None, 10))


def test_chance_moves_waits_about_those_without_it() -> None:
    # Not close to saturation: there 300 s are few independent seconds.
    rng, ratios = np.random.default_rng(6), list[float]()
    while len(ratios) < 40:
        case = isolated(rng, random_platform(rng))
        flow = settled(case)[0]
        if flow.response is None or not 0.4 < flow.utilisation < 0.85 or flow.response.service_ms > 50.0:
            continue
        calm = run(case, None, 60)[-1][0].mean_ms
        seconds = run(case, rng.standard_normal((300, len(case.grants))), 300)
        moved = [flows[0].mean_ms for flows in seconds[50:]]
        assert calm is not None
        ratios.append(float(np.mean(np.array(moved, float))) / calm)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.01)
    assert ratios == pytest.approx([1.0] * len(ratios), abs=0.1)
