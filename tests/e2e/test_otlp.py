"""OTLP as docs/how-to/recipes.md has it: the real SDK into telemetry lines and the observation, and hostile clients."""

from __future__ import annotations

import gzip
import json
import random
import re
import shlex
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, ExponentialBucketHistogramAggregation
from opentelemetry.sdk.resources import Resource

from osml.lab.trials.children import Child, Children, free_port, wait_until
from tests.e2e.conftest import Bench
from tests.e2e.test_recipes import answers, blocks
from tests.e2e.test_telemetry_and_metrics import Monitored

ROOT = Path(__file__).resolve().parents[2]
PROTOBUF = {"content-type": "application/x-protobuf"}
METRIC = "http.server.request.duration"
BOUNDS_S = [0.001 * 1.2**k for k in range(40)]
Json = dict[str, Any]


class Bridge:
    """osml-latency as the recipe starts it, and a socket in the place of the agent's."""

    def __init__(self, children: Children, agent: Path, tmp_path: Path, *more: str, to: Path | None = None) -> None:
        self.port = free_port()
        self._children = children
        self.inbox = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        if to is None:
            to = tmp_path / "bridge.sock"
            self.inbox.bind(str(to))
        self.inbox.settimeout(0.2)
        [command] = blocks("sh", "OpenTelemetry")
        command = command.replace("127.0.0.1:4318", f"127.0.0.1:{self.port}")
        program, *options = shlex.split(re.sub(r"unix:\S+", f"unix:{to}", command))
        self._command = [str(agent.parent / "latency" / program), *options, *more]
        self.start()

    def start(self) -> None:
        self.child: Child = self._children.start("latency", self._command)
        wait_until(lambda: answers(self.port), "osml-latency to listen", [self.child])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/metrics"

    def lines(self) -> list[Json]:
        """What has come; empty where nothing came for a moment."""
        found: list[Json] = []
        try:
            while True:
                found.append(json.loads(self.inbox.recv(8192)))
        except TimeoutError:
            return found

    def wait_for(self, requests: int, pause_s: float = 1.1) -> list[Json]:
        """The lines of so many requests, and of not one more within the pause."""
        found: list[Json] = []

        def enough() -> bool:
            found.extend(self.lines())
            return sum(line["samples"] for line in found) >= requests

        wait_until(enough, f"{requests} requests", [self.child], timeout_s=30)
        time.sleep(pause_s)
        found += self.lines()
        assert sum(line["samples"] for line in found) == requests
        return found

    def post(self, content: bytes, **headers: str) -> httpx.Response:
        return httpx.post(self.url, content=content, headers=PROTOBUF | headers, timeout=30)

    def peak_mib(self) -> float:
        status = Path(f"/proc/{self.child.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 1024


@pytest.fixture
def bridge(children: Children, agent: Path, tmp_path: Path) -> Iterator[Bridge]:
    made = Bridge(children, agent, tmp_path)
    yield made
    made.inbox.close()


class Service:
    """A service with the SDK, which exports when it is told to."""

    def __init__(self, url: str, service: str = "search", **exporter: Any) -> None:
        self._exporter = OTLPMetricExporter(endpoint=url, **exporter)
        self.reader = PeriodicExportingMetricReader(self._exporter, export_interval_millis=float("inf"))
        self._provider = MeterProvider([self.reader], resource=Resource.create({"service.name": service}))
        self._duration = self._provider.get_meter("web").create_histogram(METRIC, unit="s")

    def serve(self, latencies_s: Sequence[float], route: str = "/search") -> None:
        for latency_s in latencies_s:
            self._duration.record(latency_s, {"http.route": route})

    def export(self) -> None:
        assert self._provider.force_flush()

    def end(self) -> None:
        self._provider.shutdown()


@pytest.fixture
def service(bridge: Bridge) -> Iterator[Callable[..., Service]]:
    made: list[Service] = []

    def make(**options: Any) -> Service:
        made.append(Service(bridge.url, **options))
        return made[-1]

    yield make
    for one in made:
        one.end()


def latencies(count: int, seed: int = 3) -> list[float]:
    source = random.Random(seed)
    return [0.008 * source.lognormvariate(0, 0.6) for _ in range(count)]


def expected_ms(latencies_s: Sequence[float], share: float) -> float:
    return sorted(latencies_s)[int(share * len(latencies_s))] * 1000


EXPLICIT = ExplicitBucketHistogramAggregation(BOUNDS_S)
EXPONENTIAL = ExponentialBucketHistogramAggregation()


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip, Compression.Deflate])
@pytest.mark.parametrize("temporality", [AggregationTemporality.CUMULATIVE, AggregationTemporality.DELTA])
@pytest.mark.parametrize(("aggregation", "error"), [(EXPLICIT, 0.2), (EXPONENTIAL, 0.03)], ids=["plain", "exponential"])
def test_a_known_distribution_comes_out_as_it_went_in(
    bridge: Bridge, service: Callable[..., Service], aggregation: Any, error: float, temporality: Any, compression: Any
) -> None:
    one = service(
        preferred_aggregation={Histogram: aggregation},
        preferred_temporality={Histogram: temporality},
        compression=compression,
    )
    one.serve(latencies(10, seed=1))
    one.export()
    bridge.wait_for(10, pause_s=0)  # an export may cover three seconds
    served = latencies(1000)
    one.serve(served)
    one.export()
    [line] = bridge.wait_for(1000)
    assert line["mean_ms"] == pytest.approx(statistics.fmean(served) * 1000)
    for key, share in (("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99)):
        assert line[key] == pytest.approx(expected_ms(served, share), rel=error)
    assert 1000 / 3 < line["requests_per_s"] < 1000 / 0.5  # since the export before


def test_the_environment_of_the_recipe_sets_up_a_service(bridge: Bridge, children: Children) -> None:
    [text] = blocks("ini", "OpenTelemetry")
    env = dict(line.split("=", 1) for line in text.split())
    env["OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"] = bridge.url
    child = children.start("service", [sys.executable, str(ROOT / "tests/e2e/otlp_service.py")], env)
    found: list[Json] = []

    def several() -> bool:
        found.extend(bridge.lines())
        return len(found) >= 4

    wait_until(several, "four lines", [child, bridge.child], timeout_s=60)
    for line in found:
        assert line["p50_ms"] == pytest.approx(20, rel=0.01)
        assert line["p99_ms"] == pytest.approx(20, rel=0.01)
        assert 20 < line["requests_per_s"] <= 200


def test_the_agent_observes_what_a_service_exports(bench: Bench, children: Children, tmp_path: Path) -> None:
    monitored = Monitored(bench, tmp_path)
    bridge = Bridge(children, bench.agent, tmp_path, "--interval-s", "0.5", to=monitored.socket_path)
    one = Service(bridge.url, preferred_aggregation={Histogram: EXPONENTIAL})

    def observed() -> bool:
        one.serve([0.0045] * 100)
        one.export()
        time.sleep(0.2)
        return (monitored.latency() or {}).get("p99_ms") == pytest.approx(4.5, rel=0.01)

    monitored.wait(observed, "p99 of 4.5 ms in the observation")
    latency = monitored.latency()
    assert latency is not None
    assert latency["mean_ms"] == pytest.approx(4.5)
    assert latency["samples"] % 100 == 0
    one.end()


def test_several_processes_of_a_service_count_together(bridge: Bridge, service: Callable[..., Service]) -> None:
    plain = {"preferred_aggregation": {Histogram: EXPLICIT}}
    pods = [service(**plain), service(**plain), service(preferred_aggregation={Histogram: EXPONENTIAL})]
    other = service(service="shop", **plain)
    for pod, latency_s in zip(pods, (0.010, 0.010, 0.100), strict=True):
        pod.serve([latency_s] * 100)
    other.serve([5.0] * 100)
    for one in [*pods, other]:
        one.export()
        one.export()  # without a new request
    found = bridge.wait_for(300)
    assert max(line["p99_ms"] for line in found) == pytest.approx(100, rel=0.02)
    assert sum(line["mean_ms"] * line["samples"] for line in found) == pytest.approx(12_000)


def test_a_restart_of_the_service_and_one_of_osml_latency_lose_no_truth(
    bridge: Bridge, service: Callable[..., Service], children: Children
) -> None:
    before = service()
    before.serve([0.010] * 50)
    before.export()
    bridge.wait_for(50)
    after = service()  # counts from 0 again
    after.serve([0.010] * 20)
    after.export()
    bridge.wait_for(20)
    time.sleep(2)  # so that the series began longer ago than a point may describe
    after.export()
    children.stop(bridge.child)
    assert bridge.child.exit_code == 0
    bridge.start()
    after.export()  # the base: what came before is not of this interval
    after.serve([0.010] * 7)
    after.export()
    bridge.wait_for(7)


def request_of(*points: metrics_pb2.HistogramDataPoint, temporality: int = 2) -> bytes:
    request = ExportMetricsServiceRequest()
    resource = request.resource_metrics.add()
    resource.resource.attributes.append(KeyValue(key="service.name", value=AnyValue(string_value="search")))
    metric = resource.scope_metrics.add().metrics.add(name=METRIC, unit="s")
    metric.histogram.aggregation_temporality = temporality
    metric.histogram.data_points.extend(points)
    return request.SerializeToString()


def point(start_ns: int, time_ns: int, count: int = 10) -> metrics_pb2.HistogramDataPoint:
    return metrics_pb2.HistogramDataPoint(
        start_time_unix_nano=start_ns, time_unix_nano=time_ns, count=count, sum=count * 0.005,
        bucket_counts=[count, 0], explicit_bounds=[0.01],
    )  # fmt: skip


def test_exports_once_a_minute_are_no_latency_and_the_service_hears_why(bridge: Bridge) -> None:
    now = time.time_ns()
    minute = 60 * 10**9
    first = bridge.post(request_of(point(now - 2 * minute, now - minute), temporality=1))
    assert first.status_code == 200  # too old, by the clock of this machine
    response = ExportMetricsServiceResponse.FromString(first.content)
    assert response.partial_success.rejected_data_points == 1
    begun = now - 10 * minute
    assert bridge.post(request_of(point(begun, now - 10**9 * 2 - minute))).content == b""
    answer = ExportMetricsServiceResponse.FromString(bridge.post(request_of(point(begun, time.time_ns(), 90))).content)
    assert answer.partial_success.rejected_data_points == 1
    assert "set OTEL_METRIC_EXPORT_INTERVAL=1000 for the service" in answer.partial_success.error_message
    assert bridge.lines() == []
    assert "expected at most 3 s" in bridge.child.log.read_text()


def test_json_is_the_other_encoding(bridge: Bridge) -> None:
    now = time.time_ns()
    body = {
        "resourceMetrics": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "search"}}]},
                "scopeMetrics": [
                    {
                        "metrics": [
                            {
                                "name": METRIC,
                                "unit": "s",
                                "histogram": {
                                    "aggregationTemporality": 1,
                                    "dataPoints": [
                                        {
                                            "startTimeUnixNano": str(now - 10**9),
                                            "timeUnixNano": str(now),
                                            "count": "4",
                                            "sum": 0.08,
                                            "bucketCounts": ["0", "4", "0"],
                                            "explicitBounds": [0.01, 0.03],
                                        }
                                    ],
                                },
                            }
                        ]
                    }
                ],
            }
        ]
    }
    answer = httpx.post(bridge.url, json=body)
    assert (answer.status_code, answer.headers["content-type"], answer.json()) == (200, "application/json", {})
    [line] = bridge.wait_for(4)
    assert line["p50_ms"] == pytest.approx(20)
    assert line["mean_ms"] == pytest.approx(20)
    body["resourceMetrics"][0]["scopeMetrics"] = "all"
    refused = httpx.post(bridge.url, json=body)
    assert refused.status_code == 400
    assert 'scopeMetrics is "all", expected a list' in refused.json()["message"]


def field(number: int, content: bytes) -> bytes:
    """A text or a message in the encoding of protobuf."""
    length, head = len(content), bytes([number << 3 | 2])
    while length > 127:
        head += bytes([length & 127 | 128])
        length >>= 7
    return head + bytes([length]) + content


def empty_messages(count: int) -> bytes:
    """A wanted histogram with so many empty points, two bytes each."""
    metric = field(1, METRIC.encode()) + field(9, field(1, b"") * count + b"\x10\x02")
    [resource] = ExportMetricsServiceRequest.FromString(request_of()).resource_metrics
    return field(1, field(1, resource.resource.SerializeToString()) + field(2, field(2, metric)))


HEAD = b"POST /v1/metrics HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 4000000\r\n"
JSON = {"content-type": "application/json"}


def drip(port: int, text: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port))
    client.sendall(text)
    return client


def test_hostile_clients_hold_up_nobody_and_take_little_memory(bridge: Bridge, service: Callable[..., Service]) -> None:
    slow = [drip(bridge.port, HEAD + b"\r\n" + b"x" * 900_000) for _ in range(30)]
    slow += [drip(bridge.port, b"POST /v1/metr") for _ in range(300)]
    statuses = [
        bridge.post(b"\xff" * 1000).status_code,
        bridge.post(bytes(5_000_000)).status_code,
        bridge.post(gzip.compress(bytes(500_000_000)), **{"content-encoding": "gzip"}).status_code,
        bridge.post(b"[" * 1_000_000, **JSON).status_code,
        bridge.post(
            b'{"resourceMetrics":[' + b"[]," * 300_000 + b"[]]}", **{"content-type": "application/json"}
        ).status_code,
        bridge.post(b"x", **{"content-encoding": "zstd"}).status_code,
        bridge.post(b"x", **{"content-type": "text/plain"}).status_code,
        httpx.post(bridge.url.replace("metrics", "traces"), headers=PROTOBUF).status_code,
        httpx.get(bridge.url).status_code,
    ]
    assert statuses == [400, 413, 413, 400, 200, 415, 415, 404, 405]
    assert httpx.get(bridge.url).headers["allow"] == "POST"
    many = ExportMetricsServiceResponse.FromString(bridge.post(empty_messages(1_900_000)).content)
    assert many.partial_success.rejected_data_points == 1_900_000
    one = service()
    began = time.monotonic()
    one.serve([0.010] * 50)
    one.export()
    assert time.monotonic() - began < 8, "a client with a slow body may take 10 s"
    bridge.wait_for(50)
    assert bridge.peak_mib() < 100  # below MemoryMax of the unit
    for client in slow:
        client.close()


def test_its_messages_are_those_of_the_protocol() -> None:
    """otlp.proto has a part of opentelemetry-proto; names, numbers, types and labels are the same."""
    from google.rpc import status_pb2
    from opentelemetry.proto.common.v1 import common_pb2
    from opentelemetry.proto.resource.v1 import resource_pb2

    real = {
        message.DESCRIPTOR.name: message.DESCRIPTOR
        for message in (
            common_pb2.AnyValue, common_pb2.ArrayValue, common_pb2.KeyValueList, common_pb2.KeyValue,
            common_pb2.InstrumentationScope, resource_pb2.Resource, metrics_pb2.HistogramDataPoint,
            metrics_pb2.ExponentialHistogramDataPoint, metrics_pb2.ExponentialHistogramDataPoint.Buckets,
            ExportMetricsServiceResponse, status_pb2.Status,
        )
    }  # fmt: skip
    real["ExportMetricsPartialSuccess"] = ExportMetricsServiceResponse.DESCRIPTOR.fields_by_name[
        "partial_success"
    ].message_type
    text = (ROOT / "actuator/latency/otlp/otlp.proto").read_text()
    message = ""
    compared = 0
    for line in text.splitlines():
        if begun := re.match(r"\s*message (\w+) {", line):
            message = begun[1]
        found = re.match(r"\s*(repeated |optional )?(\w+) (\w+) = (\d+);", line)
        if not found:
            continue
        # the fields after a nested message are those of the message around it
        owner = "ExponentialHistogramDataPoint" if message == "Buckets" and not line.startswith("    ") else message
        field = real[owner].fields_by_name[found[3]]
        kind = field.message_type.name if field.message_type else field_type(field.type)
        assert (field.number, kind) == (int(found[4]), found[2]), line
        assert (found[1] == "repeated ") == field.is_repeated, line
        compared += 1
    assert compared > 35


def field_type(number: int) -> str:
    names = {1: "double", 3: "int64", 4: "uint64", 6: "fixed64", 8: "bool", 9: "string", 12: "bytes", 13: "uint32"}
    names |= {5: "int32", 17: "sint32"}
    return names[number]


def test_the_messages_that_are_walked_over_have_the_numbers_of_the_protocol() -> None:
    text = (ROOT / "actuator/latency/otlp/protobuf.cpp").read_text()
    ours = {name: int(number) for name, number in re.findall(r"constexpr int (\w+) = (\d+);", text)}
    real = {}
    for prefix, message in (
        ("request_", ExportMetricsServiceRequest), ("resource_metrics_", metrics_pb2.ResourceMetrics),
        ("scope_metrics_", metrics_pb2.ScopeMetrics), ("metric_", metrics_pb2.Metric), ("", metrics_pb2.Histogram),
    ):  # fmt: skip
        real |= {prefix + field.name: field.number for field in message.DESCRIPTOR.fields}
    assert len(ours) == 14
    assert ours.items() <= real.items()
    exponential = metrics_pb2.ExponentialHistogram.DESCRIPTOR.fields_by_name
    assert all(exponential[name].number == ours[name] for name in ("data_points", "aggregation_temporality"))
    numbers = metrics_pb2.AggregationTemporality
    assert (numbers.Value("AGGREGATION_TEMPORALITY_DELTA"), numbers.Value("AGGREGATION_TEMPORALITY_CUMULATIVE")) == (
        1,
        2,
    )
    assert metrics_pb2.DataPointFlags.Value("DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK") == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--listen", "udp:127.0.0.1:1"],
            "--listen is 'udp:127.0.0.1:1', expected http:ADDRESS:PORT for",
        ),
        (["--listen", "http:localhost:4318"], "expected http:ADDRESS:PORT with an IPv4 address and a port"),
        (["--attribute", "search"], "--attribute is 'search', expected KEY=VALUE such as service.name=search"),
        (["--attribute", "=search"], "--attribute is '=search', expected KEY=VALUE"),
        (["--name", ""], "--name is empty, expected a word"),
        (["--format", "log"], "--listen is 'http:127.0.0.1:1', expected udp:ADDRESS:PORT or unix:PATH without"),
        (["--format", "log", "--attribute", "a=b"], "--attribute is 'a=b', expected none without --format otlp"),
    ],
)
def test_wrong_options_are_one_sentence(agent: Path, options: list[str], words: str) -> None:
    given = {"--listen": "http:127.0.0.1:1", "--format": "otlp", "--to": "unix:/x"}
    given |= dict(zip(options[::2], options[1::2], strict=True))
    command = [str(agent.parent / "latency/osml-latency"), *(word for pair in given.items() for word in pair)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_address_in_use_is_one_sentence(bridge: Bridge, agent: Path) -> None:
    command = [str(agent.parent / "latency/osml-latency"), "--format", "otlp", "--to", "unix:/x"]
    command += ["--listen", f"http:127.0.0.1:{bridge.port}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode != 0
    assert f"cannot listen on http:127.0.0.1:{bridge.port}" in done.stderr
