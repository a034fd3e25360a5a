"""What a monitor reads, against the flow that it reads."""

from __future__ import annotations

import numpy as np
import pytest

from osml.simulator.closed_loop import ClosedLoop
from osml.simulator.mix import Mix, node_of
from osml.simulator.queueing import LEVELS


@pytest.mark.parametrize("delay_s", [0.0, 0.1])
def test_a_monitor_reads_no_other_tail_than_the_node_has(delay_s: float) -> None:
    # Requests beside busy siblings were missing in what was read: 2 % for xapian.
    mix = Mix({"xapian": 0.6, "nginx": 0.2, "memcached": 0.3})
    node = node_of(mix, "e5-2697v4")
    loop = ClosedLoop(node, mix.loads, "unmanaged", seed=3, delay_s=delay_s)
    ratios: dict[str, list[float]] = {service.name: [] for service in node.services}
    for interval in loop.run(40.0)[5:]:
        for i, (service, seen) in enumerate(zip(node.services, interval.observed, strict=True)):
            assert seen.latency_ms is not None
            ratios[service.name].append(seen.latency_ms / interval.tail_ms(i, service.percentile))
    for name, found in ratios.items():
        error = np.std(found) / len(found) ** 0.5
        assert np.mean(found) == pytest.approx(1.0, abs=0.003 + 3.0 * float(error)), name


def test_the_spectrum_of_a_flow_has_its_percentiles_and_rises() -> None:
    mix = Mix({"xapian": 0.6, "nginx": 0.2})
    node = node_of(mix, "e5-2697v4")
    for flow in ClosedLoop(node, mix.loads, "unmanaged", seed=3).run(3.0)[-1].flows:
        spectrum = flow.quantiles_ms
        assert spectrum is not None
        assert np.all(np.diff(spectrum) >= 0.0)
        found = np.interp([0.5, 0.95, 0.99], LEVELS, spectrum)
        expected = [flow.p50_ms, flow.p95_ms, flow.p99_ms]
        assert found == pytest.approx(expected, rel=2e-3)  # the median is between two levels
