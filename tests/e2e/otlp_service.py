"""A service with the OpenTelemetry SDK, set up by its environment: each 10 ms a request that it says took 20 ms."""

from __future__ import annotations

import time

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

provider = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())])
duration = provider.get_meter("web").create_histogram("http.server.request.duration", unit="s")
while True:
    duration.record(0.020, {"http.route": "/search"})
    time.sleep(0.010)
