"""Prometheus metrics: an own registry, children looked up once, every series there from the start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

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
LONGEST_INTERVAL_S = 60.0  # that a node's first observation stands for
BYTES = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144)

NODE_STATES = ("met", "missed", "unmeasured")
NODE_GAUGES = {
    "osml_node_e_s": "System entropy E_S of the last observation of the node; 0 is best.",
    "osml_node_violations": "LC services of the node above their latency target.",
}
NODE_MISSED = "osml_node_missed_seconds"
NODE_MISSED_TEXT = "Time in which an LC service of the node was above its target; it adds up over replicas."


class NodeFigures(NamedTuple):
    """What is exported of a node that reports."""

    node: str
    e_s: float | None
    violations: int
    missed_s: float


class Metrics:
    """Counters of one server process."""

    def __init__(self, policies: Sequence[str]) -> None:
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
        self.unknown_keys = Counter(
            "osml_unknown_keys_total",
            "Keys of requests that this version does not know and left out.",
            registry=self.registry,
        )
        self.states_discarded = Counter(
            "osml_states_discarded_total",
            "Times that a policy failed with the state of a node and started anew.",
            registry=self.registry,
        )
        errors = Counter("osml_errors_total", "Error answers by code.", ["code"], registry=self.registry)
        self._errors = {code: errors.labels(code) for code in CODES}
        self.decision_seconds = Histogram(
            "osml_decision_seconds",
            "Time from the complete request body to the decision; without slow policies.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.request_bytes = Histogram(
            "osml_request_bytes", "Length of request bodies.", buckets=BYTES, registry=self.registry
        )
        self.in_flight = Gauge("osml_in_flight", "Requests with a body in progress.", registry=self.registry)
        self.ready = Gauge("osml_ready", "1 if the server is ready.", registry=self.registry)
        policies_ready = Gauge(
            "osml_policy_ready",
            "1 if the policy decides; 0 while its process starts, or where it is not available.",
            ["policy"],
            registry=self.registry,
        )
        self._policies_ready = {policy: policies_ready.labels(policy) for policy in policies}
        self.viewers = Gauge("osml_event_streams", "Open event streams.", registry=self.registry)
        self.viewers_dropped = Counter(
            "osml_event_streams_dropped_total",
            "Event streams that the server closed because the reader was too slow.",
            registry=self.registry,
        )
        self.nodes_dropped = Counter(
            "osml_nodes_dropped_total",
            "Observations of nodes that the live view and the metrics of nodes omit, because the limit is reached.",
            registry=self.registry,
        )
        seconds = Counter(
            "osml_node_seconds_total",
            "Time that observations of all nodes stand for, by state; its rate is a number of nodes.",
            ["state"],
            registry=self.registry,
        )
        self._node_seconds = {state: seconds.labels(state) for state in NODE_STATES}
        self.infeasible_seconds = Counter(
            "osml_infeasible_node_seconds_total",
            "Time for which the policy reported that a node cannot satisfy its services, over all nodes.",
            registry=self.registry,
        )
        self._figures: Callable[[], Iterable[NodeFigures]] = tuple

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
        self.store_up = Gauge(
            "osml_experience_store_up",
            "1 if the experience store works; absent with --store none.",
            registry=self.registry,
        )

    def decision(self, policy: str, status: str) -> None:
        """Count a decision."""
        child = self._decisions.get((policy, status)) or self._decisions[UNKNOWN, status]
        child.inc()

    def error(self, code: str) -> None:
        """Count an error answer."""
        self._errors[code].inc()

    def node(self, seconds: float, *, missed: bool, unmeasured: bool, infeasible: bool) -> None:
        """Count the time that one observation stands for."""
        state = "missed" if missed else "unmeasured" if unmeasured else "met"
        self._node_seconds[state].inc(seconds)
        if infeasible:
            self.infeasible_seconds.inc(seconds)

    def watch_policies(self, decides: Callable[[str], bool]) -> None:
        """Export which policies decide at this moment."""
        for policy, gauge in self._policies_ready.items():
            gauge.set_function(partial(decides, policy))

    def without_store(self) -> None:
        """Export nothing of a store that the operator does not want: 0 is one that does not work."""
        self.registry.unregister(self.store_up)

    def watch_nodes(self, figures: Callable[[], Iterable[NodeFigures]]) -> None:
        """Export the figures of the nodes that report."""
        self._figures = figures

    def watch_log(self, lost: Callable[[], int]) -> None:
        """Export how many lines of the log could not be written."""
        self.registry.register(_Log(lost))

    def text(self) -> bytes:
        """Everything, in Prometheus' text format.

        The lines of nodes are written here: the library takes 10 times as long, and 10,000 nodes have 30,000 of them.
        """
        return generate_latest(self.registry) + _node_lines(self._figures())

    def families(self) -> Iterable[Metric]:
        """All metrics, with a node as an example."""
        yield from self.registry.collect()
        gauges = [GaugeMetricFamily(name, text, labels=["node"]) for name, text in NODE_GAUGES.items()]
        for family in (*gauges, CounterMetricFamily(NODE_MISSED, NODE_MISSED_TEXT, labels=["node"])):
            family.add_metric(["node"], 0)
            yield family


def _node_lines(figures: Iterable[NodeFigures]) -> bytes:
    """Names of nodes need no escaping (domain.Name). What was not measured is no sample, not a 0."""
    nodes = list(figures)
    values: dict[str, list[str]] = {
        "osml_node_e_s": [f'osml_node_e_s{{node="{n.node}"}} {n.e_s}\n' for n in nodes if n.e_s is not None],
        "osml_node_violations": [f'osml_node_violations{{node="{n.node}"}} {n.violations}\n' for n in nodes],
    }
    heads = {name: f"# HELP {name} {text}\n# TYPE {name} gauge\n" for name, text in NODE_GAUGES.items()}
    parts = [head + "".join(values[name]) for name, head in heads.items()]
    total = f"{NODE_MISSED}_total"
    parts.append(f"# HELP {total} {NODE_MISSED_TEXT}\n# TYPE {total} counter\n")
    parts.extend(f'{total}{{node="{n.node}"}} {n.missed_s}\n' for n in nodes)
    return "".join(parts).encode()


class _Log(Collector):
    def __init__(self, lost: Callable[[], int]) -> None:
        self._lost = lost

    def collect(self) -> Iterable[Metric]:
        lines = CounterMetricFamily("osml_log_lines_lost", "Log lines that were lost.")
        lines.add_metric([], self._lost())
        yield lines
