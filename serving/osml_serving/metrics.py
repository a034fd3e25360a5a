"""Prometheus metrics: an own registry, children looked up once, every series there from the start."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from osml_serving import __version__
from osml_serving.errors import CODES

UNKNOWN = "unknown"  # label for requests whose policy is not one of ours: names from outside never become series
STATUSES = ("ok", "refused", "failed", "late")
SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
BYTES = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144)

NodeFigures = Callable[[], Iterable[tuple[str, float | None, int]]]  # (node, E_S, violations)


class Metrics:
    """Counters of one server process."""

    def __init__(self, policies: Iterable[str]) -> None:
        disable_created_metrics()  # they would double the number of series
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        build = Gauge("osml_build_info", "Version of the server.", ["version"], registry=self.registry)
        build.labels(__version__).set(1)
        decisions = Counter(
            "osml_decisions_total", "Decisions by policy and status.", ["policy", "status"], registry=self.registry
        )
        self._decisions = {
            (policy, status): decisions.labels(policy, status) for policy in [*policies, UNKNOWN] for status in STATUSES
        }
        self.states_discarded = Counter(
            "osml_states_discarded_total",
            "Times that a policy failed with the state of a node and started anew.",
            registry=self.registry,
        )
        errors = Counter("osml_errors_total", "Error answers by code.", ["code"], registry=self.registry)
        self._errors = {code: errors.labels(code) for code in CODES}
        self.decision_seconds = Histogram(
            "osml_decision_seconds",
            "Time from the complete request body to the encoded answer.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.request_bytes = Histogram(
            "osml_request_bytes", "Length of request bodies.", buckets=BYTES, registry=self.registry
        )
        self.in_flight = Gauge("osml_in_flight", "Requests with a body in progress.", registry=self.registry)
        self.ready = Gauge("osml_ready", "1 if the server is ready.", registry=self.registry)
        self.viewers = Gauge("osml_event_streams", "Open event streams.", registry=self.registry)
        self.viewers_dropped = Counter(
            "osml_event_streams_dropped_total",
            "Event streams that the server closed because the reader was too slow.",
            registry=self.registry,
        )
        self.nodes_dropped = Counter(
            "osml_nodes_dropped_total",
            "Observations of nodes that the live view does not show, because its limit is reached.",
            registry=self.registry,
        )

        experiences = Counter("osml_experiences_total", "Experiences by status.", ["status"], registry=self.registry)
        self.experiences_accepted = experiences.labels("accepted")
        self.experiences_duplicate = experiences.labels("duplicate")
        self.experiences_failed = experiences.labels("failed")
        self.experiences_damaged = Counter(
            "osml_experiences_damaged_total",
            "Reads of damaged rows of the experience store.",
            registry=self.registry,
        )
        self.models_in_use = Gauge("osml_models", "Models in use.", registry=self.registry)
        self.models_refused = Gauge(
            "osml_models_refused", "Models in the folder that were refused.", registry=self.registry
        )
        self.model_exchanges = Counter(
            "osml_model_exchanges_total", "Exchanges of models since the start.", registry=self.registry
        )
        self.store_up = Gauge("osml_experience_store_up", "1 if the experience store works.", registry=self.registry)

    def decision(self, policy: str, status: str) -> None:
        """Count a decision."""
        child = self._decisions.get((policy, status)) or self._decisions[UNKNOWN, status]
        child.inc()

    def error(self, code: str) -> None:
        """Count an error answer."""
        self._errors[code].inc()

    def watch_nodes(self, figures: NodeFigures) -> None:
        """Export gauges of the nodes in the live view; its limit on nodes is their limit too."""
        self.registry.register(_Nodes(figures))

    def watch_log(self, lost: Callable[[], int]) -> None:
        """Export how many lines of the log could not be written."""
        self.registry.register(_Log(lost))

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self.registry)


class _Log(Collector):
    def __init__(self, lost: Callable[[], int]) -> None:
        self._lost = lost

    def collect(self) -> Iterable[Metric]:
        lines = CounterMetricFamily("osml_log_lines_lost", "Log lines that were lost.")
        lines.add_metric([], self._lost())
        yield lines


class _Nodes(Collector):
    def __init__(self, figures: NodeFigures) -> None:
        self._figures = figures

    def collect(self) -> Iterable[Metric]:
        e_s = GaugeMetricFamily(
            "osml_node_e_s", "System entropy E_S of the last observation of the node; 0 is best.", labels=["node"]
        )
        violations = GaugeMetricFamily(
            "osml_node_violations", "LC services of the node above their latency target.", labels=["node"]
        )
        for node, entropy, violated in self._figures():
            if entropy is not None:  # not measured is no sample, not a 0
                e_s.add_metric([node], entropy)
            violations.add_metric([node], violated)
        yield e_s
        yield violations
