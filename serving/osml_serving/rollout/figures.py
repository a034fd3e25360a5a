"""Canaries as Prometheus metrics. Their names come from the operator's file, so that there are few."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from osml_serving.rollout.rollout import CanaryState

ARMS = ("canary", "others")
LABELS = ["canary", "arm"]


class CanaryFigures(Collector):
    """Figures of each canary of the rollout file."""

    def __init__(self, states: Callable[[], Iterable[CanaryState]]) -> None:
        self._states = states

    def collect(self) -> Iterable[Metric]:
        """The metrics; an arm without measurements has no sample."""
        returned = GaugeMetricFamily(
            "osml_canary_returned",
            "1 if the canary was taken back: its nodes have their policy again.",
            labels=["canary"],
        )
        nodes = GaugeMetricFamily("osml_canary_nodes", "Nodes that a canary counts.", labels=LABELS)
        missed = GaugeMetricFamily(
            "osml_canary_missed_share", "Share of time in which a target was missed, mean over nodes.", labels=LABELS
        )
        e_s = GaugeMetricFamily("osml_canary_e_s", "System entropy E_S, mean over nodes.", labels=LABELS)
        unmeasured = GaugeMetricFamily(
            "osml_canary_unmeasured_share",
            "Share of time without the latency of an LC service or an applied decision, mean over nodes.",
            labels=LABELS,
        )
        failures = CounterMetricFamily("osml_canary_failures", "Decisions that failed.", labels=LABELS)
        for state in self._states():
            returned.add_metric([state.name], state.state == "returned")
            for arm, figures in zip(ARMS, (state.canary, state.others), strict=True):
                nodes.add_metric([state.name, arm], figures.nodes)
                failures.add_metric([state.name, arm], figures.failures)
                if figures.missed is not None:
                    missed.add_metric([state.name, arm], figures.missed)
                if figures.unmeasured is not None:
                    unmeasured.add_metric([state.name, arm], figures.unmeasured)
                if figures.e_s is not None:
                    e_s.add_metric([state.name, arm], figures.e_s)
        yield from (returned, nodes, missed, unmeasured, e_s, failures)
