"""Shadow policies as Prometheus metrics. Their names come from the operator's file."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from osml_serving.shadow.tally import ShadowTally


class ShadowFigures(Collector):
    """Sums of the shadow policies."""

    def __init__(self, tally: ShadowTally) -> None:
        self._tally = tally

    def collect(self) -> Iterable[Metric]:
        """The metrics."""
        intervals = CounterMetricFamily(
            "osml_shadow_intervals",
            "Intervals of a shadow policy: it would have decided the same, other cores or ways, or it failed.",
            labels=["policy", "result"],
        )
        cores = CounterMetricFamily(
            "osml_shadow_moved_cores", "Core units that a shadow policy would have moved.", labels=["policy"]
        )
        ways = CounterMetricFamily(
            "osml_shadow_moved_ways", "Cache ways that a shadow policy would have moved.", labels=["policy"]
        )
        predicted = CounterMetricFamily(
            "osml_shadow_predicted", "Intervals with a predicted E_S (a twin of the node).", labels=["policy"]
        )
        e_s = CounterMetricFamily("osml_shadow_e_s", "Sum of the E_S predicted for a shadow policy.", labels=["policy"])
        decided = CounterMetricFamily(
            "osml_shadow_decided_e_s", "Sum of the E_S predicted for what was decided.", labels=["policy"]
        )
        for policy, sums in self._tally.sums.items():
            for result, count in (("same", sums.same), ("other", sums.other), ("failed", sums.failed)):
                intervals.add_metric([policy, result], count)
            for family, value in (
                (cores, sums.cores),
                (ways, sums.ways),
                (predicted, sums.predicted),
                (e_s, sums.e_s),
                (decided, sums.e_s_decided),
            ):
                family.add_metric([policy], value)
        lost = CounterMetricFamily(
            "osml_shadow_lost", "Intervals that no shadow policy saw, because their process is behind."
        )
        lost.add_metric([], self._tally.lost)
        yield from (intervals, cores, ways, predicted, e_s, decided, lost)
